import { timestamp } from "@fairlead/kube/objects/conditions.ts";
import type {
  MemberUpdateStatus,
  UpdateGroupStatus,
  UpdateStageStatus,
  UpdateState,
} from "#api/fairlead.dev/v1alpha1/updates.ts";
import { passGates, skipGates } from "./gates.ts";
import { checkOf, decide, follow, hasEngine, lacksMeasurements, windowOf } from "./members.ts";
import { areProbesAwaited, endProbes, prepareProbes } from "./probing.ts";
import { windowRank } from "./schedule.ts";
import { isFinal } from "./states.ts";
import { fail, setState, type Walk } from "./walk.ts";

/** Stages and groups: what they begin, and their states, which follow from those of what is in them. */

export function advanceStage(walk: Walk, stage: UpdateStageStatus): void {
  countFailures(walk, stage);
  if (isFinal(stage.status.state) || rollUpSkipped(walk, stage)) return;
  const hasBegun = stage.groups.some((it) => it.status.state !== "NotStarted");
  if (!hasBegun && walk.isStopping) return endStopped(walk, stage);
  const place = { stage: stage.name, timing: "Before" } as const;
  if (!hasBegun && !passGates(walk, stage.beforeGates, place)) return setState(walk, stage.status, "Pending");
  if (stage.status.state === "NotStarted") setState(walk, stage.status, "Running");
  for (const group of stage.groups) advanceGroup(walk, stage, group);
  if (rollUpSkipped(walk, stage)) return;
  finishStage(walk, stage);
}

function finishStage(walk: Walk, stage: UpdateStageStatus): void {
  const states = stage.groups.map((it) => it.status.state);
  const isActive = states.some((it) => it === "Running" || it === "Stopping");
  if (isOverLimit(stage)) {
    if (stage.groups.some(hasRunning)) return setState(walk, stage.status, "Stopping");
    return fail(walk, stage.status, "TooManyFailures", limitMessage(stage));
  }
  if (walk.isStopping) return stopStage(walk, stage, isActive);
  if (isActive) return setState(walk, stage.status, "Running");
  const failed = stage.groups.find((it) => it.status.state === "Failed");
  if (failed !== undefined && states.every((it) => isFinal(it) || it === "Failed"))
    return fail(
      walk,
      stage.status,
      "GroupFailed",
      `group ${failed.name}: ${failed.status.error?.message ?? ""}`,
    );
  if (!states.every(isFinal)) return setState(walk, stage.status, stateOfWaiting(stage));
  setState(walk, stage.status, endStage(walk, stage));
}

/** Running until the first member was tried. */
function stateOfWaiting({ groups }: UpdateStageStatus): UpdateState {
  return groups.every((it) => it.status.state === "NotStarted") ? "Running" : "Pending";
}

/** A wait that was begun keeps counting: the stage continues where it would be. */
function stopStage(walk: Walk, stage: UpdateStageStatus, isActive: boolean): void {
  const wait = stage.afterStageWaitStatus?.status;
  if (wait?.state === "Running") setState(walk, wait, "Stopped");
  setState(walk, stage.status, isActive ? "Stopping" : "Stopped");
}

/** The wait and the gates after a stage begin together, and both must end. */
function endStage(walk: Walk, stage: UpdateStageStatus): UpdateState {
  const hasPassed = passGates(walk, stage.afterGates, { stage: stage.name, timing: "After" });
  const wait = stage.afterStageWaitStatus;
  if (wait !== undefined && !isFinal(wait.status.state)) {
    setState(walk, wait.status, "Running");
    const untilMs = Date.parse(wait.status.startTime ?? "") + wait.waitDurationInSeconds * 1000;
    if (walk.facts.nowMs >= untilMs) setState(walk, wait.status, "Completed");
    else walk.again(untilMs);
  }
  if (!hasPassed) return "Pending";
  return wait === undefined || isFinal(wait.status.state) ? "Completed" : "Running";
}

/** What is passed over as a whole is Skipped, and so are its gates and its wait. */
export function rollUpSkipped(walk: Walk, stage: UpdateStageStatus): boolean {
  for (const group of stage.groups) rollUpSkippedGroup(walk, group);
  if (isFinal(stage.status.state)) return false;
  if (!stage.groups.every((it) => it.status.state === "Skipped")) return false;
  skipGates(walk, stage.beforeGates);
  skipGates(walk, stage.afterGates);
  if (stage.afterStageWaitStatus !== undefined && !isFinal(stage.afterStageWaitStatus.status.state))
    setState(walk, stage.afterStageWaitStatus.status, "Skipped");
  setState(walk, stage.status, "Skipped");
  return true;
}

function rollUpSkippedGroup(walk: Walk, group: UpdateGroupStatus): void {
  if (isFinal(group.status.state) || !group.members.every((it) => it.status.state === "Skipped")) return;
  skipGates(walk, group.beforeGates);
  skipGates(walk, group.afterGates);
  setState(walk, group.status, "Skipped");
}

function advanceGroup(walk: Walk, stage: UpdateStageStatus, group: UpdateGroupStatus): void {
  if (isFinal(group.status.state)) return;
  const place = { stage: stage.name, group: group.name };
  const mayBegin = !walk.isStopping && !isOverLimit(stage) && !isOverLimit(group);
  const hasBegun = group.members.some(hasBeenTried);
  if (mayBegin && !hasBegun && !passGates(walk, group.beforeGates, { ...place, timing: "Before" }))
    return setState(walk, group.status, "Pending");
  if (mayBegin) schedule(walk, stage, group);
  else endProbes(group);
  rollUpSkippedGroup(walk, group);
  if (!isFinal(group.status.state)) finishGroup(walk, stage, group);
}

