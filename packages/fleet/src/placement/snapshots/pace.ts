import { timestamp } from "@fairlead/kube/objects/conditions.ts";
import {
  NEXT_SNAPSHOT_DETECTED_ANNOTATION,
  PLACEMENT_GENERATION_ANNOTATION,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import type { Placement, ResourceSnapshot } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";

/** How often changes of what is selected become a snapshot, and so a rollout. */
export interface SnapshotPace {
  /** Shortest time between two snapshots of a placement. Unit: milliseconds. */
  readonly minIntervalMs: number;
  /** How long changes are collected before they become a snapshot. Unit: milliseconds. */
  readonly collectMs: number;
}
/** Of one command that applies many objects one snapshot. KubeFleet waits 30 s and 15 s. */
export const DEFAULT_PACE: SnapshotPace = { minIntervalMs: 5000, collectMs: 1000 };

/**
 * When a change becomes a snapshot. A change of the placement itself does at once: a user waits for it.
 *
 * @returns How much longer to wait, and since when the change is known.
 */
export function whenToSnapshot(at: {
  readonly placement: Placement;
  readonly latest: ResourceSnapshot;
  readonly pace: SnapshotPace;
  readonly nowMs: number;
}): { readonly waitMs: number; readonly detectedAt: string } {
  const { placement, latest, pace, nowMs } = at;
  const { annotations, creationTimestamp } = latest.metadata;
  const noted = annotations?.[NEXT_SNAPSHOT_DETECTED_ANNOTATION];
  const isChanged =
    annotations?.[PLACEMENT_GENERATION_ANNOTATION] !== String(placement.metadata.generation ?? 0);
  const notedMs = noted === undefined ? Number.NaN : Date.parse(noted);
  // A time ahead of the clock would keep the change back for as long.
  const isKnown = notedMs <= nowMs;
  const detectedMs = isKnown ? notedMs : nowMs;
  // The same goes for the interval: after a clock was set back it counts from when the change was noted, which is kept.
  const createdMs = Math.min(Date.parse(creationTimestamp ?? "") || 0, detectedMs);
  const dueMs = Math.max(detectedMs + pace.collectMs, createdMs + pace.minIntervalMs);
  return {
    waitMs: isChanged ? 0 : Math.max(0, dueMs - nowMs),
    detectedAt: isKnown && noted !== undefined ? noted : timestamp(nowMs),
  };
}
