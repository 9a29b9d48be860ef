import type { AddressFamily } from "@fairlead/base/netaddr/address.ts";
import { tryParsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import { byText } from "@fairlead/base/text.ts";
import type { Node } from "@fairlead/kube/api/core/v1/types.ts";
import { timestamp } from "@fairlead/kube/objects/conditions.ts";
import { shortHash } from "#api/fairlead.dev/cluster-names.ts";
import { type AddressBlock, RELEASED_AT_ANNOTATION } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { BLOCK_LENGTHS, divide } from "#domain/address-plan.ts";

/** The blocks of the nodes of a cluster. Pure. */

/**
 * How long no other node gets the block of one that is gone: longer than names are remembered, and than flows without packets
 * are (1 h is a common timeout of NATs and firewalls). Unit: milliseconds.
 */
export const NODE_RECLAIM_MS = 3600 * 1000;

interface NodesView {
  /** The cluster's block, as the hub gave it. */
  readonly own: AddressBlock["spec"];
  readonly nodes: readonly Node[];
  /** Blocks of nodes that are there. */
  readonly blocks: readonly AddressBlock[];
  readonly nowMs: number;
}

interface NodeBlock {
  readonly name: string;
  readonly spec: AddressBlock["spec"];
  /** Since when the node is gone. */
  readonly releasedAt?: string;
}

interface NodesPlan {
  readonly blocks: readonly NodeBlock[];
  /** Nodes for which the cluster has no block. */
  readonly lacking: readonly string[];
  readonly againInMs: number | undefined;
}

const MAX_NAME = 253;

/** With a dot, so that no member's block has this name. */
export function nodeBlockName(node: string): string {
  const name = `node.${node}`;
  return name.length <= MAX_NAME ? name : `node.${shortHash(node, 26)}`;
}

export function planNodeBlocks({ own, nodes, blocks, nowMs }: NodesView): NodesPlan {
  const present = new Map(nodes.map((it) => [it.metadata.name, it]));
  const known = new Map(blocks.map((it) => [it.spec.node ?? "", it]));
  const gone = [...known].flatMap(([node, block]) => {
    if (present.has(node)) return [];
    const at = releasedAt(block, nowMs);
    return nowMs - Date.parse(at) < NODE_RECLAIM_MS ? [{ node, block, at }] : [];
  });
  const kept = [...known.keys()].filter((it) => present.has(it));
  const fresh = [...present.keys()].filter((it) => !known.has(it));
  const owners = [
    ...kept.toSorted(byText).map((name) => ({ name, wants: 1 })),
    ...gone.map(({ node }) => ({ name: node, wants: 0 })),
    ...fresh.toSorted(byText).map((name) => ({ name, wants: 1 })),
  ];
  const of = (family: AddressFamily, field: "ipv4" | "ipv6") =>
    divide({
      parents: own[field].flatMap((it) => tryParsePrefix(it) ?? []),
      length: BLOCK_LENGTHS[family].node,
      owners: owners.map((it) => ({ ...it, has: known.get(it.name)?.spec[field] ?? [] })),
    }).blocks;
  const [ipv4, ipv6] = [of("IPv4", "ipv4"), of("IPv6", "ipv6")];
  const specOf = (node: string, nodeAddress: string | undefined): AddressBlock["spec"] | undefined => {
    const [v4, v6] = [ipv4.get(node), ipv6.get(node)];
    if (v4 === undefined || v6 === undefined) return undefined;
    const { profile, cluster } = own;
    const address = nodeAddress === undefined ? {} : { nodeAddress };
    return { profile, cluster, node, ...address, ipv4: [...v4], ipv6: [...v6] };
  };
  const live = [...present].flatMap(([node, object]): NodeBlock[] => {
    const spec = specOf(node, addressOf(object));
    return spec === undefined ? [] : [{ name: nodeBlockName(node), spec }];
  });
  const released = gone.flatMap(({ node, block, at }): NodeBlock[] => {
    const spec = specOf(node, block.spec.nodeAddress);
    return spec === undefined ? [] : [{ name: nodeBlockName(node), spec, releasedAt: at }];
  });
  const has = new Set(live.map((it) => it.spec.node));
  const dueInMs = gone.map((it) => Date.parse(it.at) + NODE_RECLAIM_MS - nowMs);
  return {
    blocks: [...live, ...released],
    lacking: [...present.keys()].filter((it) => !has.has(it)),
    againInMs: dueInMs.length === 0 ? undefined : Math.max(1, Math.min(...dueInMs)),
  };
}

function releasedAt({ metadata }: AddressBlock, nowMs: number): string {
  const at = metadata.annotations?.[RELEASED_AT_ANNOTATION] ?? "";
  return Number.isNaN(Date.parse(at)) || Date.parse(at) > nowMs ? timestamp(nowMs) : at;
}

function addressOf({ status }: Node): string | undefined {
  return status?.addresses?.find((it) => it.type === "InternalIP")?.address;
}
