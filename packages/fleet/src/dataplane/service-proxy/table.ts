import { chainRef, type NftRule, rule, setRef } from "@fairlead/os/nft/rule.ts";
import type { NftChain, NftSet, NftSetSpec, NftTable } from "@fairlead/os/nft/state.ts";
import {
  affinityTimeouts,
  type ChoiceChain,
  choiceChainName,
  choiceChains,
  DROP_CHAIN,
  LOCAL_BASE,
  REFUSE_CHAIN,
  rememberChainName,
  SET_SPECS,
  setName,
  TABLE_SIZES,
} from "./names.ts";

/**
 * The chain that chooses a slot and rewrites the destination to the endpoint in it. Only the first packet of a flow
 * comes here; conntrack treats the rest. A lookup that finds nothing ends its rule, and the next one has its turn.
 */
function renderChoice(of: ChoiceChain): NftChain {
  if (of.choice === "pick") return { rules: [pickV4(of), pickV6(of)] };
  // Only tables are chosen from by a hash.
  const isTable = TABLE_SIZES.some((it) => it === of.slots);
  return { rules: [KNOWN_CLIENT, pickV4(of), ...(isTable ? [hashV6(of)] : [])] };
}

const KNOWN_CLIENT = rule`dnat ip to ip saddr . ip daddr . meta l4proto . th dport map ${setRef(setName("affinity", "4"))}`;

function pickV4({ scope, slots }: ChoiceChain): NftRule {
  const map = setRef(setName("endpoints", "4"));
  const base = scope === "all" ? 0 : LOCAL_BASE;
  return rule`dnat ip to numgen random mod ${slots} offset ${base} . ip daddr . meta l4proto . th dport map ${map}`;
}

function pickV6({ scope, slots }: ChoiceChain): NftRule {
  const map = setRef(setName("endpoints", "6"));
  const base = scope === "all" ? 0 : LOCAL_BASE;
  return rule`dnat ip6 to numgen random mod ${slots} offset ${base} . ip6 daddr . meta l4proto . th dport map ${map}`;
}

/** The same on every node. Any number will do. */
const HASH_SEED = 0x6c61_6273;

/**
 * IPv6 clients are known by a hash of their address: nft 1.0.6 cannot write a rule that puts more than 16 bytes of key
 * into a map ("Assertion `dreg < ctx->reg_low' failed").
 */
function hashV6({ scope, slots }: ChoiceChain): NftRule {
  const map = setRef(setName("endpoints", "6"));
  const base = scope === "all" ? 0 : LOCAL_BASE;
  return rule`dnat ip6 to jhash ip6 saddr mod ${slots} seed ${HASH_SEED} offset ${base} . ip6 daddr . meta l4proto . th dport map ${map}`;
}

/** Records the endpoint of a flow under its client, with a new timeout for every flow: only idle time counts. */
function renderRemember(seconds: number): NftChain {
  const map = setRef(setName("affinity", "4"));
  return {
    rules: [
      rule`meta l4proto tcp update ${map} { ct original ip saddr . ct original ip daddr . meta l4proto . ct original proto-dst timeout ${seconds}s : ip daddr . th dport }`,
      rule`meta l4proto udp update ${map} { ct original ip saddr . ct original ip daddr . meta l4proto . ct original proto-dst timeout ${seconds}s : ip daddr . th dport }`,
    ],
  };
}

/**
 * The whole table around `elements`. Chains and rules are always the same.
 *
 * Everything hangs on nat hooks, which see the first packet of each flow only: established traffic pays nothing.
 */
export function renderTable(elements: ReadonlyMap<string, ReadonlyMap<string, string>>): NftTable {
  const chains = new Map<string, NftChain>([
    [REFUSE_CHAIN, REFUSE],
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
    // Before sources are rewritten, at the same hook.
    ["affinity", { hook: { type: "nat", hook: "postrouting", priority: 99 }, rules: affinityRules() }],
    ["postrouting", { hook: { type: "nat", hook: "postrouting", priority: 100 }, rules: postroutingRules() }],
  ]);
  for (const [name, chain] of renderChoices()) chains.set(name, chain);
  return { chains, sets: renderSets(SET_SPECS, elements) };
}

/** The chains that elements lead to. */
export function renderChoices(): ReadonlyMap<string, NftChain> {
  return new Map([
    ...choiceChains().map((it) => [choiceChainName(it), renderChoice(it)] as const),
    ...affinityTimeouts().map((it) => [rememberChainName(it), renderRemember(it)] as const),
  ]);
}

export function renderSets(
  specs: ReadonlyMap<string, NftSetSpec>,
  elements: ReadonlyMap<string, ReadonlyMap<string, string>>,
): ReadonlyMap<string, NftSet> {
  return new Map(
    [...specs].map(([name, spec]) => [name, { ...spec, elements: elements.get(name) ?? new Map() }]),
  );
}

