import { isTracked, type Job } from "@fairlead/kube/api/batch/v1/types.ts";
import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { isActive, isTerminal } from "../pods.ts";
import { type FailureRecord, finishedAtMs, noteEnded } from "./backoff.ts";
import { IndexSet } from "./indexes.ts";
import { judgeFailure } from "./policies.ts";

/**
 * What became of a Job's pods. A pod that ended is first noted in the Job's status by uid, then loses its finalizer, and
 * once it has lost it the note becomes part of the count: whenever this is cut off, no pod is counted twice and none is
 * forgotten (KEP-2307). Indexes that succeeded need no such note.
 */

export interface JobView {
  readonly job: Job;
  /** Those the Job controls. */
  readonly pods: readonly Pod[];
  readonly record: FailureRecord;
  readonly nowMs: number;
  /** Whether all pods that were made and removed before are among `pods` as they are. */
  readonly isSettled: boolean;
}

export interface Tally {
  readonly active: readonly Pod[];
  readonly terminating: readonly Pod[];
  /** Have the finalizer still. */
  readonly tracked: readonly Pod[];
  /** Uids that are noted and whose pods have the finalizer still. */
  readonly noted: { readonly succeeded: readonly string[]; readonly failed: readonly string[] };
  /** Ended and are not noted yet. */
  readonly fresh: { readonly succeeded: readonly Pod[]; readonly failed: readonly Pod[] };
  /** Counts of pods that have lost the finalizer. */
  readonly counted: { readonly succeeded: number; readonly failed: number };
  /** All that ended so. */
  readonly succeeded: number;
  readonly failed: number;
  readonly succeededIndexes: IndexSet;
  /** Undefined without `backoffLimitPerIndex`. */
  readonly failedIndexes: IndexSet | undefined;
  /** The failed pod of an index that waits to be tried again: its successor needs to know how often it failed. */
  readonly awaiting: ReadonlyMap<number, Pod>;
  readonly record: FailureRecord;
}

export const INDEX_KEY = "batch.kubernetes.io/job-completion-index";
const FAILURES_KEY = "batch.kubernetes.io/job-index-failure-count";
const IGNORED_KEY = "batch.kubernetes.io/job-index-ignored-failure-count";

export function isIndexed(job: Job): boolean {
  return job.spec?.completionMode === "Indexed";
}

/** The pod's index; undefined where it has none that the Job asks for. */
export function indexOf(job: Job, pod: Pod): number | undefined {
  const text = pod.metadata.annotations?.[INDEX_KEY];
  const index = text !== undefined && /^\d{1,10}$/v.test(text) ? Number(text) : undefined;
  return index !== undefined && index < (job.spec?.completions ?? 0) ? index : undefined;
}

/** Whether the pod counts as failed: unless only pods that ended are replaced, one on its way out does (KEP-3939). */
export function isFailed(job: Job, pod: Pod): boolean {
  if (pod.status?.phase === "Failed") return true;
  return job.spec?.podReplacementPolicy !== "Failed" && isDeleting(pod) && pod.status?.phase !== "Succeeded";
}

export function tallyPods(view: JobView): Tally {
  const { job, pods } = view;
  const tracked = pods.filter(isTracked);
  const held = new Set(tracked.map((pod) => pod.metadata.uid ?? ""));
  const { succeeded: notedSucceeded = [], failed: notedFailed = [] } =
    job.status?.uncountedTerminatedPods ?? {};
  const noted = {
    succeeded: notedSucceeded.filter((uid) => held.has(uid)),
    failed: notedFailed.filter((uid) => held.has(uid)),
  };
  const counted = {
    succeeded: (job.status?.succeeded ?? 0) + notedSucceeded.length - noted.succeeded.length,
    failed: (job.status?.failed ?? 0) + notedFailed.length - noted.failed.length,
  };
  const known = new Set([...noted.succeeded, ...noted.failed]);
  const isFresh = (pod: Pod): boolean => !known.has(pod.metadata.uid ?? "") && isOfJob(job, pod);
  const fresh = {
    succeeded: tracked.filter((pod) => isFresh(pod) && pod.status?.phase === "Succeeded"),
    failed: tracked.filter((pod) => isFresh(pod) && isFailed(job, pod)),
  };
  const failuresThatCount = fresh.failed.filter((pod) => judgeFailure(job, pod).isCounted).length;
  return {
    tracked,
    noted,
    fresh,
    counted,
    active: pods.filter(isActive),
    terminating: pods.filter((pod) => isDeleting(pod) && !isTerminal(pod)),
    succeeded: counted.succeeded + noted.succeeded.length + fresh.succeeded.length,
    failed: counted.failed + noted.failed.length + failuresThatCount,
    ...tallyIndexes(job, pods, tracked),
    record: noteEnded(view.record, fresh.succeeded, fresh.failed),
  };
}

