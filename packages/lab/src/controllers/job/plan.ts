import type { Job, JobCondition } from "@fairlead/kube/api/batch/v1/types.ts";
import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { findCondition, timestamp } from "@fairlead/kube/objects/conditions.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { byDispensability } from "../replicaset/plan.ts";
import { isReady } from "../pods.ts";
import { backoffLeftMs, type FailureRecord, finishedAtMs } from "./backoff.ts";
import { IndexSet } from "./indexes.ts";
import { judgeFailure, metSuccessPolicy } from "./policies.ts";
import { indexOf, isFailed, isIndexed, type JobView, type Tally, tallyPods, tries } from "./tally.ts";
import { planStatus, type StatusPlan } from "./status.ts";

/** What a Job does next. Source: k8s.io/kubernetes, pkg/controller/job, as of 1.36. */

/** How a Job is to end. */
export type Outcome = Pick<JobCondition, "type" | "reason" | "message"> & {
  readonly type: "FailureTarget" | "SuccessCriteriaMet";
};

export interface JobPlan {
  /** One pod each; with an index in an Indexed Job. */
  readonly create: readonly { readonly index?: number; readonly replaces?: Pod | undefined }[];
  /** Removed because the Job ends: their end counts. */
  readonly end: readonly Pod[];
  /** Removed because they are too many: they lose the finalizer first, and so are never counted. */
  readonly drop: readonly Pod[];
  /** Lose the finalizer once the status is written. */
  readonly release: readonly Pod[];
  readonly status: StatusPlan;
  readonly record: FailureRecord;
  /** When time alone changes something. Unit: milliseconds from now. */
  readonly checkInMs: number | undefined;
}

/** As upstream: at most this many pods are made or removed in one pass. */
const BURST = 500;

export function planJob(view: JobView): JobPlan {
  const { job } = view;
  const tally = tallyPods(view);
  const outcome = outcomeOf(view, tally);
  const isManaged = outcome === undefined && view.isSettled && !isDeleting(job);
  const steps = isManaged ? manage(view, tally) : NO_STEPS;
  const end = outcome === undefined ? [] : tally.active;
  const after = pods(tally, steps, end);
  const reached = outcome ?? completionOf(job, tally, after.active);
  const isEnding = reached !== undefined && view.isSettled;
  const status = planStatus(view, tally, { outcome: isEnding ? reached : undefined, after, isManaged });
  const release = tally.tracked.filter((pod) => mayRelease(job, pod, { tally, isEnding }));
  const times = [steps.waitMs, deadlineLeftMs(job, view.nowMs)].filter((ms) => ms !== undefined && ms > 0);
  return {
    create: steps.create,
    drop: steps.drop,
    end,
    release,
    status,
    record: tally.record,
    checkInMs: outcome !== undefined || times.length === 0 ? undefined : Math.min(...times.map(Number)),
  };
}

interface Steps {
  readonly create: JobPlan["create"];
  readonly drop: readonly Pod[];
  /** Until failed pods may be replaced. Unit: milliseconds. */
  readonly waitMs: number | undefined;
}

const NO_STEPS: Steps = { create: [], drop: [], waitMs: undefined };

/** The numbers once the steps are done. */
export interface PodsAfter {
  readonly active: number;
  readonly ready: number;
  readonly terminating: number;
}

function pods(tally: Tally, steps: Steps, end: readonly Pod[]): PodsAfter {
  const removed = new Set([...steps.drop, ...end]);
  const left = tally.active.filter((pod) => !removed.has(pod));
  return {
    active: left.length + steps.create.length,
    ready: left.filter(isReady).length,
    terminating: tally.terminating.length + removed.size,
  };
}

function outcomeOf(view: JobView, tally: Tally): Outcome | undefined {
  const { job } = view;
  return (
    decided(job, "SuccessCriteriaMet") ??
    decided(job, "FailureTarget") ??
    failureByPolicy(view) ??
    failureByLimits(view, tally) ??
    failureByIndexes(job, tally) ??
    successByPolicy(job, tally)
  );
}

/** What an earlier pass decided holds. */
function decided(job: Job, type: Outcome["type"]): Outcome | undefined {
  const found = findCondition(job.status?.conditions, type);
  if (found?.status !== "True") return undefined;
  const { reason = "", message = "" } = found;
  return { type, reason, message };
}

