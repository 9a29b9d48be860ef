import { elementData, elementKey } from "@fairlead/os/nft/element.ts";
import { chainRef, type NftRule, rule, setRef } from "@fairlead/os/nft/rule.ts";
import { nodesNumber, TUNNEL_MARK, tunnelNumber } from "./names.ts";
import type { NftChain, NftSet, NftSetSpec, NftTable, NftTableName } from "@fairlead/os/nft/state.ts";

/**
 * The agent's one nftables table, in `fleet`.
 *
 * - `guard` admits established flows, and exported addresses and ports. WireGuard has proven the source: the
 *   member of what leaves a tunnel, the node of what comes from the own cluster, and a gateway for what it passes on.
 * - `destinations` turns the fleet address of a pod without an interface of its own into the pod's address.
 * - `sources` turns the addresses of clients of this node into fleet addresses.
 */
export const FLEET_TABLE: NftTableName = { family: "inet", name: "fairlead" };

export interface Exposed {
  readonly address: string;
  readonly protocol: "TCP" | "UDP" | "SCTP";
  readonly port: number;
}

export interface PodAddress {
  readonly fleetAddress: string;
  /** Its own address of the same family. */
  readonly podAddress: string;
  /** It has the fleet address on an interface of its own: no packet to it is translated. */
  readonly isAttached: boolean;
}

export interface FleetTable {
  /** Fleet addresses of this node's pods. */
  readonly pods: readonly PodAddress[];
  /** What other clusters may reach on this node. */
  readonly exposed: readonly Exposed[];
  /** The node's own fleet addresses, which answer echo requests. */
  readonly own: readonly string[];
  /** Prefixes of this node, of its cluster, and of the fleet. */
  readonly node: readonly string[];
  readonly cluster: readonly string[];
  readonly fleet: readonly string[];
}

const FAMILIES = [
  { family: "4", address: "ipv4_addr" },
  { family: "6", address: "ipv6_addr" },
] as const;

export function renderFleetTable(table: FleetTable): NftTable {
  const sets = new Map<string, NftSet>();
  for (const { family, address } of FAMILIES) {
    const isOf = (text: string): boolean => text.includes(":") === (family === "6");
    const pods = table.pods.filter((it) => isOf(it.fleetAddress));
    const map: NftSetSpec = { key: [address], value: [address] };
    sets.set(
      `pods-${family}`,
      mapOf(
        map,
        pods.filter((it) => !it.isAttached).map((it) => [it.fleetAddress, it.podAddress]),
      ),
    );
    sets.set(
      `clients-${family}`,
      mapOf(
        map,
        pods.map((it) => [it.podAddress, it.fleetAddress]),
      ),
    );
    const exposed = table.exposed.filter((it) => isOf(it.address));
    sets.set(
      `exposed-${family}`,
      setOf(
        { key: [address, "inet_proto", "inet_service"] },
        exposed.map((it) => [it.address, it.protocol.toLowerCase(), it.port]),
      ),
    );
    sets.set(
      `reachable-${family}`,
      setOf(
        { key: [address] },
        [...exposed.map((it) => it.address), ...table.own.filter(isOf)].map((it) => [it]),
      ),
    );
    for (const name of ["node", "cluster", "fleet"] as const)
      sets.set(
        `${name}-${family}`,
        setOf(
          { key: [address], interval: true },
          table[name].filter(isOf).map((it) => [it]),
        ),
      );
  }
  return { chains: CHAINS, sets };
}

function setOf(spec: NftSetSpec, keys: readonly (readonly (string | number)[])[]): NftSet {
  return { ...spec, elements: new Map(keys.map((it) => [elementKey(spec, it), ""])) };
}

function mapOf(spec: NftSetSpec, pairs: readonly (readonly [string, string])[]): NftSet {
  return {
    ...spec,
    elements: new Map(pairs.map(([key, value]) => [elementKey(spec, [key]), elementData(spec, [value])])),
  };
}

/**
 * What comes for an address of this node, from wherever it comes: another cluster, another node, a pod. Policies of the cluster's own
 * network do not see fleet addresses, so only what is exported is open.
 */
