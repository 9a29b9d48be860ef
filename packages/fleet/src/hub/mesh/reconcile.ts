import { FLEET_RESOURCE_LABEL } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import {
  ADDRESS_BLOCKS,
  CLUSTER_MESH_PROFILES,
  type ClusterMeshProfile,
  type Gateway,
  GATEWAYS,
  MESH_NETWORKS,
  RELEASED_AT_ANNOTATION,
} from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { SOURCE_CLUSTER_LABEL, VIEW_NAMESPACE } from "#api/fairlead.dev/names.ts";
import {
  clusterOfMailbox,
  isViewNamespace,
  mailboxOf,
  VIEW_PREFIX,
  viewNamespaceOf,
} from "#api/networking.fleet.azure.com/names.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import type { Prefix } from "@fairlead/base/netaddr/prefix.ts";
import { gatewayNames } from "#domain/gateway.ts";
import { type Selected, selectMembers } from "#domain/mesh-members.ts";
import { keyOf, type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { delay } from "@fairlead/base/clock.ts";
import { clockOfServer } from "@fairlead/kube/client/server-clock.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { EventRecorder } from "@fairlead/kube/events/events.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { writeConditions } from "@fairlead/kube/objects/write-conditions.ts";
import type { Applied, Controller, Informer, KubeClient, ReconcileResult } from "@fairlead/kube/types.ts";
import { hasView, isIsolated, reportOf } from "../view.ts";
import type { HubInformers } from "../informers.ts";
import { planEpoch } from "./plan-epoch.ts";
import { type AddressesPlan, planAddresses } from "./plan-addresses.ts";
import { planGateways } from "./plan-gateways.ts";
import type { Progress } from "./plan-transition.ts";
import { describeNetwork, planProfileStatus } from "./plan-profile.ts";

interface Parts {
  readonly client: KubeClient;
  readonly informers: HubInformers;
  readonly events: EventRecorder;
  readonly deps: RuntimeDeps;
}

interface Planned {
  readonly view: string;
  readonly selected: Selected;
  readonly addresses: AddressesPlan;
  readonly epoch: ReturnType<typeof planEpoch>;
}

/** A pass is followed by a rest of this many times its own length. */
const REST = 4;

/** All networks in one pass: members move between them, and gateways have numbers that are unique over all. */
const ALL = objectKey(undefined, "networks");

/** ClusterMeshProfiles to what the view says of their networks; gateways of mailboxes to the view. */
export function createMesh(parts: Parts): Controller {
  const { informers, deps } = parts;
  const always = (): ObjectKey[] => [ALL];
  return createController(
    {
      name: "clustermeshprofile",
      async reconcile(_key, signal) {
        const startedMs = deps.clock.monotonic();
        const result = await reconcile(parts, signal);
        // Whatever one member writes, and however often: the hub has the time for all its other work.
        await delay(deps.clock, REST * (deps.clock.monotonic() - startedMs), signal);
        return result;
      },
      concurrency: 1,
      sources: [
        watching(informers.profiles, always),
        watching(informers.gateways, always),
        watching(informers.blocks, always),
        watching(informers.networks, always),
        watching(informers.relays, always),
        watching(informers.members, always),
        watching(informers.reports, always),
        watching(informers.namespaces, ({ key }) => (isViewNamespace(key) ? [ALL] : [])),
      ],
    },
    deps,
  );
}

async function reconcile(parts: Parts, signal: AbortSignal): Promise<ReconcileResult> {
  const { client, informers, deps } = parts;
  const nowMs = clockOfServer(client, deps.clock).now();
  const nodesOf = (cluster: string): number | undefined => nodeBlocksOf(informers, cluster);
  const progressOf = (cluster: string): Progress | "gone" => {
    const member = informers.members.store.get(objectKey(undefined, cluster));
    const isGone = findCondition(member?.status?.conditions, "Healthy")?.status === "False";
    return isGone ? "gone" : reportOf(informers, cluster)?.spec.fleetAddresses;
  };
  const plan = (selected: Selected): Planned => {
    const view = viewNamespaceOf(selected.profile.metadata.name);
    const blocks = [...informers.blocks.store.list()].filter((it) => it.metadata.namespace === view);
    return {
      view,
      selected,
      addresses: planAddresses({ ...selected, blocks, nodesOf, progressOf, nowMs }),
      epoch: planEpoch({ ...selected, gateways: shownBy(informers, selected), nowMs }),
    };
  };
  const profiles = selectMembers(informers.profiles.store.list(), informers.members.store.list()).map(plan);
  const planned = [...profiles, ...orphanedViews(informers).map(plan)];
  // First, what fixes the prefixes.
  const results: PromiseSettledResult<unknown>[] = await Promise.allSettled(
    profiles.map((it) => tellProfile(parts, it, signal)),
  );
  results.push(...(await writeViews(parts, planned, signal)));
  results.push(...(await removeViews(parts, planned, signal)));
  const failed = results.find((it) => it.status === "rejected");
  if (failed !== undefined) throw failed.reason;
  const again = planned.flatMap(({ addresses, epoch }) =>
    [addresses.againInMs ?? [], epoch.againInMs ?? []].flat(),
  );
  return again.length === 0 ? {} : { requeueAfterMs: Math.min(MAX_WAIT_MS, ...again) };
}

/** Timers have 31 bits. */
const MAX_WAIT_MS = 24 * 3600 * 1000;

/** Views of profiles that do not exist any more: the addresses in them are kept from others for a while. */
function orphanedViews({ namespaces, profiles }: HubInformers): Selected[] {
  const kept = new Set([...profiles.store.list()].map((it) => viewNamespaceOf(it.metadata.name)));
  return [...namespaces.store.list()].flatMap(({ metadata: { name, labels } }) => {
    const isOurs = isViewNamespace(name) && labels?.[FLEET_RESOURCE_LABEL] === "true";
    if (!isOurs || name === VIEW_NAMESPACE || kept.has(name)) return [];
    const profile: ClusterMeshProfile = {
      metadata: { name: name.slice(VIEW_PREFIX.length) },
      spec: { memberSelector: {}, network: { mode: "flat" } },
    };
    return [{ profile, members: [], elsewhere: [], problem: undefined }];
  });
}

/** Gateways of its members that others see. */
function shownBy({ gateways }: HubInformers, { profile, members }: Selected): Gateway["spec"][] {
  const view = viewNamespaceOf(profile.metadata.name);
  return members.flatMap(({ metadata }) =>
    gatewayNames(metadata.name).flatMap((it) => gateways.store.get(objectKey(view, it))?.spec ?? []),
  );
}

/** Undefined for members that take no part, or not yet. */
function nodeBlocksOf(informers: HubInformers, cluster: string): number | undefined {
  const member = informers.members.store.get(objectKey(undefined, cluster));
  const report = reportOf(informers, cluster);
  // Its ranges come with the first report of its agent: before that, it is unknown which addresses it cannot have.
  const isHeardOf = (member?.status?.agentStatus?.length ?? 0) > 0;
  if (report === undefined || !isHeardOf || isIsolated(member)) return undefined;
  return report.spec.nodeBlocks ?? 0;
}

async function tellProfile(
  { client, events, deps }: Parts,
  { selected, addresses, epoch: { epoch } }: Planned,
  signal: AbortSignal,
): Promise<void> {
  const { conditions, ...rest } = planProfileStatus(selected, addresses, epoch);
  const before = selected.profile.status?.keyEpoch;
  await writeConditions(client, CLUSTER_MESH_PROFILES, {
    object: selected.profile,
    own: new Set(["Ready", "Conflict"]),
    next: conditions,
    rest,
    fieldManager: HUB_MANAGER,
    clock: deps.clock,
    signal,
  });
  if (before !== undefined && rest.keyEpoch !== undefined && rest.keyEpoch !== before)
    events.record(CLUSTER_MESH_PROFILES, selected.profile, {
      type: "Normal",
      reason: "KeysRotated",
      message: `gateways make keys for epoch ${rest.keyEpoch}`,
    });
}

async function writeViews(
  parts: Parts,
  planned: readonly Planned[],
  signal: AbortSignal,
): Promise<PromiseSettledResult<unknown>[]> {
  const { client, informers, deps } = parts;
  const relays = [...informers.relays.store.list()].filter((it) => !isDeleting(it));
  const writable = planned.filter((it) => hasView(informers, it.view));
  const networks = writable.flatMap(({ view, selected: { profile }, addresses: { plan }, epoch }) =>
    plan === undefined
      ? []
      : [
          {
            metadata: { namespace: view, name: profile.metadata.name },
            spec: describeNetwork(plan, epoch.epoch.keyEpoch, relays),
          },
        ],
  );
  const blocks = writable.flatMap(({ view, addresses }) => [
    ...addresses.blocks.map((spec) => ofCluster(view, spec.cluster, { spec })),
    ...addresses.released.map(({ spec, at }) =>
      ofCluster(view, spec.cluster, { annotations: { [RELEASED_AT_ANNOTATION]: at }, spec }),
    ),
  ]);
  const gateways = planGateways(gatewaysView(informers, planned));
  const views = new Map(
    writable.flatMap(({ view, addresses }) => addresses.blocks.map((it) => [it.cluster, view] as const)),
  );
  const shown = gateways.shown.flatMap(({ name, spec }) => {
    const view = views.get(spec.cluster);
    const { metadata, ...rest } = ofCluster(view ?? "", spec.cluster, { spec });
    return view === undefined ? [] : [{ metadata: { ...metadata, name }, ...rest }];
  });
  const results = [
    ...(await write(client, MESH_NETWORKS, { informer: informers.networks, wanted: networks }, signal)),
    ...(await write(client, ADDRESS_BLOCKS, { informer: informers.blocks, wanted: blocks }, signal)),
    ...(await write(client, GATEWAYS, { informer: informers.gateways, wanted: shown }, signal)),
  ];
  const told = await Promise.allSettled(
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
  return [...results, ...told, ...leftovers];
}

/** Gateways in mailboxes of members that belong to no parallel network any more: these read it no longer. */
function leftIn({ gateways }: HubInformers, planned: readonly Planned[]): Gateway[] {
  const mailboxes = new Set(
    planned
      .filter(({ selected }) => selected.profile.spec.network.mode === "parallel")
      .flatMap(({ selected }) => selected.members.map((it) => mailboxOf(it.metadata.name))),
  );
  return [...gateways.store.list()].filter(({ metadata: { namespace = "" } }) => {
    const isMailbox = clusterOfMailbox(namespace) !== undefined;
    return isMailbox && !mailboxes.has(namespace);
  });
}

function gatewaysView(
  informers: HubInformers,
  planned: readonly Planned[],
): Parameters<typeof planGateways>[0] {
  const networks = new Map<string, readonly Prefix[]>();
  for (const { plan, blocks } of planned.map((it) => it.addresses))
    if (plan !== undefined) for (const { cluster } of blocks) networks.set(cluster, [plan.ipv4, plan.ipv6]);
  const { store } = informers.gateways;
  const told = [...networks.keys()].flatMap((cluster) =>
    gatewayNames(cluster).flatMap((name) => store.get(objectKey(mailboxOf(cluster), name)) ?? []),
  );
  const shown = [...store.list()].filter((it) => isViewNamespace(it.metadata.namespace));
  return {
    told: told.filter((it) => !isDeleting(it)),
    shown: new Map(shown.map((it) => [it.metadata.name, it])),
    networkOf: (cluster) => networks.get(cluster) ?? [],
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
async function removeViews(
  { client, informers }: Parts,
  planned: readonly Planned[],
  signal: AbortSignal,
): Promise<PromiseSettledResult<unknown>[]> {
  const read = new Set([...informers.reports.store.list()].map((it) => it.spec.view));
  const isProfile = new Set(
    [...informers.profiles.store.list()].map((it) => viewNamespaceOf(it.metadata.name)),
  );
  const ended = planned.filter(
    ({ view, addresses }) => !isProfile.has(view) && !read.has(view) && addresses.released.length === 0,
  );
  return Promise.allSettled(
    ended
      .filter((it) => hasView(informers, it.view))
      .map((it) => client.delete(NAMESPACES, objectKey(undefined, it.view), { signal })),
  );
}

/** Writes the wanted objects, and deletes all others of the kind in views. */
async function write<T extends KubeObject>(
  client: KubeClient,
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
      return applyIfChanged(client, of, { current, desired, fieldManager: HUB_MANAGER, signal });
    }),
    ...superfluous.map((it) => client.delete(of, keyOf(it), { signal })),
  ]);
}
