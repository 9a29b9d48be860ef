import {
  type AddressBlock,
  type Allocation,
  type EpochKey,
  type Gateway,
  type ParallelNetwork,
  RELEASED_AT_ANNOTATION,
} from "#api/fairlead.dev/v1alpha1/mesh.ts";
import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import type { Change } from "@fairlead/kube/types.ts";
import type { NodeInformers } from "./informers.ts";

/** The block of another node, and the keys by which that node proves itself. */
export type OtherNode = AddressBlock["spec"] & { readonly keys: readonly EpochKey[] };

/** What this node is part of, read from the objects in `fleet-system`. */
export interface NodeState {
  readonly network: ParallelNetwork;
  /** This node's block. */
  readonly block: AddressBlock;
  /** Of whole members, by name of the member. */
  readonly members: ReadonlyMap<string, AddressBlock["spec"]>;
  /** The other nodes of this cluster. */
  readonly nodes: readonly OtherNode[];
  /** The Gateway object of this node, if it is one. */
  readonly gateway: Gateway | undefined;
  /** Ordinals of the gateways of this cluster, by node. */
  readonly ordinals: ReadonlyMap<string, number>;
  /** Gateways of other members. */
  readonly remotes: readonly Gateway["spec"][];
}

/** Fleet addresses of this node's pods. */
export interface Allocations {
  readonly allocations: readonly Allocation[];
  /** Pods for which no address is free. */
  readonly exhausted: number;
  /** When released addresses are free again. Unit: milliseconds. */
  readonly freeInMs: number;
}

/** Undefined while this node has no block of a parallel network. */
export function readState(
  { networks, blocks, gateways }: Pick<NodeInformers, "networks" | "blocks" | "gateways">,
  nodeName: string,
): NodeState | undefined {
  const living = [...blocks.store.list()].filter((it) => !isDeleting(it) && !isReleased(it));
  const block = living.find((it) => it.spec.node === nodeName);
  const network = [...networks.store.list()].find(
    (it) => !isDeleting(it) && it.metadata.name === block?.spec.profile,
  );
  if (block === undefined || network?.spec.mode !== "parallel") return undefined;
  const { cluster } = block.spec;
  const all = [...gateways.store.list()].filter((it) => !isDeleting(it));
  return {
    network: network.spec,
    block,
    members: new Map(
      living.flatMap(({ spec }) => (spec.node === undefined ? [[spec.cluster, spec] as const] : [])),
    ),
    nodes: living.flatMap(({ spec, status }) =>
      spec.node === undefined || spec.node === nodeName ? [] : [{ ...spec, keys: status?.keys ?? [] }],
    ),
    gateway: all.find((it) => it.spec.cluster === cluster && it.spec.node === nodeName),
    ordinals: new Map(
      all.flatMap(({ spec }) => (spec.cluster === cluster ? [[spec.node, spec.ordinal] as const] : [])),
    ),
    remotes: all.flatMap(({ spec }) => (spec.cluster === cluster ? [] : [spec])),
  };
}

/** A block of a member or node that is gone is kept from reuse for some time. */
function isReleased({ metadata }: AddressBlock): boolean {
  return metadata.annotations?.[RELEASED_AT_ANNOTATION] !== undefined;
}

/** The same node with these addresses of its pods. */
export function withAllocations(state: NodeState, allocations: readonly Allocation[]): NodeState {
  return { ...state, block: { ...state.block, status: { allocations: [...allocations] } } };
}

/** The addresses in use, by UID of the pod. */
export function allocationsOf(block: AddressBlock): ReadonlyMap<string, Allocation> {
  const allocations = block.status?.allocations ?? [];
  return new Map(
    allocations.flatMap((it) => (it.releasedAt === undefined ? [[it.podUID, it] as const] : [])),
  );
}

/** The same of all nodes of a cluster. */
export function clusterAllocations(
  blocks: Iterable<AddressBlock>,
  cluster: string,
): ReadonlyMap<string, Allocation> {
  const own = [...blocks].filter((it) => it.spec.cluster === cluster && !isReleased(it));
  return new Map(own.flatMap((it) => [...allocationsOf(it)]));
}

/** Whether a change of a pod matters for its addresses. */
export function isPodChanged({ before, after }: Change<Pod>): boolean {
  const facts = (pod: Pod | undefined): string =>
    pod === undefined
      ? ""
      : [
          pod.metadata.uid,
          pod.status?.phase,
          ...(pod.status?.podIPs ?? []).map((it) => it.ip),
          ...Object.entries(pod.metadata.labels ?? {}).flat(),
        ].join(" ");
  return facts(before) !== facts(after);
}
