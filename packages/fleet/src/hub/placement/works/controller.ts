import { sameJson } from "@fairlead/base/json.ts";
import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { both, watching, watchingChanges } from "@fairlead/kube/controller/source.ts";
import type { Change, Controller } from "@fairlead/kube/types.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type {
  ClusterResourceOverrideSnapshot,
  ResourceOverrideSnapshot,
} from "#api/placement.kubernetes-fleet.io/v1beta1/overrides.ts";
import type { Placement, ResourceSnapshot } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import {
  bindingOf,
  OF_CLUSTER,
  OF_OVERRIDE_SNAPSHOT,
  OF_PLACEMENT,
  placementOf,
  type ScopeInformers,
} from "../informers.ts";
import type { RolloutParts } from "../parts.ts";
import { WorksReconciler } from "./reconcile.ts";

type OverrideChange = Change<ClusterResourceOverrideSnapshot> | Change<ResourceOverrideSnapshot>;

/** Makes the Works of bindings, and reports in bindings what the members report in Works. Keys are bindings of both scopes. */
export function createWorks(parts: RolloutParts): Controller {
  const { informers, members, deps } = parts;
  const scopes = [informers.cluster, informers.namespaced];
  const reconciler = new WorksReconciler(parts);
  return createController(
    {
      name: "hub-works",
      // One placement has a hundred bindings, and each waits for the API server alone.
      concurrency: 16,
      reconcile: (key, signal) => reconciler.reconcile(key, signal),
      sources: [
        ...scopes.map((it) => watching(it.bindings)),
        watchingChanges(
          informers.works,
          both((it) => [bindingOf(it)]),
        ),
        ...scopes.map((it) => watchingChanges(it.placements, (change) => reportingBack(it, change))),
        ...scopes.map((it) => watchingChanges(it.resourceSnapshots, (change) => namedBy(it, change))),
        ...scopes.flatMap((it) => [
          watchingChanges(informers.clusterOverrideSnapshots, (change) => namingOverrides(it, change)),
          watchingChanges(informers.overrideSnapshots, (change) => namingOverrides(it, change)),
        ]),
        ...scopes.map((it) =>
          watchingChanges(members, (change) => (areLabelsSame(change) ? [] : overriddenIn(it, change.key))),
        ),
      ],
    },
    deps,
  );
}

/** Bindings of a placement whose Works have to say something else about reporting back. */
function reportingBack({ bindings }: ScopeInformers, { key, before, after }: Change<Placement>): ObjectKey[] {
  const strategyOf = (it: Placement | undefined) => it?.spec.strategy?.reportBackStrategy;
  if (sameJson(strategyOf(before), strategyOf(after))) return [];
  return [...bindings.store.byIndex(OF_PLACEMENT, key)].map(keyOf);
}

/** Bindings that name an override snapshot that came, went or changed. */
function namingOverrides({ bindings }: ScopeInformers, { key, before, after }: OverrideChange): ObjectKey[] {
  if (sameJson(before?.spec, after?.spec)) return [];
  return [...bindings.store.byIndex(OF_OVERRIDE_SNAPSHOT, key)].map(keyOf);
}

/** Bindings that name a snapshot that came or went, or got its last part. */
function namedBy({ bindings }: ScopeInformers, { before, after }: Change<ResourceSnapshot>): ObjectKey[] {
  const snapshot = after ?? before;
  if (snapshot === undefined || (before !== undefined && after !== undefined)) return [];
  const { name } = snapshot.metadata;
  const index = name.slice(0, name.lastIndexOf("-") + 1);
  return [...bindings.store.byIndex(OF_PLACEMENT, placementOf(snapshot))]
    .filter((it) => it.spec.resourceSnapshotName.startsWith(index))
    .map(keyOf);
}

function areLabelsSame({ before, after }: Change<KubeObject>): boolean {
  return sameJson(before?.metadata.labels ?? {}, after?.metadata.labels ?? {});
}

function overriddenIn({ bindings }: ScopeInformers, cluster: string): ObjectKey[] {
  return [...bindings.store.byIndex(OF_CLUSTER, cluster)]
    .filter(
      ({ spec }) =>
        (spec.clusterResourceOverrideSnapshots ?? []).length + (spec.resourceOverrideSnapshots ?? []).length >
        0,
    )
    .map(keyOf);
}