/** Refuses a connection: a reset, or "port unreachable". */
export const REFUSE: NftChain = { rules: [rule`meta l4proto tcp reject with tcp reset`, rule`reject`] };

function dispatchRules(): readonly NftRule[] {
  const { v4, v6 } = refs();
  return [
    rule`ip daddr . meta l4proto . th dport ${v4.guarded} ip daddr . meta l4proto . th dport . ip saddr != ${v4.allowed} drop`,
    rule`ip6 daddr . meta l4proto . th dport ${v6.guarded} ip6 daddr . meta l4proto . th dport . ip6 saddr != ${v6.allowed} drop`,
    // At the node's own addresses pods of other nodes come from outside; at others no pod of the cluster does.
    rule`fib daddr type local ip saddr != ${v4.own} fib saddr type != local ip daddr . meta l4proto . th dport vmap ${v4.external}`,
    rule`fib daddr type local ip6 saddr != ${v6.own} fib saddr type != local ip6 daddr . meta l4proto . th dport vmap ${v6.external}`,
    rule`fib daddr type != local ip saddr != ${v4.cluster} fib saddr type != local ip daddr . meta l4proto . th dport vmap ${v4.external}`,
    rule`fib daddr type != local ip6 saddr != ${v6.cluster} fib saddr type != local ip6 daddr . meta l4proto . th dport vmap ${v6.external}`,
    rule`ip daddr . meta l4proto . th dport vmap ${v4.services}`,
    rule`ip6 daddr . meta l4proto . th dport vmap ${v6.services}`,
    // A port that no Service has. An address that is also the node's own keeps its other ports.
    rule`ip daddr ${v4.virtual} fib daddr type != local goto ${chainRef(REFUSE_CHAIN)}`,
    rule`ip6 daddr ${v6.virtual} fib daddr type != local goto ${chainRef(REFUSE_CHAIN)}`,
  ];
}

/**
 * Notes which endpoint a client was given. nft 1.0.6 knows the type of `ct original proto-dst` only behind a match of the protocol.
 */
export function affinityRules(): readonly NftRule[] {
  const map = setRef(setName("remember", "4"));
  return [
    rule`ct status dnat meta l4proto tcp ct original ip daddr . meta l4proto . ct original proto-dst . ip daddr . th dport vmap ${map}`,
    rule`ct status dnat meta l4proto udp ct original ip daddr . meta l4proto . ct original proto-dst . ip daddr . th dport vmap ${map}`,
  ];
}

/** What came to a port of this node, wherever from. */
export function masqueradeRules(): readonly NftRule[] {
  const { v4, v6 } = refs();
  return [
    rule`ct status dnat meta l4proto tcp ct original ip daddr . meta l4proto . ct original proto-dst ${v4.all} masquerade fully-random`,
    rule`ct status dnat meta l4proto udp ct original ip daddr . meta l4proto . ct original proto-dst ${v4.all} masquerade fully-random`,
    rule`ct status dnat meta l4proto tcp ct original ip6 daddr . meta l4proto . ct original proto-dst ${v6.all} masquerade fully-random`,
    rule`ct status dnat meta l4proto udp ct original ip6 daddr . meta l4proto . ct original proto-dst ${v6.all} masquerade fully-random`,
  ];
}

function postroutingRules(): readonly NftRule[] {
  const { v4, v6 } = refs();
  return [
    rule`ct status dnat ip saddr . ip daddr ${v4.hairpin} masquerade fully-random`,
    rule`ct status dnat ip6 saddr . ip6 daddr ${v6.hairpin} masquerade fully-random`,
    ...masqueradeRules(),
    rule`ct status dnat meta l4proto tcp ip saddr != ${v4.cluster} ct original ip daddr . meta l4proto . ct original proto-dst ${v4.masquerade} masquerade fully-random`,
    rule`ct status dnat meta l4proto udp ip saddr != ${v4.cluster} ct original ip daddr . meta l4proto . ct original proto-dst ${v4.masquerade} masquerade fully-random`,
    rule`ct status dnat meta l4proto tcp ip6 saddr != ${v6.cluster} ct original ip6 daddr . meta l4proto . ct original proto-dst ${v6.masquerade} masquerade fully-random`,
    rule`ct status dnat meta l4proto udp ip6 saddr != ${v6.cluster} ct original ip6 daddr . meta l4proto . ct original proto-dst ${v6.masquerade} masquerade fully-random`,
  ];
}

function refs() {
  const of = (family: "4" | "6") => ({
    cluster: setRef(setName("cluster", family)),
    own: setRef(setName("own", family)),
    external: setRef(setName("external", family)),
    services: setRef(setName("services", family)),
    virtual: setRef(setName("virtual", family)),
    hairpin: setRef(setName("hairpin", family)),
    masquerade: setRef(setName("masquerade", family)),
    all: setRef(setName("masquerade-all", family)),
    guarded: setRef(setName("guarded", family)),
    allowed: setRef(setName("allowed", family)),
  });
  return { v4: of("4"), v6: of("6") };
}
