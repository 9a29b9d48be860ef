import type {
  Placement,
  ResourceBinding,
  SchedulingPolicySnapshot,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type {
  ApprovalRequest,
  StagedUpdateRun,
  StagedUpdateRunStatus,
} from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { cloneJson } from "@fairlead/base/json.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { changeOf } from "./changes.ts";
import { endFuture, followClock, isFinal, mark, statusOf } from "./conditions.ts";
import { stepDeletion } from "./deletion.ts";
import { momentOf } from "./initialize.ts";
import { Abort, type Effects, type Pass, type Step } from "./pass.ts";
import { stepStage } from "./stage.ts";
import { targetsOf } from "./targets.ts";

/** What a pass of an initialized run reads. */
export interface World {
  readonly placement: Placement | undefined;
  /** The latest one; undefined while one takes the place of another. */
  readonly policy: SchedulingPolicySnapshot | undefined;
  /** Those of the placement. */
  readonly bindings: readonly ResourceBinding[];
  readonly approval: (name: string) => ApprovalRequest | undefined;
  readonly nowMs: number;
  /** How far the time of day was set since the last pass over the run. Default: 0. Unit: milliseconds. */
  readonly jumpMs?: number;
}

export interface Plan extends Effects {
  readonly status: StagedUpdateRunStatus;
  /** What changed of the placement, where the run is to be planned again (`replan`): there is nothing else to write. */
  readonly outdated?: string;
}

/** Whether nothing about the run changes any more. */
export function isOver({ status = {} }: StagedUpdateRun): boolean {
  return isFinal(status) || statusOf(status, "Initialized") === "False";
}

/** The index of the resource snapshot that the run is about to give to clusters, if it is known. */
export function indexAwaitedBy(run: StagedUpdateRun): number[] {
  const index = run.status?.resourceSnapshotIndexUsed ?? run.spec.resourceSnapshotIndex ?? "";
  return isOver(run) || !/^\d{1,15}$/.test(index) ? [] : [Number(index)];
}

/** Whether the run has its stages and is to be executed or stopped. */
export function isExecuted({ spec, status = {} }: StagedUpdateRun): boolean {
  return statusOf(status, "Initialized") === "True" && (spec.state ?? "Initialize") !== "Initialize";
}

/**
 * What is to be written for a run that is executed: first the effects, then the status. Any pass may be the first one after
 * a crash: a binding that was written although the status does not say so is found as written.
 */
export function advance(run: StagedUpdateRun, world: World): Plan {
  const before = run.status ?? {};
  const status = cloneJson(before);
  followClock(status, world.jumpMs ?? 0);
  endFuture(status, world.nowMs);
  const targets = targetsOf(world.bindings);
  const effects: Effects = { bind: [], remove: [], request: [], accept: [], wakeMs: [] };
  const pass: Pass = {
    ...momentOf(run, world.nowMs),
    ...effects,
    run,
    before,
    targets,
    resourceSnapshotName: `${run.spec.placementName}-${before.resourceSnapshotIndexUsed}-snapshot`,
    approval: world.approval,
    isStopped: run.spec.state === "Stop",
  };
  try {
    checkPlacement(run, world);
    const change = changeOf(before, world.policy, targets);
    if (change !== undefined && run.spec.onPlacementChange === "Replan")
      return { ...effects, status: before, outdated: change };
    if (change !== undefined) throw new Abort(`${change}; create another update run`);
    conclude(pass, status, stepAll(pass, status));
    return { ...effects, status };
  } catch (error) {
    if (!(error instanceof Abort)) throw error;
    conclude(pass, status, { at: "failed", message: error.message });
    failOpenStage(pass, status, error.message);
    // An aborted run changes nothing any more.
    return { bind: [], remove: [], request: [], accept: [], wakeMs: [], status };
  }
}

function stepAll(pass: Pass, status: StagedUpdateRunStatus): Step {
  const configs = status.stagedUpdateStrategySnapshot?.stages ?? [];
  for (const [at, stage] of (status.stagesStatus ?? []).entries()) {
    const config = configs[at];
    if (isFinal(stage)) continue;
    if (config === undefined)
      throw new Abort(`the status of the update run has no strategy for stage ${stage.stageName}`);
    const step = stepStage(pass, stage, config);
    if (step.at !== "done") return step;
  }
  const { deletionStageStatus: deletion } = status;
  return deletion === undefined || isFinal(deletion) ? { at: "done" } : stepDeletion(pass, deletion);
}

/** @throws {Abort} where the placement cannot be rolled out by runs any more. */
function checkPlacement({ spec }: StagedUpdateRun, { placement }: World): void {
  if (placement === undefined || isDeleting(placement))
    throw new Abort(`placement ${spec.placementName} does not exist any more, or is being deleted`);
  if (placement.spec.strategy?.type !== "External")
    throw new Abort(`spec.strategy.type of placement ${spec.placementName} is not External any more`);
}

function conclude(pass: Pass, status: StagedUpdateRunStatus, step: Step): void {
  switch (step.at) {
    case "progressing":
      return mark(status, pass, [
        "Progressing",
        "True",
        "UpdateRunProgressing",
        "the update run makes progress",
      ]);
    case "waiting":
      return mark(status, pass, ["Progressing", "False", "UpdateRunWaiting", step.message]);
    case "stuck":
      return mark(status, pass, ["Progressing", "False", "UpdateRunStuck", step.message]);
    case "stopping":
      return mark(status, pass, [
        "Progressing",
        "Unknown",
        "UpdateRunStopping",
        "the update run stops when the clusters that have started are updated",
      ]);
    case "stopped":
      return mark(status, pass, ["Progressing", "False", "UpdateRunStopped", "the update run is stopped"]);
    case "done":
      mark(status, pass, ["Progressing", "False", "UpdateRunSucceeded", "all stages are done"]);
      return mark(status, pass, ["Succeeded", "True", "UpdateRunSucceeded", "all stages are done"]);
    case "failed":
      mark(status, pass, ["Progressing", "False", "UpdateRunFailed", step.message]);
      return mark(status, pass, ["Succeeded", "False", "UpdateRunFailed", step.message]);
    default:
      step satisfies never;
  }
}

/** The stage that was updated when the run was aborted. */
function failOpenStage(pass: Pass, status: StagedUpdateRunStatus, message: string): void {
  const stages = [
    ...(status.stagesStatus ?? []),
    ...(status.deletionStageStatus === undefined ? [] : [status.deletionStageStatus]),
  ];
  const open = stages.find((it) => !isFinal(it));
  if (open === undefined || statusOf(open, "Progressing") === undefined) return;
  mark(open, pass, ["Progressing", "False", "StageUpdatingFailed", message]);
  mark(open, pass, ["Succeeded", "False", "StageUpdatingFailed", message]);
}
