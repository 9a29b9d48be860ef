import { POLICY_INDEX_LABEL } from "#api/placement.kubernetes-fleet.io/names.ts";
import type { SchedulingPolicySnapshot } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type {
  StagedUpdateRunStatus,
  StageUpdatingStatus,
} from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { statusOf } from "./conditions.ts";
import { listed } from "./stages.ts";
import { clusterCountOf, type Targets } from "./targets.ts";

/** What changed of the clusters of a placement since its run was planned. */
export function changeOf(
  status: StagedUpdateRunStatus,
  policy: SchedulingPolicySnapshot | undefined,
  targets: Targets,
): string | undefined {
  return policyChange(status, policy) ?? clusterChange(status, targets);
}

function policyChange(
  status: StagedUpdateRunStatus,
  policy: SchedulingPolicySnapshot | undefined,
): string | undefined {
  // One takes the place of another.
  if (policy === undefined) return undefined;
  const { policySnapshotIndexUsed: used, policyObservedClusterCount: observed } = status;
  const index = policy.metadata.labels?.[POLICY_INDEX_LABEL];
  if (index !== used)
    return `the policy changed: the update run uses policy snapshot ${used}, and the latest is ${index}`;
  const count = clusterCountOf(policy);
  return count === undefined || count === observed
    ? undefined
    : `the policy asks for ${count} clusters, and asked for ${observed} when the update run was planned`;
}

function clusterChange(status: StagedUpdateRunStatus, targets: Targets): string | undefined {
  const joined = joinedClusters(status, targets);
  if (joined.size > 0)
    return `clusters joined the placement after the update run was planned: ${listed(joined)}`;
  const left = leftClusters(status, targets);
  return left.size === 0
    ? undefined
    : `clusters left the placement after the update run was planned: ${listed(left)}`;
}

/** Clusters that are scheduled and in no stage, or that were started, and left and joined again since. */
export function joinedClusters(
  { stagesStatus = [] }: StagedUpdateRunStatus,
  { scheduled }: Targets,
): Set<string> {
  const joined = new Set(scheduled.keys()).difference(namesOf(stagesStatus));
  for (const it of stagesStatus.flatMap((stage) => stage.clusters))
    if (statusOf(it, "Started") === "True" && scheduled.get(it.clusterName)?.spec.state === "Scheduled")
      joined.add(it.clusterName);
  return joined;
}

/** Clusters of stages that are not scheduled any more, and those that leave without the last stage removing them. */
export function leftClusters(status: StagedUpdateRunStatus, { scheduled, leaving }: Targets): Set<string> {
  const { stagesStatus, deletionStageStatus } = status;
  const removed = namesOf(deletionStageStatus === undefined ? [] : [deletionStageStatus]);
  const unscheduled = namesOf(stagesStatus).difference(new Set(scheduled.keys()));
  return unscheduled.union(new Set(leaving.keys()).difference(removed));
}

function namesOf(stages: readonly StageUpdatingStatus[] = []): Set<string> {
  return new Set(stages.flatMap((stage) => stage.clusters.map((it) => it.clusterName)));
}
