import { describe, expect, it } from "vitest";
import type { ApplyStrategy } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type { ManifestCondition, Work } from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { bindingOf, condition } from "../rollout/binding.fake.ts";
import { allDetails, notable, placementDetails } from "./details.ts";
import { bindingConditions, type SyncOutcome } from "./status.ts";

const SYNCED: SyncOutcome = { kind: "synced" };

function work(
  conditions: readonly string[],
  manifestConditions: readonly ManifestCondition[] = [],
  name = "app-work",
): Work {
  return {
    metadata: { name, generation: 2 },
    spec: {},
    status: { conditions: conditions.map(condition), manifestConditions: [...manifestConditions] },
  };
}
const conditionsOf = (works: readonly Work[], outcome: SyncOutcome = SYNCED, spec: object = {}): string[] =>
  bindingConditions(bindingOf("east", "Bound", spec), outcome, works).map(
    (it) => `${it.type}=${it.status} ${it.reason}`,
  );

const APPLIED = "Applied=True AllManifestsApplied";
const AVAILABLE = "Available=True AllManifestsAvailable";
const START = [
  "RolloutStarted=True RolloutStarted",
  "Overridden=True NoOverrideSpecified",
  "WorkSynchronized=True AllWorkSynced",
];

describe("the conditions of a binding", () => {
  it.each([
    ["one Work is not answered", [[APPLIED, AVAILABLE], []], ["Applied=Unknown ApplyInProgress"]],
    [
      "the answer is about an earlier version",
      [[`${APPLIED} ^`, AVAILABLE]],
      ["Applied=Unknown ApplyInProgress"],
    ],
    [
      "one Work failed",
      [[APPLIED, AVAILABLE], ["Applied=False SomeManifestsAreNotApplied"]],
      ["Applied=False NotAllWorkHaveBeenApplied"],
    ],
    [
      "one failed, and one is not answered",
      [[], ["Applied=False SomeManifestsAreNotApplied"]],
      ["Applied=Unknown ApplyInProgress"],
    ],
    [
      "availability is not known yet",
      [[APPLIED]],
      ["Applied=True AllWorkHaveBeenApplied", "Available=Unknown ResourceAvailableUnknown"],
    ],
    [
      "one Work is not available",
      [
        [APPLIED, AVAILABLE],
        [APPLIED, "Available=False SomeManifestsAreNotAvailable"],
      ],
      ["Applied=True AllWorkHaveBeenApplied", "Available=False NotAllWorkAreAvailable"],
    ],
    [
      "all is available",
      [[APPLIED, AVAILABLE]],
      ["Applied=True AllWorkHaveBeenApplied", "Available=True AllWorkAreAvailable"],
    ],
    [
      "some cannot be tracked",
      [
        [APPLIED, AVAILABLE],
        [APPLIED, "Available=True SomeManifestsAreNotAvailabilityTrackable"],
      ],
      ["Applied=True AllWorkHaveBeenApplied", "Available=True NotAllWorkAreAvailabilityTrackable"],
    ],
    [
      "an older agent says that some cannot be tracked",
      [[APPLIED, "Available=True WorkNotTrackable"]],
      ["Applied=True AllWorkHaveBeenApplied", "Available=True NotAllWorkAreAvailabilityTrackable"],
    ],
  ])("where %s", (_, works, expected) => {
    expect(conditionsOf(works.map((it) => work(it)))).toEqual([...START, ...expected]);
  });
  it.each([
    [
      "one Work is not answered",
      [["DiffReported=True AllManifestsDiffReported"], []],
      "DiffReported=Unknown DiffReportInProgress",
    ],
    [
      "one could not report",
      [["DiffReported=True A"], ["DiffReported=False SomeManifestsHaveNotReportedDiff"]],
      "DiffReported=False NotAllWorkHaveDiffReported",
    ],
    [
      "all have reported",
      [["DiffReported=True AllManifestsDiffReported"]],
      "DiffReported=True AllWorkHaveDiffReported",
    ],
  ])("that only reports differences, where %s", (_, works, expected) => {
    const applyStrategy: ApplyStrategy = { type: "ReportDiff" };
    expect(
      conditionsOf(
        works.map((it) => work(it)),
        SYNCED,
        { applyStrategy },
      ),
    ).toEqual([...START, expected]);
  });
  it("say which overrides there are, and end where one failed", () => {
    const spec = { clusterResourceOverrideSnapshots: ["red-0"] };
    expect(conditionsOf([work([])], SYNCED, spec)[1]).toBe("Overridden=True OverriddenSucceeded");
    expect(conditionsOf([work([APPLIED])], { kind: "overrideFailed", message: "no" }, spec)).toEqual([
      START[0],
      "Overridden=False OverriddenFailed",
    ]);
  });
  it("end where Works cannot be written", () => {
    expect(conditionsOf([work([APPLIED])], { kind: "workFailed", message: "no" })).toEqual([
      ...START.slice(0, 2),
      "WorkSynchronized=False SyncWorkFailed",
    ]);
  });
  it("keep what the rollout says of the present spec, and start it again for the next one", () => {
    const waits = "RolloutStarted=False RolloutNotStartedYet";
    expect(conditionsOf([work([])], SYNCED, { conditions: [waits] })[0]).toBe(waits);
    expect(conditionsOf([work([])], SYNCED, { conditions: [`${waits} ^`] })[0]).toBe(START[0]);
  });
});

