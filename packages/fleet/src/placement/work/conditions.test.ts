import { describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import type { ManifestCondition, Work } from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { workStatus } from "./conditions.ts";
import type { AvailabilityReason, Result, ResultReason } from "./result.ts";
import { MAX_WORK_BYTES, trimStatus } from "./trim.ts";

const result = (
  reason: ResultReason,
  availability: AvailabilityReason = "Skipped",
  more: Partial<Result> = {},
): Result => ({
  reason,
  message: reason,
  availability,
  generation: 1,
  ...more,
});

function report(
  results: readonly Result[],
  {
    isReportDiff = false,
    before,
    clock = new FakeClock(),
  }: { isReportDiff?: boolean; before?: Work["status"]; clock?: FakeClock } = {},
) {
  const processed = results.map((it, ordinal) => ({
    identifier: { ordinal, kind: "ConfigMap", name: `c${ordinal}` },
    result: it,
  }));
  return workStatus({ processed, isReportDiff, generation: 7, before, clock });
}
const short = (conditions: readonly Condition[] | undefined): string[] =>
  (conditions ?? []).map((it) => `${it.type} ${it.status} ${it.reason}`);

describe("the conditions of a Work", () => {
  const [available, waiting, untracked] = [
    result("Applied", "Available"),
    result("Applied", "ManifestNotAvailableYet"),
    result("Applied", "NotTrackable"),
  ];
  it.each<[what: string, results: Result[], expected: string[]]>([
    ["no manifests", [], ["Applied True AllManifestsApplied", "Available True AllManifestsAvailable"]],
    [
      "all available",
      [available, result("AppliedWithFailedDriftDetection", "Available")],
      ["Applied True AllManifestsApplied", "Available True AllManifestsAvailable"],
    ],
    [
      "one not yet available",
      [available, waiting, untracked],
      ["Applied True AllManifestsApplied", "Available False SomeManifestsAreNotAvailable"],
    ],
    [
      "one that cannot be judged",
      [available, result("Applied", "Failed")],
      ["Applied True AllManifestsApplied", "Available False SomeManifestsAreNotAvailable"],
    ],
    [
      "one that cannot be tracked",
      [available, untracked],
      ["Applied True AllManifestsApplied", "Available True SomeManifestsAreNotAvailabilityTrackable"],
    ],
    [
      "one that is not applied",
      [available, result("ManifestApplyFailed")],
      ["Applied False SomeManifestsAreNotApplied"],
    ],
  ])("for %s", (_, results, expected) => {
    expect(short(report(results).conditions)).toEqual(expected);
  });

  it.each<[what: string, results: Result[], expected: string]>([
    [
      "all reported",
      [result("NoDiffFound"), result("FoundDiff"), result("FoundDiffInDegradedMode")],
      "True AllManifestsDiffReported",
    ],
    [
      "one not reported",
      [result("NoDiffFound"), result("FailedToReportDiff")],
      "False SomeManifestsHaveNotReportedDiff",
    ],
  ])("with ReportDiff, for %s", (_, results, expected) => {
    const before = report([available]);
    expect(short(report(results, { isReportDiff: true, before }).conditions)).toEqual([
      `DiffReported ${expected}`,
    ]);
  });
});

describe("the conditions of a manifest", () => {
  it.each<[reason: ResultReason, status: string]>([
    ["PreparingToProcess", "Unknown"],
    ["DecodingErred", "False"],
    ["FoundGenerateName", "False"],
    ["Duplicated", "False"],
    ["FailedToFindObjInMemberCluster", "False"],
    ["FailedToTakeOver", "False"],
    ["NotTakenOver", "False"],
    ["ApplyConflictBetweenPlacements", "False"],
    ["ManifestsAlreadyOwnedByOthers", "False"],
    ["FailedToRunDriftDetection", "False"],
    ["FoundDrifts", "False"],
    ["FoundDriftsInDegradedMode", "False"],
    ["ManifestApplyFailed", "False"],
    ["Applied", "True"],
    ["AppliedWithFailedDriftDetection", "True"],
  ])("has Applied with reason %s and status %s", (reason, status) => {
    const [manifest] = report([result(reason)]).manifestConditions ?? [];
    expect(short(manifest?.conditions)).toEqual([`Applied ${status} ${reason}`]);
  });

  it.each<[reason: ResultReason, status: string]>([
    ["PreparingToProcess", "Unknown"],
    ["DecodingErred", "False"],
    ["FailedToReportDiff", "False"],
    ["FoundDiff", "True"],
    ["FoundDiffInDegradedMode", "True"],
    ["NoDiffFound", "True"],
  ])("has DiffReported with reason %s and status %s", (reason, status) => {
    const [manifest] = report([result(reason)], { isReportDiff: true }).manifestConditions ?? [];
    expect(short(manifest?.conditions)).toEqual([`DiffReported ${status} ${reason}`]);
  });

  it.each<[availability: AvailabilityReason, expected: string[]]>([
    ["Skipped", []],
    ["Failed", ["Available False Failed"]],
    ["Available", ["Available True Available"]],
    ["ManifestNotAvailableYet", ["Available False ManifestNotAvailableYet"]],
    ["NotTrackable", ["Available True NotTrackable"]],
  ])("has for availability %s the condition %j", (availability, expected) => {
    const [manifest] = report([result("Applied", availability)]).manifestConditions ?? [];
    expect(short(manifest?.conditions)).toEqual(["Applied True Applied", ...expected]);
  });
});

describe("a status", () => {
  const drifts = [{ path: "/data/a", valueInMember: "2", valueInHub: "1" }];

  const driftsOf = ({ manifestConditions = [] }: NonNullable<Work["status"]>) => {
    const details = manifestConditions[0]?.driftDetails;
    if (details === undefined) throw new Error("no drift is reported");
    return details;
  };

  it("does not change when the same is found again, and keeps when a drift was found first", async () => {
    const clock = new FakeClock();
    const drifted = [
      result("FoundDrifts", "Skipped", { drifts }),
      result("FoundDiff", "Skipped", { diffs: drifts }),
    ];
    const first = report(drifted, { clock });
    await clock.advance(60_000);
    expect(report(drifted, { before: first, clock })).toEqual(first);
    const more = [...drifts, { path: "/data/b", valueInMember: "3" }];
    const changed = driftsOf(
      report([result("FoundDrifts", "Skipped", { drifts: more })], { before: first, clock }),
    );
    const known = driftsOf(first);
    expect(changed.firstDriftedObservedTime).toBe(known.firstDriftedObservedTime);
    expect(changed.observationTime).not.toBe(known.observationTime);
    expect(changed.observedDrifts).toEqual(more);
  });

  it("does not take one manifest for another where both are the same object", async () => {
    const clock = new FakeClock();
    const identifier = { kind: "ConfigMap", name: "c" };
    const processed = [
      { identifier: { ordinal: 0, ...identifier }, result: result("Applied", "Available") },
      { identifier: { ordinal: 1, ...identifier }, result: result("Duplicated") },
      { identifier: { ordinal: 2 }, result: result("DecodingErred") },
      { identifier: { ordinal: 3 }, result: result("FoundGenerateName") },
    ];
    const common = { processed, isReportDiff: false, generation: 1, clock };
    const first = workStatus({ ...common, before: undefined });
    await clock.advance(60_000);
    expect(workStatus({ ...common, before: first })).toEqual(first);
  });

  it("is in the order of the manifests", () => {
    const common = { isReportDiff: false, generation: 1, before: undefined, clock: new FakeClock() };
    const processed = [2, 0, 1].map((ordinal) => ({
      identifier: { ordinal, name: `${ordinal}` },
      result: result("Applied"),
    }));
    const { manifestConditions = [] } = workStatus({ ...common, processed });
    expect(manifestConditions.map((it) => it.identifier.ordinal)).toEqual([0, 1, 2]);
  });

  const work = (bytes: number): Work => ({
    metadata: { name: "w", namespace: "fleet-member-a", generation: 7 },
    spec: { workload: { manifests: [{ metadata: { name: "x".repeat(bytes) } }] } },
  });
  const sizeOf = (of: Work, status: Work["status"]): number =>
    Buffer.byteLength(JSON.stringify({ ...of, status }));

  const partsOf = (manifest: ManifestCondition | undefined): string[] =>
    Object.entries({
      statuses: manifest?.backReportedStatus !== undefined,
      drifts: manifest?.driftDetails?.observedDrifts?.length === 1,
      messages: manifest?.conditions?.[0]?.message !== "",
    }).flatMap(([part, isThere]) => (isThere ? [part] : []));

  it.each<[what: string, bytes: number, left: string[]]>([
    ["whole", 100, ["statuses", "drifts", "messages"]],
    ["without the statuses that it reports back", 1_100_000, ["drifts", "messages"]],
    ["without differences", 1_275_000, ["messages"]],
    ["without messages", 1_370_000, []],
  ])("is stored %s if the Work has %i bytes", (_, bytes, left) => {
    const big = { spec: "s".repeat(2000) };
    const results = Array.from({ length: 100 }, () =>
      result("FoundDrifts", "Skipped", {
        drifts: [{ path: "/x", valueInMember: "d".repeat(1000) }],
        message: "m".repeat(500),
        status: big,
      }),
    );
    const status = report(results);
    const trimmed = trimStatus(work(bytes), status, new FakeClock());
    const [manifest] = trimmed.manifestConditions ?? [];
    const found = partsOf(manifest);
    expect(found).toEqual(left);
    expect(short(trimmed.conditions).filter((it) => it.startsWith("StatusTrimmed"))).toEqual(
      left.length === 3 ? [] : ["StatusTrimmed True Oversized"],
    );
    expect(sizeOf(work(bytes), trimmed)).toBeLessThanOrEqual(MAX_WORK_BYTES + 20);
  });

  it("lists fewer differences of each object, rather than none, if the Work would be too large", () => {
    const many = Array.from({ length: 2000 }, (_, at) => ({
      path: `/data/k${at}`,
      valueInMember: "v".repeat(400),
    }));
    const results = Array.from({ length: 3 }, () => result("FoundDrifts", "Skipped", { drifts: many }));
    const { manifestConditions = [] } = trimStatus(work(100), report(results), new FakeClock());
    expect(manifestConditions.map((it) => it.driftDetails?.observedDrifts?.length)).toEqual([
      1000, 1000, 1000,
    ]);
  });
});
