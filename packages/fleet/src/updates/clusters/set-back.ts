import { timestamp } from "@fairlead/kube/objects/conditions.ts";
import type {
  MemberUpdateStatus,
  UpdateRunStatus,
  UpdateStatus,
} from "#api/fairlead.dev/v1alpha1/updates.ts";
import { isToCome } from "#domain/set-back.ts";
import { isFinal } from "./states.ts";

/** After the clock was set back: what began at a time to come, and is not over, has begun now. So waits, watches and limits take as long as they are. */
export function endFuture({ status, stages }: UpdateRunStatus, nowMs: number): void {
  const now = timestamp(nowMs);
  const begun = (it: UpdateStatus): void => {
    if (!isFinal(it.state) && isToCome(it.startTime, nowMs)) it.startTime = now;
  };
  begun(status);
  for (const stage of stages) {
    if (stage.afterStageWaitStatus !== undefined) begun(stage.afterStageWaitStatus.status);
    for (const part of [stage, ...stage.groups]) {
      begun(part.status);
      for (const gate of [...(part.beforeGates ?? []), ...(part.afterGates ?? [])]) begun(gate.status);
    }
    for (const it of stage.groups.flatMap(({ members }) => members)) {
      begun(it.status);
      if (!isFinal(it.status.state)) ofMember(it, nowMs);
    }
  }
}

function ofMember(member: MemberUpdateStatus, nowMs: number): void {
  const now = timestamp(nowMs);
  const { status, rollback } = member;
  if (isToCome(member.unhealthySince, nowMs)) member.unhealthySince = now;
  if (isToCome(member.engineEndTime, nowMs)) member.engineEndTime = now;
  // While it is upgraded, probes are compared with those before: they do not begin again.
  if (status.state !== "Running" && isToCome(member.probedSince, nowMs)) member.probedSince = now;
  if (rollback?.state === "Running" && isToCome(rollback.startTime, nowMs))
    member.rollback = { ...rollback, startTime: now };
}
