import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { LATEST_SNAPSHOT_LABEL } from "#api/placement.kubernetes-fleet.io/names.ts";
import type { Placement } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";

/** What policy snapshots and resource snapshots have in common: indexes that only grow, one latest, a limit. */

const DEFAULT_HISTORY_LIMIT = 10;

export function historyLimit(placement: Placement): number {
  return placement.spec.revisionHistoryLimit ?? DEFAULT_HISTORY_LIMIT;
}

/** From the label; -1 for one that is not a whole number, so that it comes before all others. */
export function indexOf({ metadata: { labels } }: KubeObject, label: string): number {
  const text = labels?.[label] ?? "";
  return /^\d{1,15}$/.test(text) ? Number(text) : -1;
}

export function isLatest({ metadata: { labels } }: KubeObject): boolean {
  return labels?.[LATEST_SNAPSHOT_LABEL] === "true";
}

/** The one that is labelled as the latest; of several, or of none, that with the highest index. */
export function latestOf<T extends KubeObject>(snapshots: readonly T[], label: string): T | undefined {
  const labelled = snapshots.filter(isLatest);
  return (labelled.length > 0 ? labelled : snapshots).toSorted(
    (a, b) => indexOf(b, label) - indexOf(a, label),
  )[0];
}

/** The index within the name of a snapshot: "NAME-3", "NAME-3-snapshot". Undefined for other names. */
export function indexInName(snapshot: string, placement: string): number | undefined {
  if (!snapshot.startsWith(`${placement}-`)) return undefined;
  const [, index] = /^(\d{1,15})(?:-snapshot)?$/.exec(snapshot.slice(placement.length + 1)) ?? [];
  return index === undefined ? undefined : Number(index);
}

/** After every index that is or was in use. */
export function nextIndex(used: Iterable<number>): number {
  let next = 0;
  for (const it of used) next = Math.max(next, it + 1);
  return next;
}

/** The oldest ones, so that one more has room within the limit. */
export function surplus<T>(oldestFirst: readonly T[], limit: number): T[] {
  return oldestFirst.slice(0, Math.max(0, oldestFirst.length - Math.max(1, limit) + 1));
}
