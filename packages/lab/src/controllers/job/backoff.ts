import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";

/** How long a Job waits before it replaces a failed pod: 10 s, 20 s, 40 s and so on up to ten minutes. */

/** What is known of a Job's failures since its last success. Lost with the process, as upstream's is. */
export interface FailureRecord {
  readonly failures: number;
  /** When the last one was. Unit: milliseconds since the epoch. */
  readonly lastMs: number;
}

export const NO_FAILURES: FailureRecord = { failures: 0, lastMs: 0 };

const FIRST_MS = 10_000;
const LONGEST_MS = 600_000;

/** The record once pods that ended are in it: failures before the last success no longer count. */
export function noteEnded(
  record: FailureRecord,
  succeeded: readonly Pod[],
  failed: readonly Pod[],
): FailureRecord {
  const lastSuccessMs = Math.max(Number.NEGATIVE_INFINITY, ...succeeded.map(finishedAtMs));
  const since = failed.map(finishedAtMs).filter((atMs) => atMs > lastSuccessMs);
  const before = succeeded.length === 0 ? record : NO_FAILURES;
  return { failures: before.failures + since.length, lastMs: Math.max(before.lastMs, ...since) };
}

/** @returns Unit: milliseconds from now; 0: at once. */
export function backoffLeftMs({ failures, lastMs }: FailureRecord, nowMs: number): number {
  if (failures === 0) return 0;
  const waitMs = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(failures - 1, 20));
  return Math.max(0, lastMs + waitMs - nowMs);
}

/** When the pod ended, as well as its status says. Unit: milliseconds since the epoch. */
export function finishedAtMs(pod: Pod): number {
  const ends = (pod.status?.containerStatuses ?? []).map((it) =>
    Date.parse(it.state?.terminated?.finishedAt ?? ""),
  );
  if (ends.length > 0 && !ends.some(Number.isNaN)) return Math.max(...ends);
  const ready = findCondition(pod.status?.conditions, "Ready");
  if (ready?.status === "False" && ready.lastTransitionTime !== undefined)
    return Date.parse(ready.lastTransitionTime);
  return removedAtMs(pod) ?? (Date.parse(pod.metadata.creationTimestamp ?? "") || 0);
}

function removedAtMs({ metadata }: Pod): number | undefined {
  const { deletionTimestamp, deletionGracePeriodSeconds = 0 } = metadata;
  if (deletionTimestamp === undefined) return undefined;
  return Date.parse(deletionTimestamp) - deletionGracePeriodSeconds * 1000;
}
