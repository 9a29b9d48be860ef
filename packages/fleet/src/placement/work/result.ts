import type { PatchDetail } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type { Availability } from "./availability.ts";

/** What came of a manifest. Reasons of the conditions Applied and DiffReported, as KubeFleet spells them. */
export type ResultReason =
  | "PreparingToProcess"
  | "DecodingErred"
  | "FoundGenerateName"
  | "Duplicated"
  | "FailedToFindObjInMemberCluster"
  | "FailedToTakeOver"
  | "NotTakenOver"
  | "ApplyConflictBetweenPlacements"
  | "ManifestsAlreadyOwnedByOthers"
  | "FailedToRunDriftDetection"
  | "FoundDrifts"
  | "FoundDriftsInDegradedMode"
  | "ManifestApplyFailed"
  | "Applied"
  | "AppliedWithFailedDriftDetection"
  | "FailedToReportDiff"
  | "FoundDiff"
  | "FoundDiffInDegradedMode"
  | "NoDiffFound";

/** Reasons of the condition Available. "Skipped": it was not applied, so that nothing is known; the condition is absent. */
export type AvailabilityReason = Availability | "Skipped" | "Failed";

export interface Result {
  readonly reason: ResultReason;
  readonly message: string;
  readonly availability: AvailabilityReason;
  readonly availabilityDetail?: string;
  /** Of the object in the member, if there is one. */
  readonly uid?: string | undefined;
  readonly generation?: number | undefined;
  readonly drifts?: readonly PatchDetail[];
  readonly diffs?: readonly PatchDetail[];
  /** The status of the object, where it is to be reported back. */
  readonly status?: Readonly<Record<string, unknown>>;
}

export function isApplied({ reason }: Pick<Result, "reason">): boolean {
  return reason === "Applied" || reason === "AppliedWithFailedDriftDetection";
}
export function isDiffReported({ reason }: Pick<Result, "reason">): boolean {
  return reason === "FoundDiff" || reason === "FoundDiffInDegradedMode" || reason === "NoDiffFound";
}
