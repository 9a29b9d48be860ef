import type { Clock } from "@fairlead/base/clock.ts";
import { removeCondition, setCondition } from "@fairlead/kube/objects/conditions.ts";
import type { ManifestCondition, Work } from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";

/** Nine tenths of the 1.5 MiB that etcd takes by default: KubeFleet's bound for a Work with its status. Unit: bytes. */
export const MAX_WORK_BYTES = 1_415_578;

type Status = NonNullable<Work["status"]>;

const TRIMMED = "StatusTrimmed";
type Step = (it: ManifestCondition) => ManifestCondition;

/** Left out one after the other, until the Work is small enough: details first, which an observer can find in the member. */
const STEPS: readonly Step[] = [
  ({ backReportedStatus: _reported, ...rest }) => rest,
  ...[1000, 100, 10, 0].map(withDifferences),
  ...[100, 0].map(withMessages),
];

/** @param max - Of each object. */
function withDifferences(max: number): Step {
  return ({ driftDetails, diffDetails, ...rest }) => {
    const { observedDrifts = [] } = driftDetails ?? {};
    const { observedDiffs = [] } = diffDetails ?? {};
    return {
      ...rest,
      ...(driftDetails && {
        driftDetails: { ...driftDetails, observedDrifts: observedDrifts.slice(0, max) },
      }),
      ...(diffDetails && { diffDetails: { ...diffDetails, observedDiffs: observedDiffs.slice(0, max) } }),
    };
  };
}

/** @param max - Unit: characters. */
function withMessages(max: number): Step {
  return ({ conditions = [], ...rest }) => ({
    ...rest,
    conditions: conditions.map((it) => ({ ...it, message: it.message.slice(0, max) })),
  });
}

/** The status as it fits into the Work, with the condition StatusTrimmed if something had to be left out. */
export function trimStatus(work: Work, status: Status, clock: Clock): Status {
  const { status: _, ...rest } = work;
  const left = MAX_WORK_BYTES - sizeOf(rest);
  const { conditions } = status;
  const untrimmed = { ...status, conditions: removeCondition(conditions, TRIMMED) };
  if (sizeOf(untrimmed) <= left) return untrimmed;
  const note = {
    type: TRIMMED,
    status: "True" as const,
    reason: "Oversized",
    message: `the Work would be larger than ${MAX_WORK_BYTES} bytes: details of manifests are left out`,
    ...(work.metadata.generation === undefined ? {} : { observedGeneration: work.metadata.generation }),
  };
  let trimmed: Status = { ...status, conditions: setCondition(conditions, note, clock) };
  for (const step of STEPS) {
    trimmed = { ...trimmed, manifestConditions: (trimmed.manifestConditions ?? []).map(step) };
    if (sizeOf(trimmed) <= left) break;
  }
  return trimmed;
}

function sizeOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}
