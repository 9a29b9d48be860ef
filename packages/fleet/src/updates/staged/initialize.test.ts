import { describe, expect, it } from "vitest";
import type { SchedulingPolicySnapshot } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type { StageConfig } from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import { concurrencyOf, tolerance } from "./amounts.ts";
import { divide } from "./stages.ts";
import { condition, FakeWorld } from "./world.fake.ts";

const ALL: StageConfig = { name: "all", labelSelector: {} };

function refused(names: readonly string[]): NonNullable<SchedulingPolicySnapshot["status"]> {
  const scheduled = condition("Scheduled", "False", 1);
  const message = `${names.length + 1} clusters asked for, 1 can be picked`;
  return {
    observedCRPGeneration: 1,
    conditions: [{ ...scheduled, message }],
    targetClusters: [
      { clusterName: "a", selected: true, reason: "picked" },
      ...names.map((clusterName) => ({ clusterName, selected: false, reason: "no heartbeat" })),
    ],
  };
}

function messageOf(fleet: FakeWorld): string | undefined {
  return findCondition(fleet.run.status?.conditions, "Initialized")?.message;
}

describe("initialization", () => {
  it("freezes the strategy, the policy snapshot, the clusters and the apply strategy", () => {
    const fleet = new FakeWorld({ b: "x", a: "x" }, [ALL]);
    const strategy = structuredClone(fleet.strategy.spec);
    fleet.object = {
      metadata: { name: "web" },
      spec: {
        resourceSelectors: [],
        strategy: { type: "External", applyStrategy: { whenToApply: "IfNotDrifted" } },
      },
    };
    fleet.setState("Initialize");
    fleet.settle();
    fleet.strategy.spec.stages = [];
    fleet.settle();
    expect(fleet.run.status).toEqual({
      policySnapshotIndexUsed: "0",
      policyObservedClusterCount: 2,
      resourceSnapshotIndexUsed: "7",
      appliedStrategy: { whenToApply: "IfNotDrifted" },
      stagedUpdateStrategySnapshot: strategy,
      stagesStatus: [{ stageName: "all", clusters: [{ clusterName: "a" }, { clusterName: "b" }] }],
      deletionStageStatus: { stageName: "kubernetes-fleet.io/deleteStage", clusters: [] },
      conditions: [
        expect.objectContaining({
          type: "Initialized",
          status: "True",
          reason: "UpdateRunInitializedSuccessfully",
          observedGeneration: 2,
        }),
      ],
    });
  });

  const faults: readonly [string, (fleet: FakeWorld) => void, RegExp][] = [
    ["there is no placement", (it) => void (it.object = undefined), /placement web does not exist/],
    [
      "the placement is rolled out by itself",
      ({ object }) => void (object !== undefined && (object.spec.strategy = {})),
      /spec.strategy.type of placement web is not External/,
    ],
    [
      "a cluster is in no stage",
      ({ strategy }) =>
        void (strategy.spec.stages = [{ name: "one", labelSelector: { matchLabels: { stage: "x" } } }]),
      /update strategy by-stage: 1 of 2 clusters are in no stage: b/,
    ],
    [
      "a stage has no selector, and so no clusters",
      ({ strategy }) => void (strategy.spec.stages = [{ name: "one" }]),
      /2 of 2 clusters are in no stage: a, b/,
    ],
    [
      "a cluster is in two stages",
      ({ strategy }) => void (strategy.spec.stages = [ALL, { ...ALL, name: "again" }]),
      /cluster a is in two stages, all and again/,
    ],
    [
      "the label that orders clusters is not an integer",
      ({ strategy }) => void (strategy.spec.stages = [{ ...ALL, sortingLabelKey: "stage" }]),
      /stage all: label stage=x of cluster a is not an integer/,
    ],
    [
      "two stages have one name",
      ({ strategy }) => void (strategy.spec.stages = [ALL, ALL]),
      /spec.stages\[1\].name: two stages are named all/,
    ],
    [
      "a wait comes before a stage",
      ({ strategy }) =>
        void (strategy.spec.stages = [{ ...ALL, beforeStageTasks: [{ type: "TimedWait", waitTime: "1h" }] }]),
      /spec.stages\[0\].beforeStageTasks: only an Approval/,
    ],
    [
      "two tasks are of one type",
      ({ strategy }) =>
        void (strategy.spec.stages = [
          { ...ALL, afterStageTasks: [{ type: "Approval" }, { type: "Approval" }] },
        ]),
      /afterStageTasks: two are of one type/,
    ],
    [
      "an Approval has a wait time",
      ({ strategy }) =>
        void (strategy.spec.stages = [{ ...ALL, afterStageTasks: [{ type: "Approval", waitTime: "1h" }] }]),
      /afterStageTasks: an Approval has no waitTime/,
    ],
    [
      "a TimedWait has no time",
      ({ strategy }) =>
        void (strategy.spec.stages = [{ ...ALL, afterStageTasks: [{ type: "TimedWait", waitTime: "0s" }] }]),
      /afterStageTasks: a TimedWait needs a waitTime above 0/,
    ],
    [
      "a deadline is not a duration",
      ({ strategy }) => void (strategy.spec.stages = [{ ...ALL, progressDeadline: "soon" }]),
      /progressDeadline: it must be a duration above 0/,
    ],
  ];
  it.each(faults)("fails for good where %s", (_, happens, message) => {
    const fleet = new FakeWorld({ a: "x", b: "y" }, [ALL]);
    happens(fleet);
    fleet.settle();
    expect(fleet.says("Initialized")).toBe("False UpdateRunInitializedFailed");
    expect(messageOf(fleet)).toMatch(message);
    const { status } = fleet.run;
    Object.assign(fleet, new FakeWorld({ a: "x", b: "y" }, [ALL]), { run: fleet.run });
    fleet.settle();
    expect(fleet.run.status).toEqual(status);
  });

  const pendings: readonly [string, (fleet: FakeWorld) => void][] = [
    ["there is a policy snapshot", (it) => void (it.policy = undefined)],
    ["the scheduler has decided", ({ policy }) => void delete policy?.status],
    [
      "the scheduler has decided about the present policy",
      ({ policy }) => void (policy !== undefined && (policy.metadata.generation = 2)),
    ],
    [
      "the scheduler has decided about the present placement",
      ({ policy }) =>
        void (
          policy !== undefined &&
          (policy.metadata.annotations = { "kubernetes-fleet.io/CRP-generation": "2" })
        ),
    ],
    ["all bindings belong to the policy", (it) => it.change("a", { schedulingPolicySnapshotName: "web-9" })],
    [
      "the scheduler can pick all clusters",
      ({ policy }) => void Object.assign(policy ?? {}, { status: refused([]) }),
    ],
    ["the scheduler has picked a cluster", (it) => it.bindings.clear()],
    [
      "as many clusters are scheduled as the policy asks for",
      ({ policy }) =>
        void (
          policy !== undefined &&
          (policy.spec.policy = { placementType: "PickFixed", clusterNames: ["a", "b", "c"] })
        ),
    ],
  ];
  it("names the clusters that the scheduler does not pick, ten at most, with its reasons", () => {
    const fleet = new FakeWorld({ a: "x" }, [ALL]);
    const names = ["b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m"];
    if (fleet.policy !== undefined) fleet.policy.status = refused(names);
    fleet.settle();
    expect(messageOf(fleet)).toBe(
      "the scheduler cannot pick all clusters of policy snapshot web-0: 13 clusters asked for, 1 can be picked; not picked: " +
        `${names
          .slice(0, 10)
          .map((it) => `${it} (no heartbeat)`)
          .join(", ")}, 2 more`,
    );
  });

  it.each(pendings)("waits until %s", (_, happens) => {
    const fleet = new FakeWorld({ a: "x" }, [ALL]);
    happens(fleet);
    fleet.settle();
    expect(fleet.says("Initialized")).toBe("Unknown UpdateRunWaiting");
    Object.assign(fleet, new FakeWorld({ a: "x" }, [ALL]), {
      run: fleet.run,
      bindings: new FakeWorld({ a: "x" }, [ALL]).bindings,
    });
    fleet.settle();
    expect(fleet.says("Initialized")).toBe("True UpdateRunInitializedSuccessfully");
  });
});

