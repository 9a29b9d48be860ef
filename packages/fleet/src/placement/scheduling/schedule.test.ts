import { describe, expect, it } from "vitest";
import type { PlacementPolicy } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import {
  BINDING_FINALIZER,
  PREVIOUS_BINDING_STATE_ANNOTATION,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import { changesIn, fakeBinding, fakeCluster, fakeMember, scheduled } from "./cluster.fake.ts";
import { clusterFacts } from "./cluster.ts";

const [a, b, c] = ["a", "b", "c"].map((it) => fakeCluster(it)) as [
  ReturnType<typeof fakeCluster>,
  ReturnType<typeof fakeCluster>,
  ReturnType<typeof fakeCluster>,
];
const sick = clusterFacts(fakeMember("sick", { joined: "Unknown" }), { heartbeatAgeMs: 0 });
const tainted = fakeCluster("tainted", { taints: [{ key: "x", effect: "NoSchedule" }] });
const leaving = fakeCluster("leaving", { isDeleting: true });

const pickN = (numberOfClusters: number, more: Partial<PlacementPolicy> = {}): PlacementPolicy => ({
  placementType: "PickN",
  numberOfClusters,
  ...more,
});
const fixed = (...clusterNames: string[]): PlacementPolicy => ({ placementType: "PickFixed", clusterNames });

const NONE = { create: "", patch: "", unschedule: "" };

describe("PickAll", () => {
  it("picks each cluster that passes the filters, without scores", () => {
    const result = scheduled(undefined, [a, b, sick, tainted, leaving]);
    expect(changesIn(result)).toEqual({ ...NONE, create: "a b" });
    expect(result.create[0]?.spec.clusterDecision).toEqual({
      clusterName: "a",
      selected: true,
      reason: "picked by the scheduling policy",
    });
    expect(result.outcome.condition).toMatchObject({ status: "True", reason: "SchedulingPolicyFulfilled" });
  });
  it("picks a cluster that joins later", () => {
    expect(changesIn(scheduled({}, [a, b], [fakeBinding("a")]))).toEqual({ ...NONE, create: "b" });
  });
  it("is fulfilled by no cluster at all", () => {
    expect(scheduled({}, []).outcome).toMatchObject({ condition: { status: "True" }, targetClusters: [] });
  });
});

describe("PickFixed", () => {
  it("picks the named clusters, whatever their taints", () => {
    const result = scheduled(fixed("a", "tainted"), [a, b, tainted]);
    expect(changesIn(result)).toEqual({ ...NONE, create: "a tainted" });
    expect(result.outcome.condition.status).toBe("True");
  });
  it("is unfulfilled by a name that is missing or ineligible, and picks the others", () => {
    const result = scheduled(fixed("a", "sick", "missing"), [a, b, sick]);
    expect(changesIn(result)).toEqual({ ...NONE, create: "a" });
    expect(result.outcome.condition).toMatchObject({
      status: "False",
      reason: "SchedulingPolicyUnfulfilled",
    });
    expect(result.outcome.targetClusters.filter((it) => !it.selected)).toEqual([
      {
        clusterName: "sick",
        selected: false,
        reason: "ClusterEligibility: the member agent has not joined the fleet",
      },
      { clusterName: "missing", selected: false, reason: "the fleet has no cluster of this name" },
    ]);
  });
});

describe("PickN", () => {
  it("picks as many as it says, and of equals the lexicographically larger name", () => {
    expect(changesIn(scheduled(pickN(2), [a, b, c]))).toEqual({ ...NONE, create: "b c" });
  });
  it("is unfulfilled by fewer, which it picks all the same", () => {
    const result = scheduled(pickN(3), [a, b, tainted]);
    expect(changesIn(result)).toEqual({ ...NONE, create: "a b" });
    expect(result.outcome.condition).toMatchObject({
      status: "False",
      reason: "SchedulingPolicyUnfulfilled",
    });
  });
  it("keeps what it has when it is to have more", () => {
    expect(changesIn(scheduled(pickN(2), [a, b, c], [fakeBinding("a")]))).toEqual({ ...NONE, create: "c" });
  });
  it.each([
    ["Scheduled before Bound", 2, "c"],
    ["then the lowest topology score", 1, "b c"],
  ])("has fewer: %s", (_, count, unschedule) => {
    const decision = (clusterName: string, priorityScore: number, affinityScore: number) => ({
      clusterDecision: {
        clusterName,
        selected: true,
        reason: "",
        clusterScore: { affinityScore, priorityScore },
      },
    });
    const bindings = [
      fakeBinding("a", decision("a", 0, 1)),
      fakeBinding("b", decision("b", -1, 9)),
      fakeBinding("c", { state: "Scheduled", ...decision("c", 5, 5) }),
    ];
    expect(changesIn(scheduled(pickN(count), [a, b, c], bindings))).toEqual({ ...NONE, unschedule });
  });
  it("has fewer: then the lowest affinity score, and the smallest name", () => {
    const scored = (name: string, affinityScore: number) =>
      fakeBinding(name, {
        clusterDecision: {
          clusterName: name,
          selected: true,
          reason: "",
          clusterScore: { affinityScore, priorityScore: 0 },
        },
      });
    const bindings = [scored("a", 5), scored("b", 1), scored("c", 1)];
    expect(changesIn(scheduled(pickN(2), [a, b, c], bindings))).toEqual({ ...NONE, unschedule: "b" });
  });
  it("of 0 has none", () => {
    const result = scheduled(
      pickN(0),
      [a],
      [fakeBinding("a"), fakeBinding("b", { schedulingPolicySnapshotName: "o" })],
    );
    expect(changesIn(result)).toEqual({ ...NONE, unschedule: "a b" });
    expect(result.outcome.condition.status).toBe("True");
  });
});

describe("a cluster that is picked already", () => {
  it.each(["PickAll", "PickN"] as const)(
    "stays when its labels, taints or health change (%s)",
    (placementType) => {
      const required = { clusterSelectorTerms: [{ labelSelector: { matchLabels: { env: "prod" } } }] };
      const policy = {
        placementType,
        ...(placementType === "PickN" ? { numberOfClusters: 2 } : {}),
        affinity: { clusterAffinity: { requiredDuringSchedulingIgnoredDuringExecution: required } },
      };
      const bindings = [fakeBinding("sick"), fakeBinding("tainted")];
      const result = scheduled(policy, [sick, tainted, a], bindings);
      expect(changesIn(result)).toEqual(NONE);
      expect(result.outcome.condition.status).toBe("True");
    },
  );
  it("is filtered afresh after a change of the policy: patched where it is, or Unscheduled", () => {
    const old = { schedulingPolicySnapshotName: "older" };
    const bindings = ["a", "b", "tainted", "sick"].map((it) => fakeBinding(it, old));
    expect(changesIn(scheduled({}, [a, b, tainted, sick], bindings))).toEqual({
      create: "",
      patch: "a b",
      unschedule: "sick tainted",
    });
  });
  it("is preferred among equals after a change of the policy", () => {
    const old = fakeBinding("a", { schedulingPolicySnapshotName: "older", state: "Scheduled" });
    const result = scheduled(pickN(1), [a, b, c], [old]);
    expect(changesIn(result)).toEqual({ ...NONE, patch: "a" });
    expect(result.patch[0]?.state).toBe("Scheduled");
  });
  it("goes when it leaves the fleet, and PickN picks another", () => {
    const bindings = [fakeBinding("leaving"), fakeBinding("gone")];
    expect(changesIn(scheduled(pickN(2), [a, b, leaving], bindings))).toEqual({
      create: "a b",
      patch: "",
      unschedule: "gone leaving",
    });
  });
});

describe("bindings that go", () => {
  it.each([
    ["the state that they had", { [PREVIOUS_BINDING_STATE_ANNOTATION]: "Scheduled" }, "Scheduled"],
    ["that of their resources where it is not known", {}, "Bound"],
  ])("come back with %s when their cluster is picked again", (_, annotations, state) => {
    const binding = fakeBinding("a", { state: "Unscheduled" }, { annotations });
    expect(scheduled({}, [a], [binding]).patch).toMatchObject([{ binding, state }]);
  });
  it("are released when they are deleted, and the cluster gets a new one after that", () => {
    const first = scheduled({}, [a]).create[0];
    if (first === undefined) throw new Error("a is not picked");
    const metadata = {
      ...first.metadata,
      deletionTimestamp: "2026-06-01T00:00:00Z",
      finalizers: [BINDING_FINALIZER],
    };
    const result = scheduled({}, [a], [{ ...first, metadata }]);
    expect(result).toMatchObject({
      create: [],
      release: [{ metadata }],
      outcome: { condition: { status: "True" } },
    });
    const released = { ...first, metadata: { ...metadata, finalizers: ["other"] } };
    expect(scheduled({}, [a], [released]).release).toEqual([]);
    expect(scheduled({}, [a]).create).toEqual([first]);
  });
  it("are those beyond the first of a cluster: the one that is Bound stays", () => {
    const bindings = [
      fakeBinding("a", { state: "Scheduled" }, { name: "one" }),
      fakeBinding("a", {}, { name: "two" }),
      fakeBinding("a", { schedulingPolicySnapshotName: "older" }, { name: "three" }),
    ];
    const { unschedule } = scheduled({}, [a], bindings);
    expect(unschedule.map((it) => it.metadata.name).toSorted()).toEqual(["one", "three"]);
  });
});

describe("a ResourcePlacement", () => {
  it("needs its namespace in the clusters that report theirs", () => {
    const with_ = fakeCluster("with", { namespaces: { shop: "w" } });
    const without = fakeCluster("without", { namespaces: {} });
    expect(changesIn(scheduled({}, [with_, without, a], [], "shop"))).toEqual({ ...NONE, create: "a with" });
    expect(changesIn(scheduled({}, [with_, without, a]))).toEqual({ ...NONE, create: "a with without" });
  });
});

describe("a policy that contradicts itself", () => {
  it("changes nothing, and says what is wrong with it", () => {
    const old = fakeBinding("b", { schedulingPolicySnapshotName: "older" });
    const result = scheduled({ clusterNames: ["a"] }, [a, b], [fakeBinding("a"), old]);
    expect(changesIn(result)).toEqual(NONE);
    expect(result.outcome.condition).toMatchObject({
      status: "False",
      reason: "SchedulingPolicyUnfulfilled",
      message: "the scheduling policy cannot be used: policy.clusterNames: PickAll does not take it",
    });
  });
});

describe("the decisions", () => {
  it("are at most 1000, of which at most 20 explain why a cluster was not picked", () => {
    const many = Array.from({ length: 1200 }, (_, at) => fakeCluster(`c${at}`));
    const sizes = (targets: readonly { selected: boolean }[]): number[] => [
      targets.filter((it) => it.selected).length,
      targets.filter((it) => !it.selected).length,
    ];
    expect(sizes(scheduled(pickN(10), many).outcome.targetClusters)).toEqual([10, 20]);
    expect(sizes(scheduled(pickN(995), many).outcome.targetClusters)).toEqual([995, 5]);
    expect(sizes(scheduled({}, many).outcome.targetClusters)).toEqual([1000, 0]);
  });
  it("name the plugin that refused a cluster, those that nearly were picked first", () => {
    const { targetClusters } = scheduled(pickN(1), [a, b, tainted, sick]).outcome;
    expect(targetClusters.map((it) => `${it.clusterName} ${it.reason}`)).toEqual([
      "b picked by the scheduling policy (affinity score 0, topology spread score 0)",
      "a other clusters score higher, or were picked before",
      "tainted TaintToleration: its taint x:NoSchedule is not tolerated",
      "sick ClusterEligibility: the member agent has not joined the fleet",
    ]);
  });
});

describe("the name of a binding", () => {
  it("has the names of the placement and of the cluster, and no more than 63 characters", () => {
    expect(scheduled({}, [a]).create[0]?.metadata.name).toMatch(/^p-a-[0-9a-v]{8}$/);
    const long = fakeCluster("c".repeat(63));
    const name = scheduled({}, [long]).create[0]?.metadata.name ?? "";
    expect(name).toMatch(/^p-c{52}-[0-9a-v]{8}$/);
    expect(name.length).toBeLessThanOrEqual(63);
  });
});
