import { timestamp } from "@fairlead/kube/objects/conditions.ts";
import type {
  MemberUpdateStatus,
  UpdateGateStatus,
  UpdateRunStatus,
  UpdateStatus,
} from "#api/fairlead.dev/v1alpha1/updates.ts";
import { isToCome } from "#domain/set-back.ts";
import { isFinal } from "./states.ts";

/** When the time of day is set during a run: waits, watches and limits take as long as they are. */

type Change = (time: string) => string;

/** After the clock was set back: what began at a time to come, and is not over, has begun now. */
export function endFuture(status: UpdateRunStatus, nowMs: number): void {
  const change: Change = (time) => (isToCome(time, nowMs) ? timestamp(nowMs) : time);
  changeBegun(status, change);
  for (const { status: gate } of gatesIn(status)) changeStart(gate, change);
}

/**
 * While the run was looked at, the clock was set ahead or back: what is not over began so much later or earlier by that clock. Gates
 * with a scheduled start, and maintenance windows, go by the time of day, whatever it is.
 */
export function followClock(status: UpdateRunStatus, jumpMs: number): void {
  if (jumpMs !== 0) changeBegun(status, (time) => timestamp(Date.parse(time) + jumpMs));
}

function changeBegun(status: UpdateRunStatus, change: Change): void {
  changeStart(status.status, change);
  for (const stage of status.stages) {
    if (stage.afterStageWaitStatus !== undefined) changeStart(stage.afterStageWaitStatus.status, change);
    for (const part of [stage, ...stage.groups]) changeStart(part.status, change);
    for (const it of stage.groups.flatMap(({ members }) => members))
      if (!isFinal(it.status.state)) changeMember(it, change);
  }
}

function gatesIn({ stages }: UpdateRunStatus): UpdateGateStatus[] {
  return stages
    .flatMap((stage) => [stage, ...stage.groups])
    .flatMap((it) => [...(it.beforeGates ?? []), ...(it.afterGates ?? [])]);
}

function changeStart(it: UpdateStatus, change: Change): void {
  if (!isFinal(it.state) && it.startTime !== undefined) it.startTime = change(it.startTime);
}

function changeMember(member: MemberUpdateStatus, change: Change): void {
  const { status, unhealthySince, engineEndTime, probedSince, rollback } = member;
  changeStart(status, change);
  if (unhealthySince !== undefined) member.unhealthySince = change(unhealthySince);
  if (engineEndTime !== undefined) member.engineEndTime = change(engineEndTime);
  // While it is upgraded, probes are compared with those before: they do not begin again.
  if (status.state !== "Running" && probedSince !== undefined) member.probedSince = change(probedSince);
  if (rollback?.state === "Running") member.rollback = { ...rollback, startTime: change(rollback.startTime) };
}