const LOCAL: readonly NftRule[] = [
  rule`ip daddr . meta l4proto . th dport ${setRef("exposed-4")} accept`,
  rule`ip6 daddr . meta l4proto . th dport ${setRef("exposed-6")} accept`,
  rule`ip daddr ${setRef("reachable-4")} icmp type echo-request accept`,
  rule`ip6 daddr ${setRef("reachable-6")} icmpv6 type echo-request accept`,
  rule`drop`,
];

const GUARD: readonly NftRule[] = [
  // A pod sends from its own addresses, also where its device has no reverse-path filter. By the node's link come its own addresses, which
  // are translated here, and never one of the fleet.
  rule`iifname "fl*" iifname != "fl-*" fib saddr . iif oif missing drop`,
  rule`iifname "fl-node" ip saddr ${setRef("fleet-4")} drop`,
  rule`iifname "fl-node" ip6 saddr ${setRef("fleet-6")} drop`,
  rule`ct state established,related accept`,
  rule`ip daddr ${setRef("node-4")} goto ${chainRef("local")}`,
  rule`ip6 daddr ${setRef("node-6")} goto ${chainRef("local")}`,
  // What is for other nodes of the cluster is checked there. Nothing leaves one tunnel for another.
  rule`iifname "fl-wg*" ip daddr ${setRef("cluster-4")} accept`,
  rule`iifname "fl-wg*" ip6 daddr ${setRef("cluster-6")} accept`,
  rule`iifname "fl-wg*" drop`,
  // Other nodes send to this one, and to other members if it is a gateway.
  rule`iifname "fl-nodes*" ip daddr != ${setRef("fleet-4")} drop`,
  rule`iifname "fl-nodes*" ip6 daddr != ${setRef("fleet-6")} drop`,
];

/** By what device of WireGuard an echo request came: it is answered through the same one. */
const MARKS: readonly NftRule[] = [0, 1, 2, 3].flatMap((ordinal) =>
  [0, 1].flatMap((parity) => [
    rule`iifname "fl-wg${ordinal}${parity}" icmp type echo-request fib daddr type local meta mark set ${TUNNEL_MARK + tunnelNumber(ordinal, parity)}`,
    rule`iifname "fl-nodes${ordinal}${parity}" icmp type echo-request fib daddr type local meta mark set ${TUNNEL_MARK + nodesNumber(ordinal, parity)}`,
  ]),
);

const CHAINS: ReadonlyMap<string, NftChain> = new Map([
  [
    "guard",
    {
      // After conntrack (-200), before addresses change (-100).
      hook: { type: "filter", hook: "prerouting", priority: -150 },
      rules: [...MARKS, ...GUARD],
    },
  ],
  ["local", { rules: LOCAL }],
  [
    "destinations",
    {
      hook: { type: "nat", hook: "prerouting", priority: -100 },
      rules: [
        rule`dnat ip to ip daddr map ${setRef("pods-4")}`,
        rule`dnat ip6 to ip6 daddr map ${setRef("pods-6")}`,
      ],
    },
  ],
  [
    "forward",
    {
      hook: { type: "filter", hook: "forward", priority: 0 },
      rules: [
        // From the node and back to it goes only what was for a pod; other addresses of the fleet have no owner here.
        rule`iifname "fl-node" oifname "fl-node" ct status dnat accept`,
        rule`iifname "fl-node" oifname "fl-node" drop`,
        // A gateway without a tunnel to a member sends to the other gateways: never in a circle.
        rule`iifname "fl-nodes*" oifname "fl-nodes*" drop`,
        rule`tcp flags syn / syn,rst tcp option maxseg size set rt mtu`,
      ],
    },
  ],
  [
    "sources",
    {
      hook: { type: "nat", hook: "postrouting", priority: 100 },
      rules: [
        rule`iifname "fl-node" snat ip to ip saddr map ${setRef("clients-4")}`,
        rule`iifname "fl-node" snat ip6 to ip6 saddr map ${setRef("clients-6")}`,
        // The node itself, and pods without a fleet address.
        rule`iifname "fl-node" ip saddr != ${setRef("fleet-4")} masquerade`,
        rule`iifname "fl-node" ip6 saddr != ${setRef("fleet-6")} masquerade`,
      ],
    },
  ],
]);
