import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import {
  ADDRESS_BLOCKS,
  CLUSTER_MESH_PROFILES,
  type Gateway,
  GATEWAYS,
  MESH_NETWORKS,
  RELEASED_AT_ANNOTATION,
} from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { SOURCE_CLUSTER_LABEL, VIEW_NAMESPACE } from "#api/fairlead.dev/names.ts";
import { clusterOfMailbox, mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import type { Prefix } from "@fairlead/base/netaddr/prefix.ts";
import { gatewayNames } from "#domain/gateway.ts";
import { type Selected, selectMembers } from "#domain/mesh-members.ts";
import { keyOf, type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
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
import { describeNetwork, planProfileStatus } from "./plan-profile.ts";

interface Parts {
  readonly client: KubeClient;
  readonly informers: HubInformers;
  readonly events: EventRecorder;
  readonly deps: RuntimeDeps;
}

interface Planned {
  readonly selected: Selected;
  readonly addresses: AddressesPlan;
  readonly epoch: ReturnType<typeof planEpoch>;
}

/** All networks in one pass: members move between them, and gateways have numbers that are unique over all. */
const ALL = objectKey(undefined, "networks");

/** ClusterMeshProfiles to what the view says of their networks; gateways of mailboxes to the view. */
export function createMesh(parts: Parts): Controller {
  const { informers, deps } = parts;
  const always = (): ObjectKey[] => [ALL];
  return createController(
    {
      name: "clustermeshprofile",
      reconcile: (_key, signal) => reconcile(parts, signal),
      concurrency: 1,
      sources: [
        watching(informers.profiles, always),
        watching(informers.gateways, always),
        watching(informers.blocks, always),
        watching(informers.networks, always),
        watching(informers.relays, always),
        watching(informers.members, always),
        watching(informers.reports, always),
        watching(informers.namespaces, ({ key }) => (key === VIEW_NAMESPACE ? [ALL] : [])),
      ],
    },
    deps,
  );
}

async function reconcile(parts: Parts, signal: AbortSignal): Promise<ReconcileResult> {
  const { client, informers, deps } = parts;
  const nowMs = clockOfServer(client, deps.clock).now();
  const blocks = [...informers.blocks.store.list()].filter((it) => it.metadata.namespace === VIEW_NAMESPACE);
  const nodesOf = (cluster: string): number | undefined => nodeBlocksOf(informers, cluster);
  const planned = selectMembers(informers.profiles.store.list(), informers.members.store.list()).map(
    (selected): Planned => ({
      selected,
      addresses: planAddresses({ ...selected, blocks, nodesOf, nowMs }),
      epoch: planEpoch({ ...selected, gateways: shownBy(informers, selected), nowMs }),
    }),
  );
  // First, what fixes the prefixes.
  const results: PromiseSettledResult<unknown>[] = await Promise.allSettled(
    planned.map((it) => tellProfile(parts, it, signal)),
  );
  if (hasView(informers)) results.push(...(await writeView(parts, planned, signal)));
  const failed = results.find((it) => it.status === "rejected");
  if (failed !== undefined) throw failed.reason;
  const again = planned.flatMap(({ addresses, epoch }) =>
    [addresses.againInMs ?? [], epoch.againInMs ?? []].flat(),
  );
  return again.length === 0 ? {} : { requeueAfterMs: Math.min(MAX_WAIT_MS, ...again) };
}

/** Timers have 31 bits. */
const MAX_WAIT_MS = 24 * 3600 * 1000;

/** Gateways of its members that others see. */
function shownBy({ gateways }: HubInformers, { members }: Selected): Gateway["spec"][] {
  return members.flatMap(({ metadata }) =>
    gatewayNames(metadata.name).flatMap(
      (it) => gateways.store.get(objectKey(VIEW_NAMESPACE, it))?.spec ?? [],
    ),
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

async function writeView(
  parts: Parts,
  planned: readonly Planned[],
  signal: AbortSignal,
): Promise<PromiseSettledResult<unknown>[]> {
  const { client, informers, deps } = parts;
  const relays = [...informers.relays.store.list()].filter((it) => !isDeleting(it));
  const networks = planned.flatMap(({ selected: { profile }, addresses: { plan }, epoch: { epoch } }) =>
    plan === undefined
      ? []
      : [inView(profile.metadata.name, { spec: describeNetwork(plan, epoch.keyEpoch, relays) })],
  );
  const blocks = planned.flatMap(({ addresses }) => [
    ...addresses.blocks.map((spec) => inView(spec.cluster, { labels: sourceLabel(spec.cluster), spec })),
    ...addresses.released.map(({ spec, at }) =>
      inView(spec.cluster, {
        labels: sourceLabel(spec.cluster),
        annotations: { [RELEASED_AT_ANNOTATION]: at },
        spec,
      }),
    ),
  ]);
  const gateways = planGateways(gatewaysView(informers, planned));
  const shown = gateways.shown.map(({ name, spec }) =>
    inView(name, { labels: sourceLabel(spec.cluster), spec }),
  );
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
  const shown = [...store.list()].filter((it) => it.metadata.namespace === VIEW_NAMESPACE);
  return {
    told: told.filter((it) => !isDeleting(it)),
    shown: new Map(shown.map((it) => [it.metadata.name, it])),
    networkOf: (cluster) => networks.get(cluster) ?? [],
  };
}

function sourceLabel(cluster: string): Record<string, string> {
  return { [SOURCE_CLUSTER_LABEL]: cluster };
}

function inView<S>(
  name: string,
  {
    spec,
    ...metadata
  }: {
    readonly spec: S;
    readonly labels?: Record<string, string>;
    readonly annotations?: Record<string, string>;
  },
) {
  return { metadata: { namespace: VIEW_NAMESPACE, name, ...metadata }, spec };
}

/** Writes the wanted objects, and deletes all others of the kind. */
async function write<T extends KubeObject>(
  client: KubeClient,
  of: Resource<T>,
  { informer, wanted }: { readonly informer: Informer<T>; readonly wanted: readonly Applied<T>[] },
  signal: AbortSignal,
): Promise<PromiseSettledResult<unknown>[]> {
  const keep = new Set(wanted.map((it) => it.metadata.name));
  const superfluous = [...informer.store.list()].filter(
    ({ metadata: { namespace, name } }) => namespace === VIEW_NAMESPACE && !keep.has(name),
  );
  return Promise.allSettled([
    ...wanted.map((desired) => {
      const current = informer.store.get(objectKey(VIEW_NAMESPACE, desired.metadata.name));
      return applyIfChanged(client, of, { current, desired, fieldManager: HUB_MANAGER, signal });
    }),
    ...superfluous.map((it) => client.delete(of, keyOf(it), { signal })),
  ]);
}
