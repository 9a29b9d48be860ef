import { isToCome } from "#domain/set-back.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import { findCondition, setCondition, timestamp } from "@fairlead/kube/objects/conditions.ts";
import type {
  StagedUpdateRunStatus,
  StageUpdatingStatus,
} from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";

/** Conditions of staged update runs, as KubeFleet spells them. */

type ConditionType =
  | "Initialized"
  | "Progressing"
  | "Succeeded"
  | "Started"
  | "ApprovalRequestCreated"
  | "ApprovalRequestApproved"
  | "WaitTimeElapsed"
  | "RolledBack";

type Reason =
  | "UpdateRunInitializedSuccessfully"
  | "UpdateRunInitializedFailed"
  | "UpdateRunProgressing"
  | "UpdateRunWaiting"
  | "UpdateRunStuck"
  | "UpdateRunStopping"
  | "UpdateRunStopped"
  | "UpdateRunFailed"
  | "UpdateRunSucceeded"
  | "StageUpdatingStarted"
  | "StageUpdatingWaiting"
  | "StageUpdatingStopping"
  | "StageUpdatingStopped"
  | "StageUpdatingFailed"
  | "StageUpdatingSucceeded"
  | "StageUpdatingSkippedNoClusters"
  | "ClusterUpdatingStarted"
  | "ClusterUpdatingFailed"
  | "ClusterUpdatingSucceeded"
  | "ClusterRolledBack"
  | "ClusterNotRolledBack"
  | "StageTaskApprovalRequestCreated"
  | "StageTaskApprovalRequestApproved"
  | "AfterStageTaskWaitTimeElapsed";

export type Mark = readonly [
  type: ConditionType,
  status: Condition["status"],
  reason: Reason,
  message: string,
];

/** When a pass is made, and for which generation of the run. */
export interface Moment {
  readonly nowMs: number;
  readonly generation: number;
}

interface WithConditions {
  conditions?: Condition[];
}

/** Sets a condition of a draft. */
export function mark(
  at: WithConditions,
  { nowMs, generation }: Moment,
  [type, status, reason, message]: Mark,
): void {
  const next = { type, status, reason, message, observedGeneration: generation };
  at.conditions = setCondition(at.conditions, next, { now: () => nowMs });
}

/** After the clock was set back: conditions of a draft from a time to come are as of now, so that waits end. */
export function endFuture(draft: StagedUpdateRunStatus, nowMs: number): void {
  const parts = stagesOf(draft).flatMap(partsOf);
  for (const it of [draft, ...parts])
    for (const condition of it.conditions ?? [])
      if (isToCome(condition.lastTransitionTime, nowMs)) condition.lastTransitionTime = timestamp(nowMs);
}

/**
 * While the run was looked at, the clock was set ahead or back: what happened in stages that are not over happened so much later or
 * earlier by that clock, so that waits and deadlines take as long as they are.
 */
export function followClock(draft: StagedUpdateRunStatus, jumpMs: number): void {
  if (jumpMs === 0) return;
  for (const it of stagesOf(draft)
    .filter((stage) => !isFinal(stage))
    .flatMap(partsOf))
    for (const condition of it.conditions ?? [])
      condition.lastTransitionTime = timestamp(Date.parse(condition.lastTransitionTime) + jumpMs);
}

function stagesOf({ stagesStatus = [], deletionStageStatus: deletion }: StagedUpdateRunStatus) {
  return [...stagesStatus, ...(deletion === undefined ? [] : [deletion])];
}

function partsOf(stage: StageUpdatingStatus): WithConditions[] {
  const { clusters, beforeStageTaskStatus = [], afterStageTaskStatus = [] } = stage;
  return [stage, ...clusters, ...beforeStageTaskStatus, ...afterStageTaskStatus];
}

/** The status of a condition; undefined where it is absent. */
export function statusOf(
  at: WithConditions | undefined,
  type: ConditionType,
): Condition["status"] | undefined {
  return findCondition(at?.conditions, type)?.status;
}

/** When a condition last changed its status. Unit: milliseconds since the Unix epoch. */
export function changedMs(at: WithConditions, type: ConditionType): number | undefined {
  const time = findCondition(at.conditions, type)?.lastTransitionTime;
  return time === undefined ? undefined : Date.parse(time);
}

/** Whether nothing about it changes any more: it has succeeded or failed. */
export function isFinal(at: WithConditions): boolean {
  const status = statusOf(at, "Succeeded");
  return status === "True" || status === "False";
}
