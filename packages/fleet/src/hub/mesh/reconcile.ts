import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { CLUSTER_MESH_PROFILES } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { isViewNamespace } from "#api/networking.fleet.azure.com/names.ts";
import { isMoreThanPaths, isReachChanged } from "#domain/gateway.ts";
import { isHeartbeat } from "#domain/member-change.ts";
import { delay } from "@fairlead/base/clock.ts";
import { sameJson } from "@fairlead/base/json.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { IpAddress } from "@fairlead/base/netaddr/address.ts";
import { type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { clockOfServer } from "@fairlead/kube/client/server-clock.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { watching, watchingChanges } from "@fairlead/kube/controller/source.ts";
import type { EventRecorder } from "@fairlead/kube/events/events.ts";
import { writeConditions } from "@fairlead/kube/objects/write-conditions.ts";
import type { Controller, KubeClient, ReconcileResult } from "@fairlead/kube/types.ts";
import type { HubInformers } from "../informers.ts";
import { pinOf } from "../view.ts";
import { type Planned, planNetworks } from "./networks.ts";
import { planDrift, planOperation } from "./plan-operation.ts";
import { planProfileStatus } from "./plan-profile.ts";
import { removeViews, writeViews } from "./write-views.ts";

interface Parts {
  readonly client: KubeClient;
  readonly informers: HubInformers;
  readonly events: EventRecorder;
  readonly deps: RuntimeDeps;
  /** Addresses of the hub's API server. */
  readonly servers: readonly IpAddress[];
}

/** A pass is followed by a rest of so many times the time that half of its planning took, and at most so long. */
const REST = { times: 8, maxMs: 1000 };

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
        watching(informers.gateways, (change) =>
          isMoreThanPaths(change) || isReachChanged(change) ? [ALL] : [],
        ),
        watching(informers.blocks, always),
        watching(informers.networks, always),
        watching(informers.virtualIPs, always),
        watchingChanges(informers.importedServices, ({ before, after }) =>
          informers.networks.store.size === 0 || before?.spec.type === after?.spec.type ? [] : [ALL],
        ),
        watching(informers.relays, always),
        watching(informers.members, (change) => (isHeartbeat(change) ? [] : [ALL])),
        watching(informers.reports, always),
        watchingChanges(informers.clusterUpgrades, ({ before, after }) =>
          sameJson(before?.spec.components, after?.spec.components) ? [] : [ALL],
        ),
        watchingChanges(informers.internalMembers, ({ before, after }) =>
          before?.spec.network?.profile === after?.spec.network?.profile ? [] : [ALL],
        ),
        watching(informers.namespaces, ({ key }) => (isViewNamespace(key) ? [ALL] : [])),
      ],
    },
    deps,
  );
}

async function reconcile(parts: Parts, signal: AbortSignal): Promise<ReconcileResult> {
  const { client, informers, deps } = parts;
  const startedMs = deps.clock.monotonic();
  const { profiles, former } = planNetworks(informers, clockOfServer(client, deps.clock).now());
  const restMs = Math.min(REST.maxMs, REST.times * (deps.clock.monotonic() - startedMs));
  const planned = [...profiles, ...former];
  // First, what fixes the prefixes.
  const results: PromiseSettledResult<unknown>[] = await Promise.allSettled(
    profiles.map((it) => reportProfile(parts, it, signal)),
  );
  results.push(...(await writeViews(parts, planned, signal)));
  results.push(...(await removeViews(parts, former, signal)));
  const failed = results.find((it) => it.status === "rejected");
  if (failed !== undefined) throw failed.reason;
  // Whatever one member writes, and however often: the hub has the time for all its other work.
  await delay(deps.clock, restMs, signal);
  const again = planned.flatMap(({ addresses, virtualIPs, epoch, states }) =>
    [addresses, virtualIPs, epoch, states].flatMap((it) => it.againInMs ?? []),
  );
  return again.length === 0 ? {} : { requeueAfterMs: Math.min(MAX_WAIT_MS, ...again) };
}

/** Timers have 31 bits. */
const MAX_WAIT_MS = 24 * 3600 * 1000;

async function reportProfile(
  parts: Parts,
  { selected, states, addresses, unconnected, virtualIPs, epoch: { epoch } }: Planned,
  signal: AbortSignal,
): Promise<void> {
  const { conditions, ...network } = planProfileStatus(
    selected,
    { ...addresses, unconnected, faults: [...addresses.faults, ...virtualIPs.faults] },
    epoch,
    (cluster) => pinOf(parts.informers, cluster),
  );
  const profile = parts.informers.profiles.store.get(objectKey(undefined, selected.profile.metadata.name));
  const drift = profile === undefined ? [] : planDrift(profile, parts.informers.members.store.list());
  const rest = { ...network, ...planOperation(selected.profile, states) };
  const { client, events, deps } = parts;
  const before = selected.profile.status?.keyEpoch;
  await writeConditions(client, CLUSTER_MESH_PROFILES, {
    object: selected.profile,
    own: new Set(["Ready", "Conflict", "TooManyMembers", "NodeAgentsInstalled", "Drift"]),
    next: [...conditions, ...drift],
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
