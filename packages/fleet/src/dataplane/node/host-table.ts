import { rule } from "@fairlead/os/nft/rule.ts";
import type { NftTable, NftTableName } from "@fairlead/os/nft/state.ts";

/**
 * The agent's table in the node's own namespace. What comes from pods leaves for `fleet` with their own addresses, which are translated
 * there. Network plugins and service proxies masquerade what leaves the network of the cluster: servers of other clusters, and their
 * policies, would take the pod for its node.
 */
export const HOST_TABLE: NftTableName = { family: "inet", name: "fairlead-host" };

/** Before the sources of others (100): the first translation of a flow counts, also one to the same address (linux: nf_nat_inet_fn). */
const AHEAD = 99;

export const HOST_TABLE_STATE: NftTable = {
  chains: new Map([
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
  sets: new Map(),
};
