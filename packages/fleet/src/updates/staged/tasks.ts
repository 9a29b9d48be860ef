import type { StageConfig, StageTaskStatus } from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { approvalName, approvalRequest, isAccepted, isApproved, type Timing } from "./approvals.ts";
import { mark, statusOf } from "./conditions.ts";
import { Abort, type Pass } from "./pass.ts";
import { durationMs } from "./stages.ts";

export interface TasksOf {
  readonly config: StageConfig;
  readonly timing: Timing;
  readonly tasks: readonly StageTaskStatus[];
  /** From when waits count. Unit: milliseconds since the Unix epoch. */
  readonly sinceMs: number;
}

/** Advances the tasks before or after a stage, all at the same time. @returns Whether all are done. */
export function areTasksDone(pass: Pass, { config, timing, tasks, sinceMs }: TasksOf): boolean {
  const done = tasks.map((task) =>
    task.type === "Approval"
      ? isApprovalDone(pass, task, { timing, stage: config.name })
      : isWaitDone(pass, task, waitMs(config) + sinceMs),
  );
  return done.every(Boolean);
}

function waitMs({ afterStageTasks = [] }: StageConfig): number {
  return durationMs(afterStageTasks.find((it) => it.type === "TimedWait")?.waitTime);
}

function isWaitDone(pass: Pass, task: StageTaskStatus, endMs: number): boolean {
  if (statusOf(task, "WaitTimeElapsed") === "True") return true;
  if (pass.nowMs < endMs) {
    pass.wakeMs.push(endMs);
    return false;
  }
  mark(task, pass, ["WaitTimeElapsed", "True", "AfterStageTaskWaitTimeElapsed", "the wait time has elapsed"]);
  return true;
}

function isApprovalDone(
  pass: Pass,
  task: StageTaskStatus,
  { timing, stage }: { readonly timing: Timing; readonly stage: string },
): boolean {
  const name = approvalName(pass.run.metadata.name, timing, stage);
  if (statusOf(task, "ApprovalRequestApproved") === "True") return true;
  const found = pass.approval(name);
  const wanted = approvalRequest(pass.run, timing, stage);
  if (found === undefined) pass.request.push(wanted);
  else if (
    found.spec.parentStageRollout !== wanted.spec.parentStageRollout ||
    found.spec.targetStage !== stage
  )
    throw new Abort(
      `approval request ${name} is for stage ${found.spec.targetStage} of update run ${found.spec.parentStageRollout}; delete it and create another update run`,
    );
  mark(task, pass, [
    "ApprovalRequestCreated",
    "True",
    "StageTaskApprovalRequestCreated",
    `approval request ${name} is created`,
  ]);
  if (found === undefined || !isApproved(found)) return false;
  if (!isAccepted(found)) pass.accept.push(found);
  mark(task, pass, [
    "ApprovalRequestApproved",
    "True",
    "StageTaskApprovalRequestApproved",
    `approval request ${name} is approved`,
  ]);
  return true;
}
