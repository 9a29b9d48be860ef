import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import { defined } from "@fairlead/base/defined.ts";
import { keyOf, type ObjectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { both, watching, watchingChanges } from "@fairlead/kube/controller/source.ts";
import { addFinalizer, isDeleting, removeFinalizer } from "@fairlead/kube/objects/finalizers.ts";
import { ignoreNotFound } from "@fairlead/kube/objects/not-found.ts";
import type { Controller, Informer, KubeClient } from "@fairlead/kube/types.ts";
import {
  LATEST_SNAPSHOT_LABEL,
  OVERRIDE_FINALIZER,
  OVERRIDE_INDEX_LABEL,
  OVERRIDE_MANAGER,
  PARENT_OVERRIDE_LABEL,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import {
  CLUSTER_RESOURCE_OVERRIDE_SNAPSHOTS,
  CLUSTER_RESOURCE_OVERRIDES,
  type ClusterResourceOverride,
  type ClusterResourceOverrideSnapshot,
  RESOURCE_OVERRIDE_SNAPSHOTS,
  RESOURCE_OVERRIDES,
  type ResourceOverride,
  type ResourceOverrideSnapshot,
} from "#api/placement.kubernetes-fleet.io/v1beta1/overrides.ts";
import { overrideHash, planHistory } from "#placement/overrides/history.ts";
import { OF_OVERRIDE, overrideOf } from "../informers.ts";
import type { RolloutParts } from "../parts.ts";

type Override = ClusterResourceOverride | ResourceOverride;
type Snapshot = ClusterResourceOverrideSnapshot | ResourceOverrideSnapshot;

/** Overrides of one scope. */
interface Kinds {
  readonly overrides: Informer<Override>;
  readonly snapshots: Informer<Snapshot>;
  readonly of: Resource<Override>;
  readonly snapshotsOf: Resource<Snapshot>;
}

/** Keeps the versions of overrides as snapshots. Keys are overrides of both scopes. */
export function createOverrides({
  client,
  informers,
  deps,
}: Pick<RolloutParts, "client" | "deps" | "informers">): Controller {
  const cluster: Kinds = {
    overrides: informers.clusterOverrides,
    snapshots: informers.clusterOverrideSnapshots,
    of: CLUSTER_RESOURCE_OVERRIDES,
    snapshotsOf: CLUSTER_RESOURCE_OVERRIDE_SNAPSHOTS,
  };
  const namespaced: Kinds = {
    overrides: informers.overrides,
    snapshots: informers.overrideSnapshots,
    of: RESOURCE_OVERRIDES,
    snapshotsOf: RESOURCE_OVERRIDE_SNAPSHOTS,
  };
  return createController(
    {
      name: "hub-overrides",
      reconcile: (key, signal) =>
        reconcile(client, splitKey(key).namespace === undefined ? cluster : namespaced, key, signal),
      sources: [cluster, namespaced].flatMap((it) => [
        watching(it.overrides),
        watchingChanges(
          it.snapshots,
          both((snapshot) => [overrideOf(snapshot)]),
        ),
      ]),
    },
    deps,
  );
}

async function reconcile(
  client: KubeClient,
  kinds: Kinds,
  key: ObjectKey,
  signal: AbortSignal,
): Promise<void> {
  const override = kinds.overrides.store.get(key);
  // Snapshots without an override stay: it is not deleted before they are, so it was lost.
  if (override === undefined) return;
  const snapshots = [...kinds.snapshots.store.byIndex(OF_OVERRIDE, key)];
  const hold = { finalizer: OVERRIDE_FINALIZER, signal };
  if (isDeleting(override)) {
    for (const it of snapshots) await client.delete(kinds.snapshotsOf, keyOf(it), { signal });
    return removeFinalizer(client, kinds.of, override, hold);
  }
  await addFinalizer(client, kinds.of, override, hold);
  const { create, label, remove } = planHistory(override.spec, snapshots);
  if (create !== undefined) await createSnapshot({ client, of: kinds.snapshotsOf, signal }, override, create);
  for (const [it, value] of label)
    await client
      .mergePatch(
        kinds.snapshotsOf,
        keyOf(it),
        { metadata: { labels: { [LATEST_SNAPSHOT_LABEL]: value } } },
        { fieldManager: OVERRIDE_MANAGER, signal },
      )
      .catch(ignoreNotFound);
  for (const it of remove) await client.delete(kinds.snapshotsOf, keyOf(it), { signal });
}

async function createSnapshot(
  {
    client,
    of,
    signal,
  }: { readonly client: KubeClient; readonly of: Resource<Snapshot>; readonly signal: AbortSignal },
  { metadata: { name, namespace }, spec }: Override,
  index: number,
): Promise<void> {
  const labels = {
    [PARENT_OVERRIDE_LABEL]: name,
    [OVERRIDE_INDEX_LABEL]: String(index),
    [LATEST_SNAPSHOT_LABEL]: "true",
  };
  const snapshot = {
    metadata: { name: `${name}-${index}`, ...defined({ namespace }), labels },
    spec: { overrideSpec: spec, overrideHash: overrideHash(spec) },
  } as Snapshot;
  try {
    await client.create(of, snapshot, { fieldManager: OVERRIDE_MANAGER, signal });
  } catch (error) {
    if (!hasCode(error, "API_ALREADY_EXISTS")) throw error;
    // Of an earlier pass, and not in the store yet.
    throw new FleetError("API_CONFLICT", `${of.kind} ${keyOf(snapshot)} exists already`, { cause: error });
  }
}
