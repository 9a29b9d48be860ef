import { chainRef, type NftRule, rule, setRef } from "@fairlead/os/nft/rule.ts";
import type { NftChain, NftTable, NftTableName } from "@fairlead/os/nft/state.ts";
import type { Elements } from "../service-proxy/desired.ts";
import type { TableLayout } from "../service-proxy/kernel-table.ts";
import { DROP_CHAIN, REFUSE_CHAIN, SET_SPECS, type SetKind, setName } from "../service-proxy/names.ts";
import { affinityRules, REFUSE, renderChoices, renderSets } from "../service-proxy/table.ts";

/**
 * The table of virtual IPs in `fleet`: the maps and chains of the service proxy, at other hooks. Only packets from the node and
 * from pods come to a virtual IP: what leaves a tunnel is for the address of an endpoint, or is dropped before.
 */
export const VIRTUAL_IP_TABLE: NftTableName = { family: "inet", name: "fairlead-vips" };

/** `own` has the blocks of virtual IPs. */
const KINDS: ReadonlySet<SetKind> = new Set([
  "services",
  "endpoints",
  "remember",
  "affinity",
  "hairpin",
  "own",
]);

/** The sets of the table. */
export const VIRTUAL_IP_SETS = new Map(
  [...SET_SPECS].filter(([name]) => [...KINDS].some((it) => [`${it}-4`, `${it}-6`].includes(name))),
);

export const VIRTUAL_IP_LAYOUT: TableLayout = {
  table: VIRTUAL_IP_TABLE,
  render: renderVirtualIPs,
  isClosed: true,
};

export function renderVirtualIPs(elements: Elements): NftTable {
  const chains = new Map<string, NftChain>([
    [REFUSE_CHAIN, REFUSE],
    [DROP_CHAIN, { rules: [rule`drop`] }],
    [
      "prerouting",
      // Before fleet addresses are turned into those of pods (-100).
      { hook: { type: "nat", hook: "prerouting", priority: -101 }, rules: DISPATCH },
    ],
    // Before sources are rewritten (100).
    ["affinity", { hook: { type: "nat", hook: "postrouting", priority: 99 }, rules: affinityRules() }],
    ["hairpin", { hook: { type: "nat", hook: "postrouting", priority: 101 }, rules: HAIRPIN }],
    ...renderChoices(),
  ]);
  return { chains, sets: renderSets(VIRTUAL_IP_SETS, elements) };
}

const DISPATCH: readonly NftRule[] = [
  rule`ip daddr . meta l4proto . th dport vmap ${setRef(setName("services", "4"))}`,
  rule`ip6 daddr . meta l4proto . th dport vmap ${setRef(setName("services", "6"))}`,
  // Ports that no service has, and addresses that are not in use: by the route to the node they would come back here.
  rule`ip daddr ${setRef(setName("own", "4"))} goto ${chainRef(REFUSE_CHAIN)}`,
  rule`ip6 daddr ${setRef(setName("own", "6"))} goto ${chainRef(REFUSE_CHAIN)}`,
];

/** A pod that was given itself, and has an interface in `fleet`: it would take packets from its own address for forged. */
const HAIRPIN: readonly NftRule[] = [
  rule`ct status dnat ip saddr . ip daddr ${setRef(setName("hairpin", "4"))} masquerade fully-random`,
  rule`ct status dnat ip6 saddr . ip6 daddr ${setRef(setName("hairpin", "6"))} masquerade fully-random`,
];
