import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import { describe, expect, it } from "vitest";
import {
  PARENT_PLACEMENT_LABEL,
  POLICY_INDEX_LABEL,
  RESOURCE_INDEX_LABEL,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import type {
  ClusterDecision,
  FailedPlacement,
  Placement,
  PlacementSpec,
  ResourceBinding,
  ResourceBindingSpec,
  ResourceSnapshot,
  SchedulingPolicySnapshot,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { placementStatus, type StatusInput } from "./status.ts";
import { stagesOf } from "./stages.ts";

type Status = Condition["status"];
const T0 = "2026-01-01T00:00:00Z";
const T1 = "2026-01-01T00:01:00Z";

function placement(spec: Partial<PlacementSpec> = {}): Placement {
  return { metadata: { name: "p", generation: 3 }, spec: { resourceSelectors: [], ...spec } };
}
function decision(clusterName: string, selected = true): ClusterDecision {
  const clusterScore = { affinityScore: 2, priorityScore: -1 };
  return { clusterName, selected, reason: "because", ...(selected ? { clusterScore } : {}) };
}
function policy(
  targetClusters: ClusterDecision[],
  { status = "True", reason = "SchedulingPolicyFulfilled", observed = 3, generation = 1 } = {},
): SchedulingPolicySnapshot {
  const condition = {
    type: "Scheduled",
    status: status as Status,
    reason,
    message: "m",
    lastTransitionTime: T0,
  };
  return {
    metadata: { name: "p-0", generation: 1, labels: { [POLICY_INDEX_LABEL]: "0" } },
    spec: { policyHash: "" },
    status: {
      observedCRPGeneration: observed,
      conditions: [{ ...condition, observedGeneration: generation }],
      targetClusters,
    },
  };
}
const snapshot: ResourceSnapshot = {
  metadata: { name: "p-4-snapshot", labels: { [RESOURCE_INDEX_LABEL]: "4" } },
  spec: { selectedResources: [] },
};
function conditionOf(type: string, status: Status, reason = `${type}Reason`, generation = 2): Condition {
  return {
    type,
    status,
    reason,
    message: `${type} m`,
    lastTransitionTime: T1,
    observedGeneration: generation,
  };
}
/** With conditions "RolloutStarted=True" and so on, by default all that make it available. */
function binding(
  cluster: string,
  conditions: Readonly<Record<string, Status>> = ALL,
  rest: Partial<ResourceBindingSpec> = {},
  status: object = {},
): ResourceBinding {
  return {
    metadata: {
      name: `p-${cluster}`,
      generation: 2,
      creationTimestamp: T0,
      labels: { [PARENT_PLACEMENT_LABEL]: "p" },
    },
    spec: {
      state: "Bound",
      resourceSnapshotName: "p-4-snapshot",
      schedulingPolicySnapshotName: "p-0",
      targetCluster: cluster,
      clusterDecision: decision(cluster),
      ...rest,
    },
    status: {
      conditions: Object.entries(conditions).map(([type, it]) => conditionOf(type, it)),
      ...status,
    },
  };
}
const ALL = {
  RolloutStarted: "True",
  Overridden: "True",
  WorkSynchronized: "True",
  Applied: "True",
  Available: "True",
} as const;
const REPORTED = {
  RolloutStarted: "True",
  Overridden: "True",
  WorkSynchronized: "True",
  DiffReported: "True",
} as const;

function statusOf(rest: Partial<StatusInput> & { readonly clusters?: readonly string[] }) {
  const { clusters = ["a"], ...others } = rest;
  return placementStatus({
    placement: placement(),
    prefix: "X",
    policy: policy(clusters.map((it) => decision(it))),
    snapshot,
    bindings: clusters.map((it) => binding(it)),
    resources: [{ version: "v1", kind: "Namespace", name: "shop" }],
    ...others,
  });
}
/** "Scheduled=True/Reason ..." without the prefix. */
function lines(conditions: readonly { type: string; status: string; reason: string }[] = []): string[] {
  return conditions.map((it) => `${it.type.replace(/^X/, "")}=${it.status}/${it.reason}`);
}
const FULFILLED = "Scheduled=True/SchedulingPolicyFulfilled";

describe("the stage Scheduled", () => {
  it.each<[string, SchedulingPolicySnapshot | undefined, string]>([
    ["without a policy snapshot", undefined, "Scheduled=Unknown/SchedulePending"],
    [
      "before the scheduler says anything",
      { ...policy([]), status: { observedCRPGeneration: 0 } },
      "Scheduled=Unknown/SchedulePending",
    ],
    [
      "of an older generation of the placement",
      policy([decision("a")], { observed: 2 }),
      "Scheduled=Unknown/SchedulePending",
    ],
    [
      "of an older generation of the snapshot",
      policy([decision("a")], { generation: 0 }),
      "Scheduled=Unknown/SchedulePending",
    ],
    ["if it is unknown", policy([], { status: "Unknown", reason: "X" }), "Scheduled=Unknown/SchedulePending"],
    [
      "if the policy is unfulfilled",
      policy([], { status: "False", reason: "SchedulingPolicyUnfulfilled" }),
      "Scheduled=False/SchedulingPolicyUnfulfilled",
    ],
    ["if the policy is fulfilled", policy([]), FULFILLED],
    ["if all is scheduled", policy([], { reason: "ScheduleSucceeded" }), "Scheduled=True/ScheduleSucceeded"],
  ])("%s", (_, of, expected) => {
    const { conditions, placementStatuses } = statusOf({ policy: of });
    expect(lines(conditions)).toEqual([expected]);
    expect(placementStatuses).toEqual([]);
    expect(conditions[0]?.observedGeneration).toBe(3);
  });

  it("is about the cluster, with its scores, and of clusters that are missing", () => {
    const of = policy([decision("b"), decision("a"), decision("y", false), decision("z", false)], {
      status: "False",
      reason: "SchedulingPolicyUnfulfilled",
    });
    const { placementStatuses, conditions } = statusOf({
      placement: placement({ policy: { placementType: "PickN", numberOfClusters: 3 } }),
      policy: of,
      bindings: [binding("a"), binding("b")],
    });
    expect(placementStatuses.map((it) => it.clusterName)).toEqual(["a", "b", undefined]);
    expect(placementStatuses[0]?.conditions?.[0]).toEqual({
      type: "Scheduled",
      status: "True",
      reason: "Scheduled",
      message: "a is selected (affinity score: 2, topology spread score: -1): because",
      observedGeneration: 3,
      lastTransitionTime: T0,
    });
    expect(placementStatuses[2]).toEqual({
      conditions: [
        {
          type: "Scheduled",
          status: "False",
          reason: "ScheduleFailed",
          message: "y is not selected: because",
          observedGeneration: 3,
          lastTransitionTime: T0,
        },
      ],
    });
    // The other stages are those of the clusters that are picked.
    expect(lines(conditions)).toEqual([
      "Scheduled=False/SchedulingPolicyUnfulfilled",
      "RolloutStarted=True/RolloutStarted",
      "Overridden=True/NoOverrideSpecified",
      "WorkSynchronized=True/WorkSynchronized",
      "Applied=True/ApplySucceeded",
      "Available=True/ResourceAvailable",
    ]);
  });
  it.each<[string, PlacementSpec["policy"], number]>([
    ["PickAll", { placementType: "PickAll" }, 0],
    ["no policy", undefined, 0],
    ["PickFixed of two", { placementType: "PickFixed", clusterNames: ["a", "y"] }, 1],
    ["PickN of one", { placementType: "PickN", numberOfClusters: 1 }, 0],
    ["PickN of more than there are", { placementType: "PickN", numberOfClusters: 9 }, 2],
  ])("lists clusters that are missing: with %s", (_, of, expected) => {
    const { placementStatuses } = statusOf({
      placement: placement(of === undefined ? {} : { policy: of }),
      policy: policy([decision("a"), decision("y", false), decision("z", false)]),
    });
    expect(placementStatuses.filter((it) => it.clusterName === undefined)).toHaveLength(expected);
  });
});

/** Of each stage the reasons of Unknown, False and True. A cluster that has no condition of its binding yet has the first. */
const STAGES = [
  ["RolloutStarted", "RolloutStartedUnknown", "RolloutNotStartedYet", "RolloutStarted"],
  ["Overridden", "OverriddenPending", "OverriddenFailed", "OverriddenSucceeded"],
  ["WorkSynchronized", "WorkSynchronizedUnknown", "WorkNotSynchronizedYet", "WorkSynchronized"],
  ["Applied", "ApplyPending", "ApplyFailed", "ApplySucceeded"],
  ["Available", "ResourceAvailableUnknown", "ResourceNotAvailableYet", "ResourceAvailable"],
  ["DiffReported", "DiffReportingPending", "DiffReportingIncompleteOrFailed", "DiffReportingCompleted"],
] as const;

describe.each(STAGES)("the stage %s", (stage, unknown, failed, done) => {
  const strategy =
    stage === "DiffReported" ? { strategy: { applyStrategy: { type: "ReportDiff" as const } } } : {};
  const of = placement(strategy);
  const stages = stagesOf(of.spec.strategy?.applyStrategy);
  const at = stages.indexOf(stage);
  /** True up to this stage, which has `status`, and as if the later ones were left over. */
  const until = (status: Status | undefined): Record<string, Status> => ({
    ...(stage === "DiffReported" ? REPORTED : ALL),
    ...(status === undefined ? {} : { [stage]: status }),
  });
  const overridden = { resourceOverrideSnapshots: [{ name: "o-0", namespace: "n" }] };
  const of3 = (...statuses: readonly Status[]) =>
    statusOf({
      placement: of,
      clusters: ["a", "b", "c"],
      bindings: statuses.map((status, index) => binding("abc"[index] ?? "", until(status), overridden)),
    });
  const last = (
    conditions: readonly { type: string; status: string; reason: string; message: string }[] = [],
  ) => ({
    count: conditions.length,
    line: lines(conditions).at(-1),
    message: conditions.at(-1)?.message ?? "",
  });
  const upTo = at + 2;

  it("is unknown if it is on one cluster", () => {
    const { conditions } = of3("True", "Unknown", "False");
    expect(last(conditions)).toMatchObject({ count: upTo, line: `${stage}=Unknown/${unknown}` });
    expect(last(conditions).message).toContain("1 cluster");
  });
  it("is false if it is on one cluster, and unknown on none", () => {
    const { conditions } = of3("True", "False", "False");
    expect(last(conditions)).toMatchObject({ count: upTo, line: `${stage}=False/${failed}` });
    expect(last(conditions).message).toContain("2 clusters");
  });
  it("is true if it is on all clusters", () => {
    const { conditions } = of3("True", "True", "True");
    expect(lines(conditions)[at + 1]).toBe(`${stage}=True/${done}`);
    expect(conditions).toHaveLength(stages.length + 1);
  });
  it("of a cluster is that of its binding, and ends the stages unless it is true", () => {
    const { placementStatuses } = of3("True", "False", "Unknown");
    const own = placementStatuses.map((it) => it.conditions ?? []);
    expect(own[0]).toHaveLength(stages.length + 1);
    expect(own[1]?.at(-1)).toEqual({ ...conditionOf(stage, "False"), observedGeneration: 3 });
    expect(own[1]).toHaveLength(upTo);
    expect(last(own[2])).toMatchObject({ count: upTo, line: `${stage}=Unknown/${unknown}` });
  });
  it("is unknown for a condition that is absent, or older than the binding", () => {
    const { [stage]: _, ...absent } = until("True");
    const outdated = binding("b", until("True"));
    for (const it of outdated.status?.conditions ?? []) if (it.type === stage) it.observedGeneration = 1;
    const { placementStatuses } = statusOf({
      placement: of,
      clusters: ["a", "b"],
      bindings: [binding("a", absent), outdated],
    });
    for (const it of placementStatuses)
      expect(lines(it.conditions).at(-1)).toBe(`${stage}=Unknown/${unknown}`);
  });
});

describe("a cluster", () => {
  it("without a binding, or with one that goes, waits for its rollout", () => {
    const going = binding("b");
    going.metadata.deletionTimestamp = T1;
    const { placementStatuses } = statusOf({
      clusters: ["a", "b", "c"],
      bindings: [going, binding("c", ALL, { state: "Unscheduled" })],
    });
    for (const it of placementStatuses)
      expect(lines(it.conditions)).toEqual([
        "Scheduled=True/Scheduled",
        "RolloutStarted=Unknown/RolloutStartedUnknown",
      ]);
    expect(placementStatuses[0]?.observedResourceIndex).toBeUndefined();
  });
  it("with an older snapshot waits for its rollout, or says why it cannot start", () => {
    const old = { resourceSnapshotName: "p-3-snapshot" };
    const { placementStatuses, conditions } = statusOf({
      clusters: ["a", "b"],
      bindings: [binding("a", ALL, old), binding("b", { ...ALL, RolloutStarted: "False" }, old)],
    });
    expect(placementStatuses.map((it) => [it.observedResourceIndex, lines(it.conditions).at(-1)])).toEqual([
      ["3", "RolloutStarted=Unknown/RolloutStartedUnknown"],
      ["3", "RolloutStarted=False/RolloutStartedReason"],
    ]);
    expect(lines(conditions).at(-1)).toBe("RolloutStarted=Unknown/RolloutStartedUnknown");
  });
  it("shows the overrides that apply", () => {
    const { placementStatuses, conditions } = statusOf({
      bindings: [
        binding("a", ALL, {
          resourceOverrideSnapshots: [{ name: "o-0", namespace: "n" }],
          clusterResourceOverrideSnapshots: ["co-1"],
        }),
      ],
    });
    expect(placementStatuses[0]).toMatchObject({
      applicableResourceOverrides: [{ name: "o-0", namespace: "n" }],
      applicableClusterResourceOverrides: ["co-1"],
    });
    expect(lines(conditions)[2]).toBe("Overridden=True/OverriddenSucceeded");
  });
  it("shows at most 100 objects that failed, drifted or differ, and failures only while something fails", () => {
    const entry = (name: string) => ({ version: "v1", kind: "ConfigMap", name });
    const many = Array.from({ length: 150 }, (_, at) => entry(`${at}`));
    const details = {
      failedPlacements: many.map((it): FailedPlacement => ({
        ...it,
        condition: conditionOf("Applied", "False"),
      })),
      driftedPlacements: many,
      diffedPlacements: many,
    };
    const of = (conditions: Readonly<Record<string, Status>>) =>
      statusOf({ bindings: [binding("a", conditions, {}, details)] }).placementStatuses[0];
    const failed = of({ ...ALL, Applied: "False" });
    expect(failed?.failedPlacements).toHaveLength(100);
    expect(failed?.driftedPlacements).toHaveLength(100);
    expect(failed?.diffedPlacements).toHaveLength(100);
    const fine = of(ALL);
    expect(fine?.failedPlacements).toBeUndefined();
    expect(fine?.driftedPlacements).toHaveLength(100);
    expect(of({ RolloutStarted: "True" })?.driftedPlacements).toBeUndefined();
  });
});

describe("with strategy External", () => {
  const of = placement({ strategy: { type: "External" } });
  const at = (index: string): Partial<ResourceBindingSpec> => ({ resourceSnapshotName: index });
  it.each<[string, string, string]>([
    ["different snapshots", "p-1-snapshot", "p-2-snapshot"],
    ["a cluster without any", "p-1-snapshot", ""],
    ["no snapshot at all", "", ""],
  ])("%s: the placement shows no index and no resources, the rollout is unknown", (_, a, b) => {
    const status = statusOf({
      placement: of,
      clusters: ["a", "b"],
      bindings: [binding("a", ALL, at(a)), binding("b", a === "" ? {} : ALL, at(b))],
    });
    expect(status).toMatchObject({ observedResourceIndex: "", selectedResources: [] });
    expect(lines(status.conditions)).toEqual([
      FULFILLED,
      "RolloutStarted=Unknown/RolloutControlledByExternalController",
    ]);
    expect(status.placementStatuses).toHaveLength(2);
  });
  it("one snapshot on all clusters, if not the latest: the stages are judged as usual", () => {
    const status = statusOf({
      placement: of,
      clusters: ["a", "b"],
      bindings: [binding("a", ALL, at("p-1-snapshot")), binding("b", ALL, at("p-1-snapshot"))],
    });
    expect(status.observedResourceIndex).toBe("1");
    expect(lines(status.conditions).at(-1)).toBe("Available=True/ResourceAvailable");
  });
});

it("the same objects give the same status", () => {
  const input = {
    clusters: ["b", "a"],
    bindings: [binding("b"), binding("a", { ...ALL, Applied: "Unknown" })],
  };
  expect(statusOf(input)).toEqual(statusOf({ ...input, clusters: ["a", "b"] }));
});