function failure(reason: string, message: string): Outcome {
  return { type: "FailureTarget", reason, message };
}

function failureByPolicy({ job, pods: all }: JobView): Outcome | undefined {
  if (job.spec?.podFailurePolicy === undefined) return undefined;
  for (const pod of all) {
    const why = isFailed(job, pod) ? judgeFailure(job, pod).failsJob : undefined;
    if (why !== undefined) return failure("PodFailurePolicy", why);
  }
  return undefined;
}

function failureByLimits(view: JobView, tally: Tally): Outcome | undefined {
  const { job } = view;
  const limit = job.spec?.backoffLimit ?? 6;
  if (tally.failed > limit || isPastRestarts(view, limit))
    return failure("BackoffLimitExceeded", "Job has reached the specified backoff limit");
  if ((deadlineLeftMs(job, view.nowMs) ?? 1) <= 0)
    return failure("DeadlineExceeded", "Job was active longer than specified deadline");
  return undefined;
}

/** Where containers are started again in their pods, their restarts are the failures. */
function isPastRestarts({ job, pods: all }: JobView, limit: number): boolean {
  if (job.spec?.template.spec?.restartPolicy !== "OnFailure") return false;
  const restarts = all
    .filter(({ status }) => status?.phase === "Running" || status?.phase === "Pending")
    .flatMap(({ status }) => [...(status?.containerStatuses ?? []), ...(status?.initContainerStatuses ?? [])])
    .reduce((sum, it) => sum + it.restartCount, 0);
  return limit === 0 ? restarts > 0 : restarts >= limit;
}

function failureByIndexes(job: Job, { failedIndexes, succeededIndexes }: Tally): Outcome | undefined {
  if (failedIndexes === undefined) return undefined;
  const { maxFailedIndexes, completions = 0 } = job.spec ?? {};
  if (maxFailedIndexes !== undefined && failedIndexes.size > maxFailedIndexes)
    return failure(
      "MaxFailedIndexesExceeded",
      "Job has exceeded the specified maximal number of failed indexes",
    );
  if (failedIndexes.size > 0 && failedIndexes.size + succeededIndexes.size >= completions)
    return failure("FailedIndexes", "Job has failed indexes");
  return undefined;
}

function successByPolicy(job: Job, { succeededIndexes }: Tally): Outcome | undefined {
  const message = isIndexed(job) ? metSuccessPolicy(job, succeededIndexes) : undefined;
  return message === undefined ? undefined : { type: "SuccessCriteriaMet", reason: "SuccessPolicy", message };
}

/** Enough pods succeeded and none runs any more. */
function completionOf(job: Job, tally: Tally, active: number): Outcome | undefined {
  const enough = job.spec?.completions ?? 1;
  if (succeededOf(job, tally) < enough || active > 0) return undefined;
  const message = "Reached expected number of succeeded pods";
  return { type: "SuccessCriteriaMet", reason: "CompletionsReached", message };
}

function succeededOf(job: Job, tally: Tally): number {
  return isIndexed(job) ? tally.succeededIndexes.size : tally.succeeded;
}

/** How much is left of `activeDeadlineSeconds`; undefined: it does not run. Unit: milliseconds. */
function deadlineLeftMs({ spec, status }: Job, nowMs: number): number | undefined {
  if (spec?.activeDeadlineSeconds === undefined || spec.suspend === true) return undefined;
  const sinceMs = status?.startTime === undefined ? nowMs : Date.parse(status.startTime);
  return sinceMs + spec.activeDeadlineSeconds * 1000 - nowMs;
}

function manage(view: JobView, tally: Tally): Steps {
  const { job } = view;
  const { active } = tally;
  const wanted = wantedActive(job, tally);
  const surplus = job.spec?.suspend === true ? active.length : Math.max(0, active.length - wanted);
  const drop = dispensable(job, active, surplus).slice(0, BURST);
  if (drop.length > 0) return { ...NO_STEPS, drop };
  const leaving = job.spec?.podReplacementPolicy === "Failed" ? tally.terminating.length : 0;
  const missing = Math.min(wanted - leaving - active.length, BURST);
  if (missing <= 0 || job.spec?.suspend === true) return NO_STEPS;
  return isIndexed(job) ? addIndexes(view, tally, missing) : addPods(view, tally, missing);
}

