import { chainRef, type NftRule, rule, setRef } from "#nft/rule.ts";
import type { NftChain, NftTable } from "#nft/state.ts";
import {
  type ChoiceChain,
  choiceChainName,
  choiceChains,
  DROP_CHAIN,
  LOCAL_BASE,
  REFUSE_CHAIN,
  SET_SPECS,
  setName,
} from "./names.ts";

/**
 * The same on every node, so that a client whose packets arrive at another node finds the same endpoint. Any number
 * will do.
 */
const STICKY_SEED = 0x6c61_6273;

/**
 * The chain that chooses a slot and rewrites the destination to the endpoint in it. Only the first packet of a flow
 * comes here; conntrack treats the rest.
 */
function renderChoice(of: ChoiceChain): NftChain {
  return { rules: [choiceRuleV4(of), choiceRuleV6(of)] };
}

function choiceRuleV4({ choice, scope, slots }: ChoiceChain): NftRule {
  const map = setRef(setName("endpoints", "4"));
  const base = scope === "all" ? 0 : LOCAL_BASE;
  if (choice === "pick")
    return rule`dnat ip to numgen random mod ${slots} offset ${base} . ip daddr . meta l4proto . th dport map ${map}`;
  return rule`dnat ip to jhash ip saddr mod ${slots} seed ${STICKY_SEED} offset ${base} . ip daddr . meta l4proto . th dport map ${map}`;
}

function choiceRuleV6({ choice, scope, slots }: ChoiceChain): NftRule {
  const map = setRef(setName("endpoints", "6"));
  const base = scope === "all" ? 0 : LOCAL_BASE;
  if (choice === "pick")
    return rule`dnat ip6 to numgen random mod ${slots} offset ${base} . ip6 daddr . meta l4proto . th dport map ${map}`;
  return rule`dnat ip6 to jhash ip6 saddr mod ${slots} seed ${STICKY_SEED} offset ${base} . ip6 daddr . meta l4proto . th dport map ${map}`;
}

/**
 * The whole table around `elements`. Chains and rules are always the same.
 *
 * Everything hangs on nat hooks, which see the first packet of each flow only: established traffic pays nothing.
 */
export function renderTable(elements: ReadonlyMap<string, ReadonlyMap<string, string>>): NftTable {
  const chains = new Map<string, NftChain>([
    [REFUSE_CHAIN, { rules: [rule`meta l4proto tcp reject with tcp reset`, rule`reject`] }],
    [DROP_CHAIN, { rules: [rule`drop`] }],
    ["dispatch", { rules: dispatchRules() }],
    [
      "prerouting",
      {
        hook: { type: "nat", hook: "prerouting", priority: -100 },
        rules: [rule`goto ${chainRef("dispatch")}`],
      },
    ],
    [
      "output",
      { hook: { type: "nat", hook: "output", priority: -100 }, rules: [rule`goto ${chainRef("dispatch")}`] },
    ],
    ["postrouting", { hook: { type: "nat", hook: "postrouting", priority: 100 }, rules: postroutingRules() }],
  ]);
  for (const chain of choiceChains()) chains.set(choiceChainName(chain), renderChoice(chain));
  const sets = new Map(
    [...SET_SPECS].map(([name, spec]) => [name, { ...spec, elements: elements.get(name) ?? new Map() }]),
  );
  return { chains, sets };
}

function dispatchRules(): readonly NftRule[] {
  const { v4, v6 } = refs();
  return [
    rule`ip saddr != ${v4.cluster} fib saddr type != local ip daddr . meta l4proto . th dport vmap ${v4.external}`,
    rule`ip6 saddr != ${v6.cluster} fib saddr type != local ip6 daddr . meta l4proto . th dport vmap ${v6.external}`,
    rule`ip daddr . meta l4proto . th dport vmap ${v4.services}`,
    rule`ip6 daddr . meta l4proto . th dport vmap ${v6.services}`,
    // A port that no Service has. An address that is also the node's own keeps its other ports.
    rule`ip daddr ${v4.virtual} fib daddr type != local goto ${chainRef(REFUSE_CHAIN)}`,
    rule`ip6 daddr ${v6.virtual} fib daddr type != local goto ${chainRef(REFUSE_CHAIN)}`,
  ];
}

function postroutingRules(): readonly NftRule[] {
  const { v4, v6 } = refs();
  return [
    rule`ct status dnat ip saddr . ip daddr ${v4.hairpin} masquerade fully-random`,
    rule`ct status dnat ip6 saddr . ip6 daddr ${v6.hairpin} masquerade fully-random`,
    rule`ct status dnat ip saddr != ${v4.cluster} ct original ip daddr ${v4.masquerade} masquerade fully-random`,
    rule`ct status dnat ip6 saddr != ${v6.cluster} ct original ip6 daddr ${v6.masquerade} masquerade fully-random`,
  ];
}

function refs() {
  const of = (family: "4" | "6") => ({
    cluster: setRef(setName("cluster", family)),
    external: setRef(setName("external", family)),
    services: setRef(setName("services", family)),
    virtual: setRef(setName("virtual", family)),
    hairpin: setRef(setName("hairpin", family)),
    masquerade: setRef(setName("masquerade", family)),
  });
  return { v4: of("4"), v6: of("6") };
}
