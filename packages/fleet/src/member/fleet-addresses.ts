import { tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { containsAddress, type Prefix, tryParsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import { MEMBER_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { MANAGED_BY, MANAGED_BY_LABEL } from "#api/fairlead.dev/names.ts";
import { IDENTITY_SLICES, type IdentitySlice } from "#api/fairlead.dev/v1alpha1/identities.ts";
import {
  ADDRESS_BLOCKS,
  type AddressBlock,
  type Allocation,
  type Gateway,
  GATEWAYS,
  MESH_NETWORKS,
  type MeshNetwork,
  RELEASED_AT_ANNOTATION,
} from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { FLEET_SYSTEM_NAMESPACE, mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { reachedClusters } from "#domain/gateway.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { Change, Informer, InformerOptions, KubeClient } from "@fairlead/kube/types.ts";
import type { Session } from "./session.ts";

/** What this cluster knows of fleet addresses: the objects in `fleet-system`, which last while the hub is away. */

export interface MeshInformers {
  readonly networks: Informer<MeshNetwork>;
  /** Of all members, and of the nodes of this cluster. */
  readonly blocks: Informer<AddressBlock>;
  /** Of all members, this one included. */
  readonly gateways: Informer<Gateway>;
  /** Of pods of other members, as far as policies here need them. */
  readonly identities: Informer<IdentitySlice>;
}

export function createMeshInformers(local: KubeClient, deps: RuntimeDeps): MeshInformers {
  const make = <T extends KubeObject>(of: Resource<T>, options: InformerOptions<T> = {}): Informer<T> =>
    createInformer(
      local,
      of,
      {
        namespace: FLEET_SYSTEM_NAMESPACE,
        labelSelector: `${MANAGED_BY_LABEL}=${MANAGED_BY}`,
        fieldManager: MEMBER_MANAGER,
        ...options,
      },
      deps,
    );
  return {
    networks: make(MESH_NETWORKS),
    blocks: make(ADDRESS_BLOCKS, { indexes: { pod: (it) => allocationsOf(it).map((one) => one.podUID) } }),
    identities: make(IDENTITY_SLICES),
    gateways: make(GATEWAYS, { indexes: { reached: reachedBy } }),
  };
}

/** Those of pods that are there. */
function allocationsOf({ status }: AddressBlock): Allocation[] {
  return (status?.allocations ?? []).filter((it) => it.releasedAt === undefined);
}

/** In the index "reached": a gateway of this cluster that has reported its tunnels. */
const HAS_REPORTED = "";

/** Clusters to which a gateway of this cluster has a tunnel that answers: only those report. */
function reachedBy(gateway: Gateway): string[] {
  return gateway.status?.pathsReportedAt === undefined ? [] : [HAS_REPORTED, ...reachedClusters(gateway)];
}

type MeshSession = Pick<Session, "cluster" | "mesh" | "ranges"> & {
  readonly mailbox: Pick<Session["mailbox"], "internalMembers">;
};

/** Returns true if the endpoints of this member have fleet addresses. */
export function isParallel({ cluster, mesh, mailbox }: MeshSession): boolean {
  const internalMember = mailbox.internalMembers.store.get(objectKey(mailboxOf(cluster), cluster));
  return mesh !== undefined && internalMember?.spec.network?.mode === "parallel";
}

/** The fleet address of a pod of this cluster. */
export function fleetAddressOf(
  { mesh }: MeshSession,
  pod: string,
  family: "IPv4" | "IPv6",
): string | undefined {
  for (const block of mesh?.blocks.store.byIndex("pod", pod) ?? []) {
    const found = allocationsOf(block).find((it) => it.podUID === pod);
    if (found !== undefined) return family === "IPv4" ? found.ipv4 : found.ipv6;
  }
  return undefined;
}

/** UIDs of pods that got, lost or changed their addresses. */
export function changedPods({ before, after }: Change<AddressBlock>): ReadonlySet<string> {
  const texts = (it: AddressBlock | undefined): Set<string> =>
    new Set(
      (it === undefined ? [] : allocationsOf(it)).map(
        ({ podUID, ipv4, ipv6 }) => `${podUID} ${ipv4} ${ipv6}`,
      ),
    );
  const [was, is] = [texts(before), texts(after)];
  return new Set([...was.symmetricDifference(is)].map((it) => it.slice(0, it.indexOf(" "))));
}

/** What the hub says of the addresses of a member; undefined if it has none. */
function blockOf(session: MeshSession, cluster: string): AddressBlock["spec"] | undefined {
  const block = knownBlock(session, cluster);
  return block === undefined || isReleased(block) ? undefined : block.spec;
}

function knownBlock({ mesh }: MeshSession, cluster: string): AddressBlock | undefined {
  const block = mesh?.blocks.store.get(objectKey(FLEET_SYSTEM_NAMESPACE, cluster));
  return block?.spec.node === undefined ? block : undefined;
}

/** Whether the endpoints that this cluster exports have fleet addresses; see `transition` of AddressBlocks. */
export function exportsFleetAddresses(session: MeshSession): boolean {
  return blockOf(session, session.cluster) !== undefined && usesVirtualIPs(session);
}

/** By which addresses other clusters see the pods of this one: by both while its network changes its mode. */
export function seenAddresses(session: MeshSession): { readonly fleet: boolean; readonly own: boolean } {
  if (!isParallel(session)) return { fleet: false, own: true };
  const block = blockOf(session, session.cluster);
  return { fleet: block !== undefined, own: block?.transition !== undefined };
}

/** Whether services have the virtual addresses of the network here, as soon as the hub gives them some. */
export function usesVirtualIPs(session: MeshSession): boolean {
  const phase = blockOf(session, session.cluster)?.transition?.phase;
  return isParallel(session) && phase !== "prepare" && phase !== "leave";
}

/**
 * The networks that have all pods of other members, as this cluster sees them. Undefined where these are not known: in a flat network, and
 * while a member changes between the modes.
 */
export function podNetworks(
  network: Pick<MeshNetwork, "spec"> | undefined,
  blocks: Iterable<AddressBlock>,
): readonly Prefix[] | undefined {
  if (network?.spec.mode !== "parallel" || [...blocks].some(isInTransition)) return undefined;
  return prefixesOf([network.spec.ipv4, network.spec.ipv6]);
}

export function isInTransition(block: AddressBlock | undefined): boolean {
  return block?.spec.transition !== undefined;
}

/**
 * Returns a test whether an endpoint of a member may have an address, as far as this cluster knows. Undefined where all may
 * have any: in a flat network, and before the network is known.
 */
export function addressesOf(
  session: MeshSession,
  cluster: string,
): ((address: string) => boolean) | undefined {
  const [network] = session.mesh?.networks.store.list() ?? [];
  if (network?.spec.mode !== "parallel" || !isParallel(session)) return undefined;
  const block = blockOf(session, cluster);
  const own = prefixesOf(block === undefined ? [] : [...block.ipv4, ...block.ipv6]);
  const all = prefixesOf([network.spec.ipv4, network.spec.ipv6]);
  // Before it has fleet addresses, and on the way to them or back, a member has those of pods, which the hub checks.
  const known = knownBlock(session, cluster)?.spec;
  const mayHavePodAddresses = known === undefined || known.transition !== undefined;
  return (text) => {
    const address = tryParseAddress(text);
    if (address === undefined) return false;
    const isWithin = (it: Prefix): boolean => containsAddress(it, address);
    return own.some(isWithin) || (mayHavePodAddresses && !all.some(isWithin));
  };
}

/**
 * Returns false if no tunnel to another cluster answers, as far as the gateways of this one report. Endpoints with addresses of
 * pods, which a member has on its way to fleet addresses or back, need no tunnel.
 */
export function isReached(session: MeshSession, cluster: string): boolean {
  const { mesh } = session;
  if (mesh === undefined || cluster === session.cluster || !isParallel(session)) return true;
  const { store } = mesh.gateways;
  const has = (key: string): boolean => !store.byIndex("reached", key)[Symbol.iterator]().next().done;
  const block = blockOf(session, cluster);
  if (block === undefined || block.transition !== undefined) return true;
  return has(cluster) || !has(HAS_REPORTED);
}

/** Clusters for which a gateway's report may change `isReached`; "all" with the first report. */
export function clustersReached({ before, after }: Change<Gateway>): "all" | readonly string[] {
  const clusters = (it: Gateway | undefined): ReadonlySet<string> =>
    new Set(it === undefined ? [] : reachedBy(it));
  const changed = clusters(before).symmetricDifference(clusters(after));
  return changed.has(HAS_REPORTED) ? "all" : [...changed];
}

/** Returns a test whether an address is a fleet address of this cluster. */
export function ownAddresses(session: MeshSession): (address: string) => boolean {
  const block = blockOf(session, session.cluster);
  const own = prefixesOf(block === undefined ? [] : [...block.ipv4, ...block.ipv6]);
  return (text) => {
    const address = tryParseAddress(text);
    return address !== undefined && own.some((it) => containsAddress(it, address));
  };
}

function prefixesOf(texts: readonly string[]): Prefix[] {
  return texts.flatMap((it) => tryParsePrefix(it) ?? []);
}

export function isReleased({ metadata }: AddressBlock): boolean {
  return metadata.annotations?.[RELEASED_AT_ANNOTATION] !== undefined;
}

/** How many blocks the nodes of this cluster need; undefined in a flat network. */
export function nodeBlocksNeeded(session: MeshSession): number | undefined {
  const { mesh, ranges } = session;
  if (mesh === undefined || ranges === undefined || !isParallel(session)) return undefined;
  const released = [...mesh.blocks.store.list()].filter((it) => it.spec.node !== undefined && isReleased(it));
  return ranges.nodes.store.size + released.length;
}
