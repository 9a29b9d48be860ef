import { sameJson } from "@fairlead/base/json.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { keyOf, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { both, watching, watchingChanges } from "@fairlead/kube/controller/source.ts";
import type { Change, Controller } from "@fairlead/kube/types.ts";
import type {
  ClusterResourceOverrideSnapshot,
  ResourceOverrideSnapshot,
} from "#api/placement.kubernetes-fleet.io/v1beta1/overrides.ts";
import { OF_CLUSTER, placementOf, type PlacementInformers, type ScopeInformers } from "../informers.ts";
import type { RolloutParts } from "../parts.ts";
import { RolloutReconciler } from "./reconcile.ts";

/** Gives bindings the latest resources and overrides, by rolling updates. Keys are placements of both scopes. */
export function createRollout(parts: RolloutParts): Controller {
  const { informers, members, deps } = parts;
  const scopes = [informers.cluster, informers.namespaced];
  const reconciler = new RolloutReconciler(parts);
  return createController(
    {
      name: "hub-rollout",
      reconcile: (key, signal) => reconciler.reconcile(key, signal),
      sources: [
        ...scopes.map((it) => watching(it.placements)),
        ...scopes.map((it) =>
          watchingChanges(
            it.bindings,
            both((binding) => [placementOf(binding)]),
          ),
        ),
        ...scopes.map((it) =>
          watchingChanges(
            it.resourceSnapshots,
            both((snapshot) => [placementOf(snapshot)]),
          ),
        ),
        watchingChanges(informers.clusterOverrideSnapshots, (change) => affected(informers, change)),
        watchingChanges(informers.overrideSnapshots, (change) => affected(informers, change)),
        ...scopes.map((it) =>
          watchingChanges(members, ({ key, before, after }) =>
            hasOverrides(informers) && !sameJson(before?.metadata.labels ?? {}, after?.metadata.labels ?? {})
              ? placedOn(it, key)
              : [],
          ),
        ),
      ],
    },
    deps,
  );
}

/** The placement that an override names; each one, if it names none. */
function affected(
  { cluster, namespaced }: PlacementInformers,
  { before, after }: Change<ClusterResourceOverrideSnapshot> | Change<ResourceOverrideSnapshot>,
): ObjectKey[] {
  const snapshot = after ?? before;
  if (snapshot === undefined) return [];
  const { placement } = snapshot.spec.overrideSpec;
  const { namespace } = snapshot.metadata;
  const isNamed = (it: KubeObject): boolean => placement == null || placement.name === it.metadata.name;
  return [
    ...[...cluster.placements.store.list()].filter(isNamed),
    ...[...namespaced.placements.store.list()].filter(
      (it) => namespace !== undefined && it.metadata.namespace === namespace && isNamed(it),
    ),
  ].map(keyOf);
}

function hasOverrides(informers: PlacementInformers): boolean {
  return informers.clusterOverrideSnapshots.store.size + informers.overrideSnapshots.store.size > 0;
}

function placedOn({ bindings }: ScopeInformers, cluster: string): ObjectKey[] {
  return [...bindings.store.byIndex(OF_CLUSTER, cluster)].map(placementOf);
}