function wantedActive(job: Job, tally: Tally): number {
  const { completions, parallelism = 1 } = job.spec ?? {};
  const succeeded = succeededOf(job, tally);
  // A pod of a work queue that succeeded says that the queue is empty: those that run may finish.
  if (completions === undefined) return succeeded > 0 ? tally.active.length : parallelism;
  return Math.max(0, Math.min(parallelism, completions - succeeded));
}

/** The pods to go: those of indexes that are not asked for or have two, then those whose loss costs least. */
function dispensable(job: Job, active: readonly Pod[], atLeast: number): readonly Pod[] {
  const byLoss = active.toSorted(byDispensability(new Map()));
  if (!isIndexed(job)) return byLoss.slice(0, atLeast);
  const stays = new Set<number>();
  const extra: Pod[] = [];
  // The last of an index is the one that is worth most.
  for (const pod of byLoss.toReversed()) {
    const index = indexOf(job, pod);
    if (index === undefined || stays.has(index)) extra.push(pod);
    else stays.add(index);
  }
  const rest = byLoss.filter((pod) => !extra.includes(pod));
  return [...extra, ...rest.slice(0, Math.max(0, atLeast - extra.length))];
}

function addPods(view: JobView, tally: Tally, missing: number): Steps {
  const waitMs = backoffLeftMs(tally.record, view.nowMs);
  if (waitMs > 0) return { ...NO_STEPS, waitMs };
  return { ...NO_STEPS, create: Array.from({ length: missing }, () => ({})) };
}

function addIndexes(view: JobView, tally: Tally, missing: number): Steps {
  const { job, nowMs } = view;
  const { completions = 0, backoffLimitPerIndex, podReplacementPolicy } = job.spec ?? {};
  const waitMs = backoffLimitPerIndex === undefined ? backoffLeftMs(tally.record, nowMs) : 0;
  if (waitMs > 0) return { ...NO_STEPS, waitMs };
  const taken = [...tally.active, ...(podReplacementPolicy === "Failed" ? tally.terminating : [])];
  const busy = IndexSet.of(taken.flatMap((pod) => indexOf(job, pod) ?? []));
  const done = tally.succeededIndexes.union(tally.failedIndexes ?? IndexSet.of([]));
  const indexes = busy.union(done).missing(missing, completions);
  const waits = new Map(indexes.map((index) => [index, indexWaitMs(tally.awaiting.get(index), nowMs)]));
  const ready = indexes.filter((index) => waits.get(index) === 0);
  return {
    ...NO_STEPS,
    create: ready.map((index) => ({ index, replaces: tally.awaiting.get(index) })),
    waitMs: ready.length > 0 || waits.size === 0 ? undefined : Math.min(...waits.values()),
  };
}

function indexWaitMs(failed: Pod | undefined, nowMs: number): number {
  if (failed === undefined) return 0;
  return backoffLeftMs({ failures: tries(failed) + 1, lastMs: finishedAtMs(failed) }, nowMs);
}

function mayRelease(
  job: Job,
  pod: Pod,
  { tally, isEnding }: { readonly tally: Tally; readonly isEnding: boolean },
): boolean {
  if (isDeleting(job) || isEnding || pod.status?.phase === "Succeeded") return true;
  if (!isFailed(job, pod)) return false;
  const index = indexOf(job, pod);
  return index === undefined || tally.awaiting.get(index) !== pod;
}

/** Whether the Job has come to its end. */
export function finishedAs(job: Job): JobCondition | undefined {
  return job.status?.conditions?.find(
    (it) => (it.type === "Complete" || it.type === "Failed") && it.status === "True",
  );
}

/** How long a Job that ended is still kept; undefined: for ever. Unit: milliseconds from now. */
export function keptForMs(job: Job, nowMs: number): number | undefined {
  const finished = finishedAs(job);
  const { ttlSecondsAfterFinished: ttl } = job.spec ?? {};
  if (finished === undefined || ttl === undefined) return undefined;
  return Math.max(0, Date.parse(finished.lastTransitionTime ?? timestamp(nowMs)) + ttl * 1000 - nowMs);
}
