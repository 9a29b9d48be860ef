/** The NAT router of a member, in its site namespace, as data: pure. */

import type { Sysctls } from "@fairlead/os/netns/sysctl.ts";
import { type NftRule, rule, setRef } from "@fairlead/os/nft/rule.ts";
import type { NftSet, NftTable, NftTableName } from "@fairlead/os/nft/state.ts";
import type { LabSpec, LabTopology, NatKind } from "./topology.ts";

export const NAT_TABLE: NftTableName = { family: "inet", name: "fairlead-nat" };

/**
 * New connections leave by the uplink with the router's address; none comes in by it, except from the machine. What is not
 * expected gets no answer: a rejection would end the attempt of two members to open their NATs to each other.
 */
export function natTable({ host }: Pick<LabTopology, "host">, kind: NatKind): NftTable {
  return {
    sets: new Map([
      ["machine-4", addressSet("ipv4_addr", host.machine.v4)],
      ["machine-6", addressSet("ipv6_addr", host.machine.v6)],
    ]),
    chains: new Map([
      ["input", { hook: { type: "filter", hook: "input", priority: 0 }, rules: inboundRules() }],
      [
        "forward",
        {
          hook: { type: "filter", hook: "forward", priority: 0 },
          rules: [
            ...inboundRules(),
            // What conntrack does not know would leave with the address that it has inside.
            rule`oifname "up" ct state invalid drop`,
          ],
        },
      ],
      [
        "postrouting",
        {
          hook: { type: "nat", hook: "postrouting", priority: 100 },
          rules: [
            kind === "random" ? rule`oifname "up" masquerade fully-random` : rule`oifname "up" masquerade`,
          ],
        },
      ],
    ]),
  };
}

function inboundRules(): readonly NftRule[] {
  return [
    rule`iifname "up" ct state established,related accept`,
    rule`iifname "up" ip saddr ${setRef("machine-4")} accept`,
    rule`iifname "up" ip6 saddr ${setRef("machine-6")} accept`,
    rule`iifname "up" icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept`,
    rule`iifname "up" drop`,
  ];
}

function addressSet(type: "ipv4_addr" | "ipv6_addr", address: string): NftSet {
  return { key: [type], elements: new Map([[address, ""]]) };
}

/** How long the router keeps mappings of UDP. The kernel has these settings once a table needs conntrack. */
export function natSysctls(spec: Pick<LabSpec, "natUdpSeconds" | "natUdpStreamSeconds">): Sysctls {
  return {
    "net/netfilter/nf_conntrack_udp_timeout": spec.natUdpSeconds,
    "net/netfilter/nf_conntrack_udp_timeout_stream": spec.natUdpStreamSeconds,
  };
}
