/** The conditions of links as rules and queues of the kernel: pure. */

import { type NftRule, quotedName, rule } from "@fairlead/os/nft/rule.ts";
import type { NftTable, NftTableName } from "@fairlead/os/nft/state.ts";
import { FABRIC_NETNS, nodeNetns, siteNetns } from "#places.ts";
import type { LabTopology } from "#topology.ts";
import type { StoredConditions } from "./conditions.ts";

/** One device of one namespace of the lab. */
export interface LinkRef {
  readonly netns: string;
  readonly device: string;
}

/** A link: that of a cluster to the others, or that of a node to its cluster. */
export interface LabLink {
  /** Of the cluster or node. */
  readonly name: string;
  readonly cluster: string;
  readonly ends: readonly [LinkRef, LinkRef];
}

/** Device of a site that leads to the fabric. */
export const UPLINK = "up";
/** Device of a node that leads to its site. */
export const NODE_UPLINK = "eth0";

export function linksOf({ clusters }: Pick<LabTopology, "clusters">): readonly LabLink[] {
  return clusters.flatMap((cluster) => {
    const site = siteNetns(cluster);
    return [
      {
        name: cluster.name,
        cluster: cluster.name,
        ends: [
          { netns: FABRIC_NETNS, device: cluster.link },
          { netns: site, device: UPLINK },
        ],
      },
      ...cluster.nodes.map((node): LabLink => ({
        name: node.name,
        cluster: cluster.name,
        ends: [
          { netns: site, device: node.link },
          { netns: nodeNetns(node), device: NODE_UPLINK },
        ],
      })),
    ];
  });
}

export const LINK_TABLE: NftTableName = { family: "inet", name: "fairlead-links" };

/** Before conntrack puts fragments together (NF_IP_PRI_CONNTRACK_DEFRAG of linux/netfilter_ipv4.h is -400). */
const BEFORE_DEFRAG = -450;
/** The unit of loss: one packet of so many. */
const LOSS_UNITS = 1_000_000;

/**
 * The table of a namespace for the links that end there. Each end treats what arrives, so that both directions are treated once,
 * and fragments are seen before they are put together and after they are made. Undefined: it needs none.
 */
export function linkTable(topology: LabTopology, netns: string): NftTable | undefined {
  const rules = linksOf(topology).flatMap(({ name, ends }) => {
    const conditions = topology.conditions?.[name];
    const end = ends.find((it) => it.netns === netns);
    return conditions === undefined || end === undefined ? [] : endRules(end.device, conditions);
  });
  if (rules.length === 0) return undefined;
  const hook = { type: "filter", hook: "prerouting", priority: BEFORE_DEFRAG } as const;
  return { sets: new Map(), chains: new Map([["arriving", { hook, rules }]]) };
}

function endRules(device: string, conditions: StoredConditions): readonly NftRule[] {
  const { lossPercent = 0, delayBy, dropUdp, dropUdpFragments } = conditions;
  const name = quotedName(device);
  const lost = Math.round((lossPercent / 100) * LOSS_UNITS);
  return [
    // The source of what the wire sends (wire/wire.ts).
    ...(delayBy === "wire" ? [rule`iifname ${name} ether saddr != 02:66:6c:00:00:01 drop`] : []),
    ...(lost > 0 ? [rule`iifname ${name} numgen random mod ${LOSS_UNITS} < ${lost} drop`] : []),
    ...(dropUdp === true ? [rule`iifname ${name} meta l4proto udp drop`] : []),
    ...(dropUdpFragments === true
      ? [
          rule`iifname ${name} ip protocol udp ip frag-off & 0x3fff != 0 drop`,
          rule`iifname ${name} exthdr frag exists meta l4proto udp drop`,
        ]
      : []),
  ];
}

/** How long a packet may wait in the queue of a link with a rate. Unit: milliseconds. */
const QUEUE_MS = 50;
/** Packets that netem holds: those of 100 ms of 1 Gbit/s. */
const NETEM_LIMIT = 10_000;

/**
 * The arguments of `tc qdisc` that give a device its queue, or undefined for a device without one. Each end treats what leaves.
 */
export function queueWords(conditions: StoredConditions): readonly string[] | undefined {
  const { delayMs = 0, delayBy, rateBits } = conditions;
  if (delayMs > 0 && delayBy === "netem") {
    const rate = rateBits === undefined ? [] : ["rate", `${rateBits}bit`];
    return ["netem", "limit", String(NETEM_LIMIT), "delay", `${Math.round(delayMs * 1000)}us`, ...rate];
  }
  if (rateBits === undefined) return undefined;
  // At least what the rate makes of one tick of a kernel of 100 Hz (tc-tbf(8)), and a few packets.
  const burst = Math.max(16_000, Math.ceil(rateBits / 800));
  return ["tbf", "rate", `${rateBits}bit`, "burst", String(burst), "latency", `${QUEUE_MS}ms`];
}