function isOfJob(job: Job, pod: Pod): boolean {
  return !isIndexed(job) || indexOf(job, pod) !== undefined;
}

type Indexes = Pick<Tally, "succeededIndexes" | "failedIndexes" | "awaiting">;

function tallyIndexes(job: Job, pods: readonly Pod[], tracked: readonly Pod[]): Indexes {
  const { completions = 0, backoffLimitPerIndex } = job.spec ?? {};
  const indexesOf = (some: readonly Pod[]): IndexSet =>
    IndexSet.of(some.flatMap((pod) => indexOf(job, pod) ?? []));
  const before = isIndexed(job) ? job.status?.completedIndexes : undefined;
  const succeededIndexes = IndexSet.parse(before, completions).union(
    indexesOf(isIndexed(job) ? tracked.filter((pod) => pod.status?.phase === "Succeeded") : []),
  );
  if (!isIndexed(job) || backoffLimitPerIndex === undefined)
    return { succeededIndexes, failedIndexes: undefined, awaiting: new Map() };
  const failedIndexes = IndexSet.parse(job.status?.failedIndexes, completions).union(
    indexesOf(tracked.filter((pod) => isIndexFailed(job, pod))),
  );
  const isDone = succeededIndexes.union(failedIndexes).union(indexesOf(pods.filter(isActive)));
  return { succeededIndexes, failedIndexes, awaiting: awaitingPods(job, tracked, isDone) };
}

/** The last pod of each index that failed and is to be tried again. */
function awaitingPods(job: Job, tracked: readonly Pod[], isDone: IndexSet): Map<number, Pod> {
  const awaiting = new Map<number, Pod>();
  const failed = tracked.filter((pod) => isFailed(job, pod));
  for (const pod of failed.toSorted((a, b) => tries(a) - tries(b) || finishedAtMs(a) - finishedAtMs(b))) {
    const index = indexOf(job, pod);
    if (index !== undefined && !isDone.has(index)) awaiting.set(index, pod);
  }
  return awaiting;
}

function isIndexFailed(job: Job, pod: Pod): boolean {
  if (!isFailed(job, pod)) return false;
  const { failsIndex, isCounted } = judgeFailure(job, pod);
  return failsIndex || (isCounted && countAt(pod, FAILURES_KEY) >= (job.spec?.backoffLimitPerIndex ?? 0));
}

function countAt(pod: Pod, key: string): number {
  return Number(pod.metadata.annotations?.[key] ?? 0) || 0;
}

/** How often the index had failed before this pod, counted or not. */
export function tries(pod: Pod): number {
  return countAt(pod, FAILURES_KEY) + countAt(pod, IGNORED_KEY);
}

/** What a pod notes of the failures of its index, given the one that it replaces. */
export function failureNotes(job: Job, replaced: Pod | undefined): Record<string, string> {
  if (job.spec?.backoffLimitPerIndex === undefined) return {};
  if (replaced === undefined) return { [FAILURES_KEY]: "0" };
  const isCounted = judgeFailure(job, replaced).isCounted;
  const ignored = countAt(replaced, IGNORED_KEY) + (isCounted ? 0 : 1);
  return {
    [FAILURES_KEY]: String(countAt(replaced, FAILURES_KEY) + (isCounted ? 1 : 0)),
    ...(ignored === 0 ? {} : { [IGNORED_KEY]: String(ignored) }),
  };
}