describe("the details of a binding", () => {
  const identifier = (name: string, ordinal = 0) => ({
    ordinal,
    group: "apps",
    version: "v1",
    kind: "Deployment",
    resource: "deployments",
    namespace: "shop",
    name,
  });
  const failed = (name: string, type = "Applied") => ({
    identifier: identifier(name),
    conditions: [condition(`${type}=False ManifestApplyFailed`)],
  });
  const drift = {
    observationTime: "t",
    observedInMemberClusterGeneration: 3,
    firstDriftedObservedTime: "t0",
    observedDrifts: [{ path: "/spec/replicas" }],
  };
  it("name what was not applied, or is not available", () => {
    const works = [
      work(
        [],
        [
          failed("b", "Available"),
          { identifier: identifier("fine"), conditions: [condition("Applied=True Applied")] },
        ],
      ),
      work([], [failed("a")], "app-0"),
    ];
    expect(placementDetails(works)).toEqual({
      failedPlacements: [
        {
          group: "apps",
          version: "v1",
          kind: "Deployment",
          namespace: "shop",
          name: "a",
          condition: condition("Applied=False ManifestApplyFailed"),
        },
        {
          group: "apps",
          version: "v1",
          kind: "Deployment",
          namespace: "shop",
          name: "b",
          condition: condition("Available=False ManifestApplyFailed"),
        },
      ],
    });
  });
  it("name what was changed in the member, and what differs there", () => {
    const { observedInMemberClusterGeneration, firstDriftedObservedTime, observedDrifts, observationTime } =
      drift;
    const diffDetails = {
      observationTime,
      observedInMemberClusterGeneration,
      firstDiffedObservedTime: firstDriftedObservedTime,
      observedDiffs: observedDrifts,
    };
    const id = { version: "v1", kind: "Namespace", name: "shop" };
    const manifest = {
      identifier: { ordinal: 0, ...id, group: "", namespace: "" },
      driftDetails: drift,
      diffDetails,
    };
    expect(placementDetails([work([], [manifest])])).toEqual({
      driftedPlacements: [
        {
          ...id,
          observationTime,
          targetClusterObservedGeneration: 3,
          firstDriftedObservedTime,
          observedDrifts,
        },
      ],
      diffedPlacements: [
        {
          ...id,
          observationTime,
          targetClusterObservedGeneration: 3,
          firstDiffedObservedTime: firstDriftedObservedTime,
          observedDiffs: observedDrifts,
        },
      ],
    });
  });
  it("say which envelope an object is from", () => {
    const labels = {
      "kubernetes-fleet.io/envelope-work": "ResourceEnvelope",
      "kubernetes-fleet.io/envelope-name": "box",
      "kubernetes-fleet.io/envelope-namespace": "shop",
    };
    const from = work([], [failed("a")]);
    expect(placementDetails([{ ...from, metadata: { ...from.metadata, labels } }])).toMatchObject({
      failedPlacements: [{ envelope: { name: "box", namespace: "shop", type: "ResourceEnvelope" } }],
    });
  });
  it("are bounded in number and length: a member cannot make its binding too large to write", () => {
    const many = Array.from({ length: 300 }, (_, at) => failed(`x-${at}`));
    expect(placementDetails([work([], many)]).failedPlacements).toHaveLength(100);
    const long = Array.from({ length: 100 }, () => ({
      ...failed("x"),
      conditions: [{ ...condition("Applied=False R"), message: "m".repeat(30_000) }],
    }));
    expect(JSON.stringify(placementDetails([work([], long)])).length).toBeLessThan(300_000);
    const observedDrifts = Array.from({ length: 300 }, (_, at) => ({ path: `/data/k${at}` }));
    const changed = { identifier: identifier("a"), driftDetails: { ...drift, observedDrifts } };
    expect(placementDetails([work([], [changed])]).driftedPlacements?.[0]?.observedDrifts).toHaveLength(100);
    expect(notable([changed])[0]?.driftDetails?.observedDrifts).toHaveLength(100);
    expect(allDetails([work([], [...many, changed])])).toMatchObject({
      failedPlacements: { length: 300 },
      driftedPlacements: [{ observedDrifts: { length: 300 } }],
    });
  });
  it("concern no object that is as it should be", () => {
    const sound = {
      identifier: identifier("a"),
      conditions: [condition("Applied=True A"), condition("Available=True A")],
    };
    const drifted = { identifier: identifier("a"), driftDetails: drift };
    expect(notable([sound, failed("a"), drifted])).toEqual([failed("a"), drifted]);
  });
});
