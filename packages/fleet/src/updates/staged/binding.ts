import { isConditionTrue } from "@fairlead/kube/objects/conditions.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { completeStrategy } from "#placement/rollout/plan.ts";
import type {
  ApplyStrategy,
  ResourceBinding,
  ResourceBindingSpec,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type { ClusterUpdatingStatus } from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";

/** What a run puts on a cluster. */
export type Version = Pick<
  ResourceBindingSpec,
  "resourceSnapshotName" | "resourceOverrideSnapshots" | "clusterResourceOverrideSnapshots"
>;

export function versionFor(cluster: ClusterUpdatingStatus, resourceSnapshotName: string): Version {
  const { resourceOverrideSnapshots = [], clusterResourceOverrideSnapshots = [] } = cluster;
  return { resourceSnapshotName, resourceOverrideSnapshots, clusterResourceOverrideSnapshots };
}

/** Whether the binding says that its cluster has this version, or is to get it. */
export function isAt({ spec }: ResourceBinding, version: Version): boolean {
  return (
    spec.state === "Bound" &&
    spec.resourceSnapshotName === version.resourceSnapshotName &&
    sameJson(spec.resourceOverrideSnapshots ?? [], version.resourceOverrideSnapshots ?? []) &&
    sameJson(spec.clusterResourceOverrideSnapshots ?? [], version.clusterResourceOverrideSnapshots ?? [])
  );
}

/** Servers fill in defaults, in the run as in the binding. */
export function sameStrategy(a: ApplyStrategy | undefined, b: ApplyStrategy | undefined): boolean {
  return sameJson(completeStrategy(a), completeStrategy(b));
}

/** Whether all objects of the binding's present spec are applied and available, or their differences are reported. */
export function isReady({ metadata: { generation = 0 }, status }: ResourceBinding): boolean {
  const current = (status?.conditions ?? []).filter(
    (it) => (it.observedGeneration ?? generation) >= generation,
  );
  const isTrue = (type: string): boolean => isConditionTrue(current, type);
  return isTrue("DiffReported") || (isTrue("Applied") && isTrue("Available"));
}
