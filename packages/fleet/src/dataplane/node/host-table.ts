import { elementKey } from "@fairlead/os/nft/element.ts";
import { rule, setRef } from "@fairlead/os/nft/rule.ts";
import type { NftSet, NftSetSpec, NftTable, NftTableName } from "@fairlead/os/nft/state.ts";

/**
 * The agent's table in the node's own namespace.
 *
 * - `guard` keeps the addresses of the fleet to its link: what comes by another one with such a source is forged, and so is what comes by
 *   the link with another source.
 * - `sources`: what comes from pods leaves for `fleet` with their own addresses, which are translated there. Network plugins and service
 *   proxies masquerade what leaves the network of the cluster: servers of other clusters, and their policies, would take the pod for its node.
 */
export const HOST_TABLE: NftTableName = { family: "inet", name: "fairlead-host" };

/** Before the sources of others (100): the first translation of a flow counts, also one to the same address (linux: nf_nat_inet_fn). */
const AHEAD = 99;
/** Before conntrack (-200): packets with sources of others take none of its room. */
const BEFORE_CONNTRACK = -300;

/** @param fleet - The prefixes of the fleet. */
export function renderHostTable(fleet: readonly string[]): NftTable {
  return {
    chains: new Map([
      [
        "guard",
        {
          hook: { type: "filter", hook: "prerouting", priority: BEFORE_CONNTRACK },
          rules: [
            rule`iifname != "fl-host" ip saddr ${setRef("fleet-4")} drop`,
            rule`iifname != "fl-host" ip6 saddr ${setRef("fleet-6")} drop`,
            rule`iifname "fl-host" ip saddr != ${setRef("fleet-4")} drop`,
            rule`iifname "fl-host" ip6 saddr != ${setRef("fleet-6")} drop`,
          ],
        },
      ],
      [
        "sources",
        {
          hook: { type: "nat", hook: "postrouting", priority: AHEAD },
          rules: [
            rule`oifname "fl-host" fib saddr type != local snat ip to ip saddr`,
            rule`oifname "fl-host" fib saddr type != local snat ip6 to ip6 saddr`,
          ],
        },
      ],
    ]),
    sets: new Map([
      ["fleet-4", prefixes("ipv4_addr", fleet)],
      ["fleet-6", prefixes("ipv6_addr", fleet)],
    ]),
  };
}

function prefixes(type: "ipv4_addr" | "ipv6_addr", all: readonly string[]): NftSet {
  const spec: NftSetSpec = { key: [type], interval: true };
  const own = all.filter((it) => it.includes(":") === (type === "ipv6_addr"));
  return { ...spec, elements: new Map(own.map((it) => [elementKey(spec, [it]), ""])) };
}
