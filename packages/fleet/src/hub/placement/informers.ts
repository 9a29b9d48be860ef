import { objectKey, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { TextPool } from "@fairlead/base/text-pool.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { Informer, InformerOptions, KubeClient } from "@fairlead/kube/types.ts";
import {
  LATEST_SNAPSHOT_LABEL,
  PARENT_BINDING_LABEL,
  PARENT_OVERRIDE_LABEL,
  PARENT_PLACEMENT_LABEL,
  PARENT_PLACEMENT_NAMESPACE_LABEL,
  PLACEMENT_MANAGER,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import {
  CLUSTER_RESOURCE_OVERRIDE_SNAPSHOTS,
  CLUSTER_RESOURCE_OVERRIDES,
  type ClusterResourceOverride,
  type ClusterResourceOverrideSnapshot,
  type PlacementEviction,
  RESOURCE_OVERRIDE_SNAPSHOTS,
  RESOURCE_OVERRIDES,
  type ResourceOverride,
  type ResourceOverrideSnapshot,
} from "#api/placement.kubernetes-fleet.io/v1beta1/overrides.ts";
import {
  CLUSTER_RESOURCE_PLACEMENT_STATUSES,
  type ClusterResourcePlacementStatus,
  type Placement,
  type ResourceBinding,
  type ResourceSnapshot,
  type SchedulingPolicySnapshot,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type { ApprovalRequest, StagedUpdateRun } from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { type Work, WORKS } from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { notable } from "#placement/works/details.ts";
import { statusDigest } from "#placement/status/digest.ts";
import {
  CLUSTER_SCOPE,
  NAMESPACED_SCOPE,
  type PlacementScope,
} from "#api/placement.kubernetes-fleet.io/scopes.ts";

/** Index by the placement: the key that `placementOf` returns. */
export const OF_PLACEMENT = "placement";
/** Index of bindings by the target cluster. */
export const OF_CLUSTER = "cluster";
/** Index of bindings by the keys of the override snapshots, of both scopes, that they name. */
export const OF_OVERRIDE_SNAPSHOT = "overrideSnapshot";
/** Index of Works by the key of their binding. */
export const OF_BINDING = "binding";
/** Index of override snapshots by the key of their override. */
export const OF_OVERRIDE = "override";
/** Index of override snapshots: "true" for those that are the latest of their override. */
export const OF_LATEST = "latest";

/** Index of the statuses shown in namespaces by their name, which is that of the placement. */
export const OF_NAME = "name";

/** Of bindings and Works, that are kept once. Those of one object are some 40. */
const MAX_TEXTS = 4096;

/** A placement as `PlacementInformers` has it. */
export interface WatchedPlacement extends Placement {
  /** Of all of the status but the conditions. */
  readonly reportDigest?: string;
}
/** A ClusterResourcePlacementStatus as `PlacementInformers` has it. */
export interface ShownStatus extends ClusterResourcePlacementStatus {
  /** Of the status that it shows. */
  readonly sourceDigest?: string;
}

export interface ScopeInformers {
  readonly scope: PlacementScope;
  /** Of the status the conditions only: the rest is large, and its digest says whether it is as it should be. */
  readonly placements: Informer<WatchedPlacement>;
  readonly policySnapshots: Informer<SchedulingPolicySnapshot>;
  /** Without the selected resources: read a snapshot from the API server to have them. */
  readonly resourceSnapshots: Informer<ResourceSnapshot>;
  readonly bindings: Informer<ResourceBinding>;
  /** Indexed by their placement as well. */
  readonly runs: Informer<StagedUpdateRun>;
  readonly approvals: Informer<ApprovalRequest>;
  readonly evictions: Informer<PlacementEviction>;
}

/** What the controllers of placements read, each kind watched once. */
export interface PlacementInformers {
  readonly cluster: ScopeInformers;
  readonly namespaced: ScopeInformers;
  /** Without manifests, and of the conditions of manifests only those that a binding reports. */
  readonly works: Informer<Work>;
  /** Without the status that they show. */
  readonly shownStatuses: Informer<ShownStatus>;
  readonly clusterOverrides: Informer<ClusterResourceOverride>;
  readonly overrides: Informer<ResourceOverride>;
  readonly clusterOverrideSnapshots: Informer<ClusterResourceOverrideSnapshot>;
  readonly overrideSnapshots: Informer<ResourceOverrideSnapshot>;
}

export function createPlacementInformers(client: KubeClient, deps: RuntimeDeps): PlacementInformers {
  const make = <T extends KubeObject>(of: Resource<T>, options: InformerOptions<T> = {}): Informer<T> =>
    createInformer(client, of, { fieldManager: PLACEMENT_MANAGER, ...options }, deps);
  // Of these there are a hundred thousand: what they lack is found without the fields that a manager owns, and most texts occur in all.
  const texts = new TextPool(MAX_TEXTS);
  const makeLean = <T extends KubeObject>(
    of: Resource<T>,
    { trim, ...options }: InformerOptions<T>,
  ): Informer<T> =>
    createInformer(
      client,
      of,
      { ...options, trim: (it) => texts.share(trim === undefined ? it : trim(it)) },
      deps,
    );
  const byPlacement = { [OF_PLACEMENT]: (it: KubeObject) => [placementOf(it)] };
  const byOverride = {
    [OF_OVERRIDE]: (it: KubeObject) => [overrideOf(it)],
    [OF_LATEST]: ({ metadata: { labels } }: KubeObject) => [labels?.[LATEST_SNAPSHOT_LABEL] ?? ""],
  };
  const scoped = (scope: PlacementScope): ScopeInformers => ({
    scope,
    placements: make<WatchedPlacement>(scope.placements, { trim: withoutReport }),
    policySnapshots: make(scope.policySnapshots, { indexes: byPlacement }),
    resourceSnapshots: make(scope.resourceSnapshots, { trim: withoutResources, indexes: byPlacement }),
    // KubeFleet has only those of the cluster's scope.
    evictions: make(scope.evictions, { isOptional: () => scope.name === "namespaced" }),
    bindings: makeLean(scope.bindings, {
      indexes: {
        ...byPlacement,
        [OF_CLUSTER]: (it) => [it.spec.targetCluster],
        [OF_OVERRIDE_SNAPSHOT]: overrideSnapshotsOf,
      },
    }),
    runs: make(scope.runs, { indexes: { [OF_PLACEMENT]: (it) => [placementOfRun(it)] } }),
    approvals: make(scope.approvals),
  });
  return {
    cluster: scoped(CLUSTER_SCOPE),
    namespaced: scoped(NAMESPACED_SCOPE),
    works: makeLean(WORKS, { trim: withoutManifests, indexes: { [OF_BINDING]: (it) => [bindingOf(it)] } }),
    shownStatuses: make<ShownStatus>(CLUSTER_RESOURCE_PLACEMENT_STATUSES, {
      trim: withoutSource,
      indexes: { [OF_NAME]: ({ metadata: { name } }) => [name] },
    }),
    clusterOverrides: make(CLUSTER_RESOURCE_OVERRIDES),
    overrides: make(RESOURCE_OVERRIDES),
    clusterOverrideSnapshots: make(CLUSTER_RESOURCE_OVERRIDE_SNAPSHOTS, { indexes: byOverride }),
    overrideSnapshots: make(RESOURCE_OVERRIDE_SNAPSHOTS, { indexes: byOverride }),
  };
}

/** The key of the placement that a snapshot or binding belongs to. */
export function placementOf({ metadata: { namespace, labels } }: KubeObject): ObjectKey {
  return objectKey(namespace, labels?.[PARENT_PLACEMENT_LABEL] ?? "");
}

export function placementOfRun({ metadata: { namespace }, spec }: StagedUpdateRun): ObjectKey {
  return objectKey(namespace, spec.placementName);
}

export function overrideOf({ metadata: { namespace, labels } }: KubeObject): ObjectKey {
  return objectKey(namespace, labels?.[PARENT_OVERRIDE_LABEL] ?? "");
}

/** The keys of the override snapshots that a binding names. */
export function overrideSnapshotsOf({ spec }: ResourceBinding): ObjectKey[] {
  return [
    ...(spec.clusterResourceOverrideSnapshots ?? []).map((name) => objectKey(undefined, name)),
    ...(spec.resourceOverrideSnapshots ?? []).map(({ namespace, name }) => objectKey(namespace, name)),
  ];
}

/** The key of the binding that a Work belongs to. */
export function bindingOf({ metadata: { labels } }: KubeObject): ObjectKey {
  return objectKey(labels?.[PARENT_PLACEMENT_NAMESPACE_LABEL], labels?.[PARENT_BINDING_LABEL] ?? "");
}

function withoutReport(it: WatchedPlacement): WatchedPlacement {
  const { status, ...rest } = it;
  if (status === undefined) return it;
  const { conditions = [], ...report } = status;
  return { ...rest, status: { conditions }, reportDigest: statusDigest(report) };
}
function withoutSource(it: ShownStatus): ShownStatus {
  return { ...it, sourceStatus: {}, sourceDigest: statusDigest(it.sourceStatus) };
}
function withoutResources(it: ResourceSnapshot): ResourceSnapshot {
  return { ...it, spec: { selectedResources: [] } };
}
/** Without manifests, and without what it reports of objects that are as they should be. */
function withoutManifests(it: Work): Work {
  const { workload: _, ...spec } = it.spec;
  const { status } = it;
  if (status?.manifestConditions == null) return { ...it, spec };
  return {
    ...it,
    spec,
    status: { ...status, manifestConditions: notable(status.manifestConditions) },
  };
}
