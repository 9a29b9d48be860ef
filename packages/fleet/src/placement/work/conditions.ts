import type { Clock } from "@fairlead/base/clock.ts";
import { sameJson } from "@fairlead/base/json.ts";
import {
  type NewCondition,
  removeCondition,
  setCondition,
  timestamp,
} from "@fairlead/kube/objects/conditions.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import type { PatchDetail } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type {
  ManifestCondition,
  Work,
  WorkIdentifier,
} from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { idOf } from "./manifest.ts";
import { isApplied, isDiffReported, type Result } from "./result.ts";

export interface Processed {
  readonly identifier: WorkIdentifier;
  readonly result: Result;
}

export interface Reported {
  readonly processed: readonly Processed[];
  readonly isReportDiff: boolean;
  /** Objects that the Work has no longer and that could not be removed, with why. */
  readonly remaining?: readonly string[];
  readonly generation: number;
  /** The status so far. */
  readonly before: Work["status"];
  readonly clock: Clock;
}

/** The status of a Work. What did not change keeps its times. */
export function workStatus(reported: Reported): NonNullable<Work["status"]> {
  const { before } = reported;
  const known = new Map((before?.manifestConditions ?? []).map((it) => [sameAs(it), it]));
  const manifestConditions = reported.processed
    .toSorted((a, b) => a.identifier.ordinal - b.identifier.ordinal)
    .map((it) => {
      const { identifier, result } = it;
      return manifestCondition(it, known.get(placeOf(identifier, result.reason)), reported);
    });
  return { conditions: workConditions(reported), manifestConditions };
}

/** The status of a Work that is not applied for now, although nothing is wrong with it. */
export function waitingStatus({
  before,
  message,
  generation,
  clock,
}: Pick<Reported, "before" | "generation" | "clock"> & { readonly message: string }): NonNullable<
  Work["status"]
> {
  const next = [condition("Applied", "Unknown", "HubRestored", message)];
  return { ...before, conditions: withConditions(before?.conditions, next, { generation, clock }) };
}

function sameAs({ identifier, conditions = [] }: ManifestCondition): string {
  return placeOf(identifier, conditions.find((it) => it.reason === "Duplicated")?.reason);
}

/** By which a manifest is found in an earlier status: its object, unless that is unknown or is another manifest's. */
function placeOf(identifier: WorkIdentifier, reason: string | undefined): string {
  const isAnother = reason === "Duplicated" || identifier.name === undefined;
  return isAnother ? `${identifier.ordinal} ${idOf(identifier)}` : idOf(identifier);
}

function workConditions(reported: Reported): Condition[] {
  const { processed, isReportDiff, generation, before, clock } = reported;
  const results = processed.map((it) => it.result);
  const next = isReportDiff
    ? [diffReported(results)]
    : [withRemaining(applied(results), reported.remaining), ...available(results)];
  return withConditions(before?.conditions, next, { generation, clock });
}

const WORK_TYPES = ["Applied", "Available", "DiffReported"];

/** Conditions of the types that are not wanted are removed: nothing is known any more of what they said. */
function withConditions(
  before: Condition[] | undefined,
  next: readonly NewCondition[],
  { generation, clock }: { readonly generation: number | undefined; readonly clock: Clock },
): Condition[] {
  let conditions = before ?? [];
  for (const type of WORK_TYPES)
    if (!next.some((it) => it.type === type)) conditions = removeCondition(conditions, type);
  for (const it of next)
    conditions = setCondition(
      conditions,
      generation === undefined ? it : { ...it, observedGeneration: generation },
      clock,
    );
  return conditions;
}

function applied(results: readonly Result[]): NewCondition {
  const failed = results.filter((it) => !isApplied(it)).length;
  return failed === 0
    ? condition("Applied", "True", "AllManifestsApplied", "all manifests are applied")
    : condition(
        "Applied",
        "False",
        "SomeManifestsAreNotApplied",
        `${failed} of ${results.length} manifests are not applied`,
      );
}

/** Objects that stay do not keep the others from being applied. */
function withRemaining(whole: NewCondition, remaining: readonly string[] = []): NewCondition {
  const [first] = remaining;
  if (first === undefined) return whole;
  const more = remaining.length === 1 ? "" : ` (and ${remaining.length - 1} more)`;
  return { ...whole, message: `${whole.message}; what the Work has no longer stays: ${first}${more}` };
}

