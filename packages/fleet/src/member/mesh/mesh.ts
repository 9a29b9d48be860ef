import { MEMBER_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { MANAGED_BY, MANAGED_BY_LABEL, OWN_CLUSTER_LABEL } from "#api/fairlead.dev/names.ts";
import {
  ADDRESS_BLOCKS,
  type Gateway,
  GATEWAYS,
  MESH_NETWORKS,
  type MeshNetwork,
  RELEASED_AT_ANNOTATION,
} from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { FLEET_SYSTEM_NAMESPACE, mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { isMoreThanPaths } from "#domain/gateway.ts";
import { reachableCandidates } from "#domain/gateway-candidates.ts";
import { defined } from "@fairlead/base/defined.ts";
import { type ObjectKey, objectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { watching, watchingChanges } from "@fairlead/kube/controller/source.ts";
import type { Applied, Controller, Informer } from "@fairlead/kube/types.ts";
import { isParallel, type MeshInformers } from "../fleet-addresses.ts";
import type { Ranges } from "../membership/ranges.ts";
import { membershipOf, type Session } from "../session.ts";
import { ViewSource } from "../view-source.ts";
import { createMirror } from "./mirror.ts";
import { followNodes, type Lacking } from "./nodes.ts";
import { areAddressesChanged, ownPlaces } from "./own-places.ts";

export interface MeshParts {
  readonly session: Session;
  readonly mesh: MeshInformers;
  readonly ranges: Ranges;
}

/** Follows the InternalMemberCluster. */
const NETWORK = objectKey(undefined, "network");
/** Divides the addresses among nodes, and chooses gateways. */
const NODES = objectKey(undefined, "nodes");
/** Shows this cluster's gateways to the hub. */
const MAILBOX = objectKey(undefined, "mailbox");

/**
 * What the nodes of this cluster need of the network between clusters, in `fleet-system`: copies of the view, blocks of
 * addresses, and gateways, which are shown to the hub. A flat network has its MeshNetwork only. Keys are the parts above, and
 * "kind/name" for copies.
 */
export function createMesh(parts: MeshParts): Controller {
  const { session, mesh, ranges } = parts;
  const { mailbox, cluster, deps } = session;
  const copyKey = (of: Resource, name: string): ObjectKey => objectKey(of.plural, name);
  const read = (...kinds: readonly Resource[]): ViewSource =>
    new ViewSource(session, kinds, {
      onChange: (of, name) => {
        controller.enqueue(copyKey(of, name));
        if (of.plural === GATEWAYS.plural) controller.enqueue(MAILBOX);
      },
      onSynced: () => enqueueAll(),
    });
  const networks = read(MESH_NETWORKS);
  const parallel = read(ADDRESS_BLOCKS, GATEWAYS);
  const copied: readonly Copied[] = [
    copiedKind(MESH_NETWORKS, mesh.networks, networks, () => true),
    copiedKind(ADDRESS_BLOCKS, mesh.blocks, parallel, (it) => it.spec.node === undefined),
    copiedKind(GATEWAYS, mesh.gateways, parallel, (it) => it.spec.cluster !== cluster),
  ];
  let lacking: Lacking = new Set();
  const mirror = createMirror(session, mesh, () => controller.enqueue(MAILBOX));

  function enqueueAll(): void {
    for (const { of, informer, source } of copied)
      for (const name of [...source.names(of), ...namesIn(informer)]) controller.enqueue(copyKey(of, name));
    for (const key of [NODES, MAILBOX]) controller.enqueue(key);
  }

  /** Without an InternalMemberCluster nothing changes. */
  async function follow(): Promise<void> {
    const internalMember = mailbox.internalMembers.store.get(objectKey(mailboxOf(cluster), cluster));
    if (internalMember === undefined) return;
    const { network, view } = internalMember.spec;
    const isMember = membershipOf(session) === "join" && network !== undefined;
    const isJoined = isMember && isParallel(session);
    await networks.follow(isMember ? view : undefined);
    await parallel.follow(isJoined ? view : undefined);
    await mirror.follow(isJoined);
    enqueueAll();
  }

  /** Where the hub's word is not known, what it said last stays. */
  async function copy(key: ObjectKey, signal: AbortSignal): Promise<void> {
    const { namespace: plural, name } = splitKey(key);
    const kind = copied.find((it) => it.of.plural === plural);
    if (kind === undefined || membershipOf(session) === "none" || !kind.source.isKnown) return;
    const { of, informer, source, isCopy } = kind;
    const at = objectKey(FLEET_SYSTEM_NAMESPACE, name);
    const current = informer.store.get(at);
    const wanted = source.find(of, name);
    if (wanted !== undefined && isCopy(wanted)) {
      await applyIfChanged(session.local, of, {
        current,
        desired: planCopy(of, wanted),
        fieldManager: MEMBER_MANAGER,
        events: session.events,
        signal,
      });
    } else if (current !== undefined && isCopy(current)) await session.local.delete(of, at, { signal });
  }

  function planCopy(of: Resource, wanted: WithSpec): Applied<WithSpec> {
    if (of.plural === MESH_NETWORKS.plural) return networkOf(session, wanted);
    const whole = copyOf(wanted);
    if (of.plural !== GATEWAYS.plural) return whole;
    const { candidates = [] } = wanted.spec as Gateway["spec"];
    const places = ownPlaces(session, ranges);
    return { ...whole, spec: { ...whole.spec, candidates: reachableCandidates(candidates, places) } };
  }

  const controller = createController(
    {
      name: "member-mesh",
      async reconcile(key, signal) {
        if (key === NETWORK) return follow();
        if (key === NODES) {
          const { lacking: found, ...result } = await followNodes(parts, lacking, signal);
          lacking = found;
          return result;
        }
        if (key === MAILBOX) return mirror.write(parallel, signal);
        return copy(key, signal);
      },
      concurrency: 2,
      sources: [
        watching(mailbox.internalMembers, () => [NETWORK]),
        watching(mesh.networks, ({ key }) => [copyKey(MESH_NETWORKS, splitKey(key).name), NODES]),
        watching(mesh.blocks, ({ key }) => [copyKey(ADDRESS_BLOCKS, splitKey(key).name), NODES]),
        watching(mesh.gateways, (change) =>
          isMoreThanPaths(change)
            ? [copyKey(GATEWAYS, splitKey(change.key).name), NODES, MAILBOX]
            : [MAILBOX],
        ),
        watching(ranges.nodes, () => [NODES]),
        watchingChanges(ranges.nodes, (change) =>
          areAddressesChanged(change) ? parallel.names(GATEWAYS).map((it) => copyKey(GATEWAYS, it)) : [],
        ),
      ],
    },
    deps,
  );
  return {
    name: controller.name,
    start: (signal) => controller.start(signal),
    enqueue: (key) => controller.enqueue(key),
    idle: (signal) => controller.idle(signal),
    async [Symbol.asyncDispose]() {
      await controller[Symbol.asyncDispose]();
      await networks[Symbol.asyncDispose]();
      await parallel[Symbol.asyncDispose]();
      await mirror[Symbol.asyncDispose]();
    },
  };
}

type WithSpec = KubeObject & { spec: object };

interface Copied {
  readonly of: Resource<WithSpec>;
  readonly informer: Informer<WithSpec>;
  readonly source: ViewSource;
  /** False for what this cluster writes itself. */
  readonly isCopy: (it: WithSpec) => boolean;
}

function copiedKind<T extends WithSpec>(
  of: Resource<T>,
  informer: Informer<T>,
  source: ViewSource,
  isCopy: (it: T) => boolean,
): Copied {
  return { of, informer, source, isCopy: (it) => isCopy(it as T) };
}

/** A member that has left the parallel network sees a flat one, while others are still leaving it. */
function ofOwnMode(session: Session, network: WithSpec): WithSpec {
  if (isParallel(session)) return network;
  const { version, dataplane, defaultGlobalNamespace, ...rest } = network.spec as MeshNetwork["spec"];
  const { policyDefaultLocalCluster, policyCIDRMatchMode, podNetworks } = rest;
  const policies = defined({ policyDefaultLocalCluster, policyCIDRMatchMode, podNetworks });
  return {
    ...network,
    spec: { mode: "flat", ...defined({ version, dataplane, defaultGlobalNamespace }), ...policies },
  };
}

/** The version of node agents of this member: others may have another one while an update run upgrades them. */
function ownVersion({ cluster, mailbox }: Session): string | undefined {
  return mailbox.internalMembers.store.get(objectKey(mailboxOf(cluster), cluster))?.spec.network?.version;
}

/** Nodes learn from it what the own cluster is called. */
function networkOf(session: Session, network: WithSpec): Applied<WithSpec> {
  const copy = copyOf(ofOwnMode(session, network));
  const labels = { ...copy.metadata.labels, [OWN_CLUSTER_LABEL]: session.cluster };
  return {
    ...copy,
    metadata: { ...copy.metadata, labels },
    spec: { ...copy.spec, ...defined({ version: ownVersion(session) }) },
  };
}

function namesIn({ store }: Informer<KubeObject>): string[] {
  return [...store.list()].map((it) => it.metadata.name);
}

/** What goes to the hub: while it was away it failed, and waits long by now. */
export function meshKeys(): ObjectKey[] {
  return [MAILBOX];
}

function copyOf({ metadata, spec }: WithSpec): Applied<WithSpec> {
  const releasedAt = metadata.annotations?.[RELEASED_AT_ANNOTATION];
  return {
    metadata: {
      namespace: FLEET_SYSTEM_NAMESPACE,
      name: metadata.name,
      labels: { [MANAGED_BY_LABEL]: MANAGED_BY },
      ...(releasedAt === undefined ? {} : { annotations: { [RELEASED_AT_ANNOTATION]: releasedAt } }),
    },
    spec,
  };
}
