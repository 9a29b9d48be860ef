import { rule, type NftRule, setRef } from "@fairlead/os/nft/rule.ts";
import type { NftChain, NftTable, NftTableName } from "@fairlead/os/nft/state.ts";
import type { Elements } from "../service-proxy/desired.ts";
import type { TableLayout } from "../service-proxy/kernel-table.ts";
import { DROP_CHAIN, REFUSE_CHAIN, SET_SPECS, type SetKind, setName } from "../service-proxy/names.ts";
import { affinityRules, masqueradeRules, REFUSE, renderChoices, renderSets } from "../service-proxy/table.ts";

/**
 * The table of global Services in the node's own namespace: the maps and chains of the service proxy, ahead of the cluster's proxy. A flow
 * is translated once, so that proxy does not see those that this table has an endpoint for; it has all others.
 */
export const GLOBAL_TABLE: NftTableName = { family: "inet", name: "fairlead-global" };

const KINDS: ReadonlySet<SetKind> = new Set([
  "services",
  "endpoints",
  "remember",
  "affinity",
  "hairpin",
  "masquerade-all",
]);

/** The sets of the table. */
export const GLOBAL_SETS = new Map(
  [...SET_SPECS].filter(([name]) => [...KINDS].some((it) => [`${it}-4`, `${it}-6`].includes(name))),
);

export const GLOBAL_LAYOUT: TableLayout = { table: GLOBAL_TABLE, render: renderGlobalServices };

/** kube-proxy translates at -100, and refuses Services without endpoints at -110. */
const AHEAD = -115;

export function renderGlobalServices(elements: Elements): NftTable {
  const chains = new Map<string, NftChain>([
    [REFUSE_CHAIN, REFUSE],
    [DROP_CHAIN, { rules: [rule`drop`] }],
    ["prerouting", { hook: { type: "nat", hook: "prerouting", priority: AHEAD }, rules: DISPATCH }],
    ["output", { hook: { type: "nat", hook: "output", priority: AHEAD }, rules: DISPATCH }],
    // Before sources are rewritten (100).
    ["affinity", { hook: { type: "nat", hook: "postrouting", priority: 98 }, rules: affinityRules() }],
    ["sources", { hook: { type: "nat", hook: "postrouting", priority: 99 }, rules: SOURCES }],
    ...renderChoices(),
  ]);
  return { chains, sets: renderSets(GLOBAL_SETS, elements) };
}

const DISPATCH: readonly NftRule[] = [
  rule`ip daddr . meta l4proto . th dport vmap ${setRef(setName("services", "4"))}`,
  rule`ip6 daddr . meta l4proto . th dport vmap ${setRef(setName("services", "6"))}`,
];

/** Of a pod that was given itself, and of what came to a port of this node: answers have to come back here. */
const SOURCES: readonly NftRule[] = [
  ...masqueradeRules(),
  rule`ct status dnat ip saddr . ip daddr ${setRef(setName("hairpin", "4"))} masquerade fully-random`,
  rule`ct status dnat ip6 saddr . ip6 daddr ${setRef(setName("hairpin", "6"))} masquerade fully-random`,
];