/** Nothing, while something is not applied. */
function available(results: readonly Result[]): NewCondition[] {
  if (!results.every(isApplied)) return [];
  const count = (reason: Result["availability"]): number =>
    results.filter((it) => it.availability === reason).length;
  const missing = results.length - count("Available") - count("NotTrackable");
  if (missing > 0)
    return [
      condition(
        "Available",
        "False",
        "SomeManifestsAreNotAvailable",
        `${missing} of ${results.length} manifests are not available yet`,
      ),
    ];
  const untrackable = count("NotTrackable");
  return untrackable > 0
    ? [
        condition(
          "Available",
          "True",
          "SomeManifestsAreNotAvailabilityTrackable",
          `the availability of ${untrackable} of ${results.length} manifests cannot be tracked`,
        ),
      ]
    : [condition("Available", "True", "AllManifestsAvailable", "all manifests are available")];
}

function diffReported(results: readonly Result[]): NewCondition {
  const failed = results.filter((it) => !isDiffReported(it)).length;
  return failed === 0
    ? condition(
        "DiffReported",
        "True",
        "AllManifestsDiffReported",
        "the differences of all manifests are reported",
      )
    : condition(
        "DiffReported",
        "False",
        "SomeManifestsHaveNotReportedDiff",
        `the differences of ${failed} of ${results.length} manifests are not reported`,
      );
}

function manifestCondition(
  { identifier, result }: Processed,
  before: ManifestCondition | undefined,
  { isReportDiff, clock }: Reported,
): ManifestCondition {
  const next = isReportDiff
    ? [resultCondition("DiffReported", result)]
    : [resultCondition("Applied", result), ...availableCondition(result)];
  const now = timestamp(clock.now());
  const { drifts = [], diffs = [], status } = result;
  const generation = result.generation ?? 0;
  return {
    identifier,
    conditions: withConditions(before?.conditions, next, { generation: result.generation, clock }),
    ...(drifts.length === 0 ? {} : { driftDetails: driftDetails(drifts, generation, before, now) }),
    ...(diffs.length === 0 ? {} : { diffDetails: diffDetails(diffs, result.generation, before, now) }),
    ...(status === undefined ? {} : { backReportedStatus: backReported(status, before, now) }),
  };
}

/** The time of an observation is that of the first one that found the same, so that repeated ones change nothing. */
function driftDetails(
  drifts: readonly PatchDetail[],
  generation: number,
  before: ManifestCondition | undefined,
  now: string,
): NonNullable<ManifestCondition["driftDetails"]> {
  const known = before?.driftDetails;
  const isSame =
    known?.observedInMemberClusterGeneration === generation && sameJson(known.observedDrifts, drifts);
  return {
    observationTime: isSame ? known.observationTime : now,
    observedInMemberClusterGeneration: generation,
    firstDriftedObservedTime: known?.firstDriftedObservedTime ?? now,
    observedDrifts: [...drifts],
  };
}

function diffDetails(
  diffs: readonly PatchDetail[],
  generation: number | undefined,
  before: ManifestCondition | undefined,
  now: string,
): NonNullable<ManifestCondition["diffDetails"]> {
  const known = before?.diffDetails;
  const isSame =
    known?.observedInMemberClusterGeneration === generation && sameJson(known?.observedDiffs, diffs);
  return {
    observationTime: isSame && known !== undefined ? known.observationTime : now,
    ...(generation === undefined ? {} : { observedInMemberClusterGeneration: generation }),
    firstDiffedObservedTime: known?.firstDiffedObservedTime ?? now,
    observedDiffs: [...diffs],
  };
}

function backReported(
  observedStatus: Readonly<Record<string, unknown>>,
  before: ManifestCondition | undefined,
  now: string,
): NonNullable<ManifestCondition["backReportedStatus"]> {
  const known = before?.backReportedStatus;
  return known !== undefined && sameJson(known.observedStatus, observedStatus)
    ? known
    : { observedStatus, observationTime: now };
}

function resultCondition(type: "Applied" | "DiffReported", result: Result): NewCondition {
  const { reason, message } = result;
  const isDone = type === "Applied" ? isApplied(result) : isDiffReported(result);
  const status = reason === "PreparingToProcess" ? "Unknown" : isDone ? "True" : "False";
  return condition(type, status, reason, message);
}

const AVAILABILITY_MESSAGES = {
  Failed: "the availability could not be determined",
  Available: "the object is available",
  ManifestNotAvailableYet: "the object is not available yet",
  NotTrackable: "the availability of this kind cannot be tracked",
} as const;

function availableCondition({ availability, availabilityDetail }: Result): NewCondition[] {
  if (availability === "Skipped") return [];
  const isAvailable = availability === "Available" || availability === "NotTrackable";
  return [
    condition(
      "Available",
      isAvailable ? "True" : "False",
      availability,
      availabilityDetail ?? AVAILABILITY_MESSAGES[availability],
    ),
  ];
}

function condition(type: string, status: Condition["status"], reason: string, message: string): NewCondition {
  return { type, status, reason, message };
}