describe("the order of clusters in a stage", () => {
  it.each([
    ["their names, without a sortingLabelKey", undefined, ["a", "b", "c", "d", "e"]],
    [
      "the integers of their labels, then their names; those without the label last",
      "rank",
      ["c", "b", "a", "e", "d"],
    ],
  ])("is that of %s", (_, sortingLabelKey, order) => {
    const clusters = new Map(
      Object.entries({ d: {}, a: { rank: "10" }, b: { rank: "9" }, e: { rank: "10" }, c: { rank: "-1" } }),
    );
    const stage = { ...ALL, ...(sortingLabelKey === undefined ? {} : { sortingLabelKey }) };
    expect(divide({ stages: [stage] }, clusters)).toEqual({ stages: [order] });
  });
});

describe("amounts", () => {
  it.each([
    [undefined, 10, 1],
    [3, 10, 3],
    ["50%", 3, 1],
    ["50%", 5, 2],
    ["1%", 10, 1],
    ["100%", 10, 10],
    ["7%", 100, 7],
  ])("of concurrency round down, to 1 at least: %s of %i clusters are %i", (amount, of, expected) => {
    expect(concurrencyOf(amount, of)).toBe(expected);
  });

  it.each([
    [undefined, 10, 0],
    [2, 10, 2],
    ["10%", 15, 2],
    ["0%", 15, 0],
    ["7%", 100, 7],
  ])("of tolerated failures round up: %s of %i clusters are %i", (amount, of, expected) => {
    expect(tolerance(amount, of)).toBe(expected);
  });
});
