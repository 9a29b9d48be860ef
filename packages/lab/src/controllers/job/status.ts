import { defined } from "@fairlead/base/defined.ts";
import type { Job, JobCondition, JobStatus } from "@fairlead/kube/api/batch/v1/types.ts";
import { timestamp } from "@fairlead/kube/objects/conditions.ts";
import { judgeFailure } from "./policies.ts";
import type { Outcome, PodsAfter } from "./plan.ts";
import { indexOf, isIndexed, type JobView, type Tally } from "./tally.ts";

/** What a Job reports. */

export interface StatusPlan {
  readonly status: JobStatus;
  /** The event that goes with the change, if any. */
  readonly event:
    | { readonly type: "Normal" | "Warning"; readonly reason: string; readonly message: string }
    | undefined;
}

interface Next {
  readonly outcome: Outcome | undefined;
  readonly after: PodsAfter;
  /** Whether pods were looked after: only then is known what `suspend` has led to. */
  readonly isManaged: boolean;
}

export function planStatus(view: JobView, tally: Tally, next: Next): StatusPlan {
  const { job, nowMs } = view;
  const { outcome } = next;
  const now = timestamp(nowMs);
  const notes = notesOf(job, tally, outcome);
  const isOver = isAllCounted(tally, notes) && next.after.terminating === 0;
  const final = isOver && outcome !== undefined ? finalOf(outcome, now) : undefined;
  const suspension = next.isManaged && outcome === undefined ? suspensionOf(job, now) : undefined;
  const conditions = conditionsOf(job, { outcome, final, suspension }, now);
  const { startTime: _, ...before } = job.status ?? {};
  const status = {
    ...before,
    ...defined({ startTime: startOf(job, suspension, now) }),
    ...(final?.type === "Complete" ? { completionTime: now } : {}),
    ...next.after,
    ...countsOf(job, tally),
    uncountedTerminatedPods: withoutEmpty(notes),
    ...withoutEmpty({ conditions }),
  };
  return { status, event: final === undefined ? suspension?.event : endEvent(final) };
}

function conditionsOf(
  job: Job,
  next: {
    readonly outcome: Outcome | undefined;
    readonly final: JobCondition | undefined;
    readonly suspension: Suspension | undefined;
  },
  now: string,
): JobCondition[] {
  const { outcome, final, suspension } = next;
  const present = (job.status?.conditions ?? []).filter(
    (it) => suspension === undefined || it.type !== "Suspended",
  );
  return [
    ...present,
    ...(suspension === undefined ? [] : [suspension.condition]),
    ...interimOf(present, outcome, now),
    ...(final === undefined ? [] : [final]),
  ];
}

function withoutEmpty<T extends Readonly<Record<string, readonly unknown[]>>>(lists: T): Partial<T> {
  return Object.fromEntries(Object.entries(lists).filter(([, list]) => list.length > 0)) as Partial<T>;
}

function countsOf(job: Job, tally: Tally): JobStatus {
  const { failedIndexes, succeededIndexes, counted } = tally;
  if (!isIndexed(job)) return counted;
  const indexes = succeededIndexes.toString();
  return {
    failed: counted.failed,
    succeeded: succeededIndexes.size,
    ...(indexes === "" ? {} : { completedIndexes: indexes }),
    ...(failedIndexes === undefined ? {} : { failedIndexes: failedIndexes.toString() }),
  };
}

/** Uids. */
interface Notes extends Readonly<Record<string, string[]>> {
  readonly succeeded: string[];
  readonly failed: string[];
}

/** Once a Job fails, every pod that did not succeed counts as failed; once it succeeded, pods are no longer counted. */
function notesOf(job: Job, { noted, fresh, tracked, awaiting }: Tally, outcome: Outcome | undefined): Notes {
  const known = new Set([...noted.succeeded, ...noted.failed]);
  const succeeded = isIndexed(job) ? [] : fresh.succeeded;
  const waits = new Set(outcome === undefined ? awaiting.values() : []);
  const failed = outcome?.type === "FailureTarget" ? tracked : fresh.failed.filter((pod) => !waits.has(pod));
  const counts = failed.filter(
    (pod) =>
      pod.status?.phase !== "Succeeded" &&
      !known.has(pod.metadata.uid ?? "") &&
      (!isIndexed(job) || indexOf(job, pod) !== undefined) &&
      judgeFailure(job, pod).isCounted,
  );
  return {
    succeeded: [...noted.succeeded, ...succeeded.map((pod) => pod.metadata.uid ?? "")],
    failed: [...noted.failed, ...counts.map((pod) => pod.metadata.uid ?? "")],
  };
}

function isAllCounted(tally: Tally, notes: Notes): boolean {
  return tally.tracked.length + notes.succeeded.length + notes.failed.length === 0;
}

function interimOf(
  present: readonly JobCondition[],
  outcome: Outcome | undefined,
  now: string,
): JobCondition[] {
  if (outcome === undefined || present.some((it) => it.type === outcome.type && it.status === "True"))
    return [];
  return [{ ...outcome, status: "True", lastProbeTime: now, lastTransitionTime: now }];
}

function finalOf({ type, reason, message }: Outcome, now: string): JobCondition {
  return {
    type: type === "FailureTarget" ? "Failed" : "Complete",
    status: "True",
    lastProbeTime: now,
    lastTransitionTime: now,
    ...defined({ reason, message }),
  };
}

function endEvent({ type, reason = "", message = "" }: JobCondition): StatusPlan["event"] {
  if (type === "Complete") return { type: "Normal", reason: "Completed", message: "Job completed" };
  return { type: "Warning", reason, message };
}

interface Suspension {
  readonly condition: JobCondition;
  readonly event: NonNullable<StatusPlan["event"]>;
}

/** The change of the condition Suspended; a Job that never was suspended has none. */
function suspensionOf(job: Job, now: string): Suspension | undefined {
  const present = job.status?.conditions?.find((it) => it.type === "Suspended");
  const isSuspended = job.spec?.suspend === true;
  const status = isSuspended ? "True" : "False";
  if (present?.status === status || (present === undefined && !isSuspended)) return undefined;
  const [reason, message] = isSuspended
    ? (["JobSuspended", "Job suspended"] as const)
    : (["JobResumed", "Job resumed"] as const);
  return {
    condition: { type: "Suspended", status, reason, message, lastProbeTime: now, lastTransitionTime: now },
    event: { type: "Normal", reason: isSuspended ? "Suspended" : "Resumed", message },
  };
}

/** The deadline applies while the Job runs: it restarts when the Job is resumed. */
function startOf(job: Job, suspension: Suspension | undefined, now: string): string | undefined {
  if (suspension !== undefined) return suspension.condition.status === "True" ? undefined : now;
  const isSuspended = job.spec?.suspend === true;
  return job.status?.startTime ?? (isSuspended ? undefined : now);
}
