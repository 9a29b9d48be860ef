import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import type {
  ClusterDecision,
  PerClusterPlacementStatus,
  PlacementDetails,
  ResourceBinding,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { indexInName } from "../snapshots/history.ts";
import { PENDING, type Stage } from "./stages.ts";

/** Most entries of each kind of detail, for each cluster. */
export const MAX_DETAILS = 100;

export interface ClusterInput {
  readonly placement: { readonly name: string; readonly generation: number };
  readonly decision: ClusterDecision;
  /** Undefined before the scheduler made it. */
  readonly binding: ResourceBinding | undefined;
  /** The snapshot that the cluster is to have; undefined if others decide that (strategy External). */
  readonly snapshot: string | undefined;
  readonly stages: readonly Stage[];
  /** When the scheduler last decided. RFC 3339. */
  readonly decidedAt: string;
}

/** The status of one picked cluster. Times are those of its binding, so that the same objects always give the same status. */
export function clusterStatus(input: ClusterInput): PerClusterPlacementStatus {
  const { placement, decision, binding } = input;
  const conditions = [scheduled(input), ...chain(input)];
  const index = indexInName(binding?.spec.resourceSnapshotName ?? "", placement.name);
  return {
    clusterName: decision.clusterName,
    ...(index === undefined ? {} : { observedResourceIndex: String(index) }),
    ...(isReached(conditions, "Overridden") ? overridesOf(binding) : {}),
    ...(isReached(conditions, "Applied") || isReached(conditions, "DiffReported")
      ? detailsOf(binding, conditions)
      : {}),
    conditions,
  };
}

/** The status of a cluster that should have been picked and could not be. */
export function unscheduledStatus(
  { clusterName, reason }: ClusterDecision,
  { generation, decidedAt }: { readonly generation: number; readonly decidedAt: string },
): PerClusterPlacementStatus {
  const condition: Condition = {
    type: "Scheduled",
    status: "False",
    observedGeneration: generation,
    lastTransitionTime: decidedAt,
    reason: "ScheduleFailed",
    message: `${clusterName} is not selected: ${reason}`,
  };
  return { conditions: [condition] };
}

function scheduled({ placement, decision, binding, decidedAt }: ClusterInput): Condition {
  const { clusterName, clusterScore, reason } = decision;
  const scores =
    clusterScore === undefined
      ? ""
      : ` (affinity score: ${clusterScore.affinityScore ?? 0}, topology spread score: ${clusterScore.priorityScore ?? 0})`;
  return {
    type: "Scheduled",
    status: "True",
    observedGeneration: placement.generation,
    lastTransitionTime: binding?.metadata.creationTimestamp ?? decidedAt,
    reason: "Scheduled",
    message: `${clusterName} is selected${scores}: ${reason}`,
  };
}

/** Up to the first stage that is not True. */
function chain(input: ClusterInput): Condition[] {
  const conditions: Condition[] = [];
  for (const stage of input.stages) {
    const condition = conditionOf(stage, input);
    conditions.push(condition);
    if (condition.status !== "True") break;
  }
  return conditions;
}

function conditionOf(stage: Stage, input: ClusterInput): Condition {
  const { placement, binding, decidedAt } = input;
  const found = findCondition(binding?.status?.conditions, stage);
  const at = { type: stage, observedGeneration: placement.generation };
  if (found === undefined || found.status === "Unknown" || isOutdated(found, input)) {
    const lastTransitionTime = found?.lastTransitionTime ?? binding?.metadata.creationTimestamp ?? decidedAt;
    return { ...at, status: "Unknown", lastTransitionTime, ...PENDING[stage] };
  }
  const { status, reason, message, lastTransitionTime } = found;
  return { ...at, status, lastTransitionTime, reason, message };
}

/** Of an earlier state of the binding; or of a rollout of another snapshot. That a rollout cannot start yet is of the present one. */
function isOutdated({ type, status, observedGeneration = 0 }: Condition, input: ClusterInput): boolean {
  const { binding, snapshot } = input;
  if (observedGeneration < (binding?.metadata.generation ?? 0)) return true;
  if (type !== "RolloutStarted" || status !== "True" || snapshot === undefined) return false;
  return binding?.spec.resourceSnapshotName !== snapshot;
}

function isReached(conditions: readonly Condition[], stage: Stage): boolean {
  const found = findCondition(conditions, stage);
  return found !== undefined && found.status !== "Unknown";
}

function overridesOf(binding: ResourceBinding | undefined): Partial<PerClusterPlacementStatus> {
  const { resourceOverrideSnapshots = [], clusterResourceOverrideSnapshots = [] } = binding?.spec ?? {};
  return {
    ...(resourceOverrideSnapshots.length === 0
      ? {}
      : { applicableResourceOverrides: resourceOverrideSnapshots }),
    ...(clusterResourceOverrideSnapshots.length === 0
      ? {}
      : { applicableClusterResourceOverrides: clusterResourceOverrideSnapshots }),
  };
}

/** Failures only while something fails. */
function detailsOf(binding: ResourceBinding | undefined, conditions: readonly Condition[]): PlacementDetails {
  const { failedPlacements = [], driftedPlacements = [], diffedPlacements = [] } = binding?.status ?? {};
  const isFailed = conditions.some((it) => it.status === "False");
  return {
    ...(isFailed && failedPlacements.length > 0
      ? { failedPlacements: failedPlacements.slice(0, MAX_DETAILS) }
      : {}),
    ...(driftedPlacements.length > 0 ? { driftedPlacements: driftedPlacements.slice(0, MAX_DETAILS) } : {}),
    ...(diffedPlacements.length > 0 ? { diffedPlacements: diffedPlacements.slice(0, MAX_DETAILS) } : {}),
  };
}