function finishGroup(walk: Walk, stage: UpdateStageStatus, group: UpdateGroupStatus): void {
  if (isOverLimit(group)) return failGroup(walk, group);
  const isDone = group.members.every((it) => isSettled(walk, it));
  const isOver = isDone && (group.afterGates ?? []).every((it) => isFinal(it.status.state));
  if (isOver) return setState(walk, group.status, "Completed");
  if (walk.isStopping || isOverLimit(stage)) return stopGroup(walk, group);
  if (hasRunning(group)) return setState(walk, group.status, "Running");
  if (isDone) {
    const place = { stage: stage.name, group: group.name, timing: "After" } as const;
    const hasPassed = passGates(walk, group.afterGates, place);
    return setState(walk, group.status, hasPassed ? "Completed" : "Pending");
  }
  // No member was tried: other groups of the stage have all its slots.
  if (group.members.some(hasBeenTried)) setState(walk, group.status, "Pending");
}

function failGroup(walk: Walk, group: UpdateGroupStatus): void {
  stopPending(walk, group);
  if (hasRunning(group)) return setState(walk, group.status, "Stopping");
  fail(walk, group.status, "TooManyFailures", limitMessage(group));
}

function stopGroup(walk: Walk, group: UpdateGroupStatus): void {
  stopPending(walk, group);
  if (hasRunning(group)) return setState(walk, group.status, "Stopping");
  if (group.status.state !== "NotStarted") setState(walk, group.status, "Stopped");
}

function endStopped(walk: Walk, stage: UpdateStageStatus): void {
  for (const it of stage.groups) endProbes(it);
  if (stage.status.state !== "NotStarted") setState(walk, stage.status, "Stopped");
}

function stopPending(walk: Walk, group: UpdateGroupStatus): void {
  for (const { status } of group.members) if (status.state === "Pending") setState(walk, status, "Stopped");
}

/** Begins members while the group and the stage have room. A member that cannot begin lets the next one try. */
function schedule(walk: Walk, stage: UpdateStageStatus, group: UpdateGroupStatus): void {
  const check = checkOf(walk, stage.name);
  const rank = (it: MemberUpdateStatus): number =>
    windowRank(windowOf(walk, walk.facts.members.get(it.name)), walk.facts.nowMs);
  const waiting = group.members.filter((it) => !isSettled(walk, it) && it.status.state !== "Running");
  const ordered = waiting.map((it) => [rank(it), it] as const).toSorted(([a], [b]) => a - b);
  for (const [at, [, member]] of ordered.entries()) {
    const isNext = hasRoom(stage, group) && !isReportAwaited(walk, stage, member.name);
    const decision = isNext ? decide(walk, member.name, stage.name) : undefined;
    if (decision === undefined || (decision.is === "begin" && areProbesAwaited(walk, member, check))) {
      const next = ordered.slice(at, at + group.maxConcurrency).map(([, it]) => it);
      prepareProbes(walk, next, stage.name);
      return;
    }
    follow(walk, member, decision, check);
    countFailures(walk, stage);
    if (isOverLimit(stage) || isOverLimit(group)) return;
  }
}

function hasRoom(stage: UpdateStageStatus, group: UpdateGroupStatus): boolean {
  if (countRunning(group) >= group.maxConcurrency) return false;
  return stage.groups.reduce((sum, it) => sum + countRunning(it), 0) < stage.maxConcurrency;
}

/** Members that are asked when their stage begins keep their order if they answer soon. Unit: milliseconds. */
const REPORT_MS = 30_000;

function isReportAwaited(walk: Walk, stage: UpdateStageStatus, name: string): boolean {
  const { facts } = walk;
  const observed = facts.observe(name);
  const isWithout = observed === undefined || lacksMeasurements(walk, stage.name, observed);
  if (!hasEngine(walk, facts.members.get(name)) || !isWithout) return false;
  const begunMs = Date.parse(stage.status.startTime ?? timestamp(facts.nowMs));
  if (facts.nowMs >= begunMs + REPORT_MS) return false;
  walk.again(begunMs + REPORT_MS);
  return true;
}

/** Whether nothing more happens to a member in this attempt. */
function isSettled(walk: Walk, { status, attempt }: MemberUpdateStatus): boolean {
  return isFinal(status.state) || (status.state === "Failed" && attempt === walk.attempt);
}

function hasBeenTried({ status }: MemberUpdateStatus): boolean {
  return status.state !== "NotStarted" && status.state !== "Skipped";
}

export function countFailures(walk: Walk, stage: UpdateStageStatus): void {
  for (const group of stage.groups)
    group.failureCount = group.members.filter(
      (it) => (it.status.state === "Failed" || isLedBack(it)) && it.attempt === walk.attempt,
    ).length;
  stage.failureCount = stage.groups.reduce((sum, it) => sum + it.failureCount, 0);
}

/** It has failed, although its engine works: it counts at once, so that no other begins. */
function isLedBack({ status, rollback }: MemberUpdateStatus): boolean {
  return status.state === "Running" && rollback !== undefined;
}

function isOverLimit({
  failureCount,
  maxAllowedFailures,
}: Pick<UpdateGroupStatus, "failureCount" | "maxAllowedFailures">): boolean {
  return failureCount > maxAllowedFailures;
}

function limitMessage({
  failureCount,
  maxAllowedFailures,
}: Pick<UpdateGroupStatus, "failureCount" | "maxAllowedFailures">): string {
  return `${failureCount} members failed, ${maxAllowedFailures} may fail`;
}

function countRunning({ members }: UpdateGroupStatus): number {
  return members.filter((it) => it.status.state === "Running").length;
}

function hasRunning(group: UpdateGroupStatus): boolean {
  return countRunning(group) > 0;
}
