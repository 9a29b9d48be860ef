import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import {
  ADDRESS_BLOCKS,
  type Gateway,
  GATEWAYS,
  MESH_NETWORKS,
  type MeshNetwork,
  type Relay,
  RELEASED_AT_ANNOTATION,
  VIRTUAL_IPS,
} from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { SOURCE_CLUSTER_LABEL } from "#api/fairlead.dev/names.ts";
import { clusterOfMailbox, isViewNamespace, mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { defined } from "@fairlead/base/defined.ts";
import type { IpAddress } from "@fairlead/base/netaddr/address.ts";
import type { Prefix } from "@fairlead/base/netaddr/prefix.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { gatewayNames } from "#domain/gateway.ts";
import { podNetworksOf } from "#domain/identity-claims.ts";
import { candidateCheck } from "#domain/gateway-candidates.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { EventRecorder } from "@fairlead/kube/events/events.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { writeConditions } from "@fairlead/kube/objects/write-conditions.ts";
import type { Applied, Informer, KubeClient } from "@fairlead/kube/types.ts";
import type { HubInformers } from "../informers.ts";
import { hasView } from "../view.ts";
import type { Planned } from "./networks.ts";
import { planGateways } from "./plan-gateways.ts";
import { describeNetwork, describeTerms } from "./plan-profile.ts";

interface Parts {
  readonly client: KubeClient;
  readonly events: EventRecorder;
  readonly informers: HubInformers;
  readonly deps: RuntimeDeps;
  /** Addresses of the hub's API server. */
  readonly servers: readonly IpAddress[];
}

/** Networks, addresses and gateways to the views, and what becomes of gateways to their mailboxes. */
export async function writeViews(
  parts: Parts,
  planned: readonly Planned[],
  signal: AbortSignal,
): Promise<PromiseSettledResult<unknown>[]> {
  const { client, informers, deps } = parts;
  const relays = [...informers.relays.store.list()].filter((it) => !isDeleting(it));
  const writable = planned.filter((it) => hasView(informers, it.view));
  const networks = writable.flatMap((it) => {
    const spec = networkOf(it, relays);
    const metadata = { namespace: it.view, name: it.selected.profile.metadata.name };
    return spec === undefined ? [] : [{ metadata, spec }];
  });
  const blocks = writable.flatMap(({ view, addresses }) => [
    ...addresses.blocks.map((spec) => ofCluster(view, spec.cluster, { spec })),
    ...addresses.released.map(({ spec, at }) =>
      ofCluster(view, spec.cluster, { annotations: { [RELEASED_AT_ANNOTATION]: at }, spec }),
    ),
  ]);
  const virtualIPs = writable.flatMap((it) =>
    it.virtualIPs.wanted.map(({ name, annotations, spec }) => ({
      metadata: { namespace: it.view, name, ...defined({ annotations }) },
      spec,
    })),
  );
  const gateways = planGateways(gatewaysView(parts, planned));
  const views = new Map(
    writable.flatMap(({ view, addresses }) => addresses.blocks.map((it) => [it.cluster, view] as const)),
  );
  const shown = gateways.shown.flatMap(({ name, spec }) => {
    const view = views.get(spec.cluster);
    const { metadata, ...rest } = ofCluster(view ?? "", spec.cluster, { spec });
    return view === undefined ? [] : [{ metadata: { ...metadata, name }, ...rest }];
  });
  const results = [
    ...(await write(parts, MESH_NETWORKS, { informer: informers.networks, wanted: networks }, signal)),
    ...(await write(parts, ADDRESS_BLOCKS, { informer: informers.blocks, wanted: blocks }, signal)),
    ...(await write(parts, VIRTUAL_IPS, { informer: informers.virtualIPs, wanted: virtualIPs }, signal)),
    ...(await write(parts, GATEWAYS, { informer: informers.gateways, wanted: shown }, signal)),
  ];
  const reported = await Promise.allSettled(
    gateways.verdicts.map(({ gateway, condition }) =>
      writeConditions(client, GATEWAYS, {
        object: gateway,
        own: new Set(["Accepted"]),
        next: [condition],
        fieldManager: HUB_MANAGER,
        clock: deps.clock,
        signal,
      }),
    ),
  );
  const leftovers = await Promise.allSettled(
    leftIn(informers, planned).map((it) => client.delete(GATEWAYS, keyOf(it), { signal })),
  );
  return [...results, ...reported, ...leftovers];
}

/** What the members of a profile share; undefined without members, and while the profile cannot be used. */
function networkOf(
  { selected: { profile, members, problem }, addresses: { plan, blocks }, epoch }: Planned,
  relays: readonly Relay[],
): MeshNetwork["spec"] | undefined {
  if (members.length === 0 && blocks.length === 0) return undefined;
  const podNetworks = podNetworksOf(members, blocks);
  if (plan !== undefined)
    return { ...describeNetwork(profile, plan, epoch.epoch.keyEpoch, relays), podNetworks };
  const isFlat = profile.spec.network.mode === "flat" && problem === undefined;
  return isFlat ? { ...describeTerms(profile), podNetworks } : undefined;
}

/**
 * Gateways in mailboxes of members that belong to no parallel network any more: these read it no longer. They belong to one until they
 * have left it, whatever the profile says: others still send to their fleet addresses.
 */
function leftIn({ gateways }: HubInformers, planned: readonly Planned[]): Gateway[] {
  const mailboxes = new Set(
    planned.flatMap(({ selected: { profile, members }, addresses }) => [
      ...(profile.spec.network.mode === "parallel" ? members.map((it) => mailboxOf(it.metadata.name)) : []),
      ...addresses.blocks.map((it) => mailboxOf(it.cluster)),
    ]),
  );
  return [...gateways.store.list()].filter(({ metadata: { namespace = "" } }) => {
    const isMailbox = clusterOfMailbox(namespace) !== undefined;
    return isMailbox && !mailboxes.has(namespace);
  });
}

function gatewaysView(
  { informers, servers }: Parts,
  planned: readonly Planned[],
): Parameters<typeof planGateways>[0] {
  const networks = new Map<string, readonly Prefix[]>();
  for (const { plan, blocks } of planned.map((it) => it.addresses))
    if (plan !== undefined) for (const { cluster } of blocks) networks.set(cluster, [plan.ipv4, plan.ipv6]);
  const { store } = informers.gateways;
  const reported = [...networks.keys()].flatMap((cluster) =>
    gatewayNames(cluster).flatMap((name) => store.get(objectKey(mailboxOf(cluster), name)) ?? []),
  );
  const shown = [...store.list()].filter((it) => isViewNamespace(it.metadata.namespace));
  const uid = informers.namespaces.store.get(objectKey(undefined, "kube-system"))?.metadata.uid;
  return {
    reported: reported.filter((it) => !isDeleting(it)),
    shown: new Map(shown.map((it) => [it.metadata.name, it])),
    networkOf: (cluster) => networks.get(cluster) ?? [],
    checkOf: (cluster, network) =>
      candidateCheck(informers.members.store.get(objectKey(undefined, cluster)), { servers, uid }, network),
  };
}

/** An object of a view, under the name of the cluster that it is about. */
function ofCluster<S>(
  namespace: string,
  cluster: string,
  { spec, ...metadata }: { readonly spec: S; readonly annotations?: Record<string, string> },
) {
  const labels = { [SOURCE_CLUSTER_LABEL]: cluster };
  return { metadata: { namespace, name: cluster, labels, ...metadata }, spec };
}

/** Deletes the views of profiles that do not exist any more, when they hold no addresses, and no member reads them. */
export async function removeViews(
  { client, informers }: Parts,
  former: readonly Planned[],
  signal: AbortSignal,
): Promise<PromiseSettledResult<unknown>[]> {
  const read = new Set([...informers.reports.store.list()].map((it) => it.spec.view));
  const ended = former.filter(
    ({ view, addresses }) => !read.has(view) && addresses.released.length === 0 && hasView(informers, view),
  );
  return Promise.allSettled(
    ended.map((it) => client.delete(NAMESPACES, objectKey(undefined, it.view), { signal })),
  );
}

/** Writes the wanted objects, and deletes all others of the kind in views. */
async function write<T extends KubeObject>(
  { client, events }: Pick<Parts, "client" | "events">,
  of: Resource<T>,
  { informer, wanted }: { readonly informer: Informer<T>; readonly wanted: readonly Applied<T>[] },
  signal: AbortSignal,
): Promise<PromiseSettledResult<unknown>[]> {
  const keep = new Set(wanted.map((it) => objectKey(it.metadata.namespace, it.metadata.name)));
  const superfluous = [...informer.store.list()].filter(
    (it) => isViewNamespace(it.metadata.namespace) && !keep.has(keyOf(it)),
  );
  return Promise.allSettled([
    ...wanted.map((desired) => {
      const current = informer.store.get(objectKey(desired.metadata.namespace, desired.metadata.name));
      return applyIfChanged(client, of, { current, desired, fieldManager: HUB_MANAGER, events, signal });
    }),
    ...superfluous.map((it) => client.delete(of, keyOf(it), { signal })),
  ]);
}
