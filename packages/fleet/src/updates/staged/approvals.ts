import {
  LATEST_APPROVAL_LABEL,
  TARGET_STAGE_LABEL,
  TARGET_UPDATE_RUN_LABEL,
  TASK_TYPE_LABEL,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import type { ApprovalRequest, StagedUpdateRun } from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { defined } from "@fairlead/base/defined.ts";
import { isConditionTrue } from "@fairlead/kube/objects/conditions.ts";

/** When a task of a stage is due. */
export type Timing = "before" | "after";

export function approvalName(run: string, timing: Timing, stage: string): string {
  return `${run}-${timing}-${stage}`;
}

export function approvalRequest(
  { metadata: { name: run, namespace } }: StagedUpdateRun,
  timing: Timing,
  stage: string,
): ApprovalRequest {
  return {
    metadata: {
      name: approvalName(run, timing, stage),
      ...defined({ namespace }),
      labels: {
        [TARGET_UPDATE_RUN_LABEL]: run,
        [TARGET_STAGE_LABEL]: stage,
        [TASK_TYPE_LABEL]: `${timing}Stage`,
        [LATEST_APPROVAL_LABEL]: "true",
      },
    },
    spec: { parentStageRollout: run, targetStage: stage },
  };
}

/** An accepted approval stays one, whatever is written afterwards. */
export function isApproved({ status }: ApprovalRequest): boolean {
  return (
    isConditionTrue(status?.conditions, "Approved") || isConditionTrue(status?.conditions, "ApprovalAccepted")
  );
}

export function isAccepted({ status }: ApprovalRequest): boolean {
  return isConditionTrue(status?.conditions, "ApprovalAccepted");
}
