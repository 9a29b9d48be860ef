import { describe, expect, it } from "vitest";
import type {
  PlacementPolicy,
  RequiredDuringExecution,
  ResourceBinding,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type { ClusterFacts } from "./cluster.ts";
import { changesIn, condition, fakeBinding, fakeCluster, fleetOf } from "./cluster.fake.ts";
import {
  type ExecutionMemory,
  executionSettings,
  NO_MEMORY,
  planExecution,
  withReplaced,
} from "./execution.ts";
import { compilePolicy } from "./policy.ts";
import { schedule, type Schedule } from "./schedule.ts";

const S = 1000;
const affinity = {
  clusterAffinity: {
    requiredDuringSchedulingIgnoredDuringExecution: {
      clusterSelectorTerms: [{ labelSelector: { matchLabels: { env: "prod" } } }],
    },
  },
};
const prod = (name: string): ClusterFacts => fakeCluster(name, { labels: { env: "prod" } });
const test = (name: string): ClusterFacts => fakeCluster(name, { labels: { env: "test" } });
const lost = (name: string): ClusterFacts =>
  fakeCluster(name, { labels: { env: "prod" }, joined: "Unknown" });
const tainted = (name: string): ClusterFacts =>
  fakeCluster(name, { labels: { env: "prod" }, taints: [{ key: "k", effect: "NoSchedule" }] });

const available = (name: string): ResourceBinding => ({
  ...fakeBinding(name),
  status: { conditions: [condition("Available", "True")] },
});

interface World {
  readonly clusters: readonly ClusterFacts[];
  readonly bindings: readonly ResourceBinding[];
  readonly count?: number;
  readonly option?: RequiredDuringExecution;
  readonly policy?: PlacementPolicy;
}

/** Looks at what there is after each of the times, and remembers. */
function looked(world: World, atMs: readonly number[], memory: ExecutionMemory = NO_MEMORY) {
  const { option = {}, count = world.bindings.length } = world;
  const policy: PlacementPolicy = world.policy ?? {
    placementType: "PickN",
    numberOfClusters: count,
    affinity,
  };
  const settings = executionSettings({ ...policy, requiredDuringExecution: option });
  if (settings === undefined) throw new Error("not required during execution");
  const task = {
    placement: { namespace: undefined, name: "p" },
    policy: compilePolicy(policy),
    snapshot: { name: "p-0", hash: "" },
    count,
    clusters: fleetOf(...world.clusters),
    bindings: world.bindings,
  };
  let remembered = memory;
  let last: { result: Schedule; againInMs: number } | undefined;
  for (const nowMs of atMs) {
    const plan = planExecution(task, settings, remembered, nowMs);
    const result = schedule({ ...task, execution: plan });
    const gone = new Set(result.unschedule.map((it) => it.spec.targetCluster));
    remembered = withReplaced(
      plan.memory,
      plan.drop.filter((it) => gone.has(it)),
      nowMs,
    );
    last = { result, againInMs: plan.againInMs };
  }
  if (last === undefined) throw new Error("never looked");
  return { ...last, memory: remembered, changes: changesIn(last.result) };
}

const NOTHING = { create: "", patch: "", unschedule: "" };

describe("a cluster that meets the policy no longer", () => {
  const world: World = {
    clusters: [test("a"), prod("b"), prod("c")],
    bindings: [available("a"), available("b")],
  };

  it("is replaced after it has failed for the time given, and not before", () => {
    const first = looked(world, [0]);
    expect(first).toMatchObject({ changes: NOTHING, againInMs: 300 * S });
    expect(looked(world, [0, 299 * S]).changes).toEqual(NOTHING);
    expect(looked(world, [0, 300 * S]).changes).toEqual({ create: "c", patch: "", unschedule: "a" });
  });
  it("starts again when it has passed in between", () => {
    const { memory } = looked(
      { ...world, clusters: [prod("a"), prod("b"), prod("c")] },
      [200 * S],
      looked(world, [0]).memory,
    );
    expect(looked(world, [250 * S, 400 * S], memory).changes).toEqual(NOTHING);
    expect(looked(world, [250 * S, 550 * S], memory).changes).toMatchObject({ unschedule: "a" });
  });
  it("stays where no other cluster can take its place", () => {
    const alone = { ...world, clusters: [test("a"), prod("b")] };
    expect(looked(alone, [0, 300 * S]).changes).toEqual(NOTHING);
  });
  it("stays while the placement lacks a cluster anyway, which comes first", () => {
    expect(looked({ ...world, count: 3 }, [0, 300 * S]).changes).toEqual({ ...NOTHING, create: "c" });
  });
  it("is dropped from PickAll, where it needs no replacement", () => {
    const policy: PlacementPolicy = { placementType: "PickAll", affinity };
    const bindings = ["a", "b", "c"].map(available);
    expect(looked({ ...world, policy, bindings }, [0, 300 * S]).changes).toEqual({
      ...NOTHING,
      unschedule: "a",
    });
  });
});

describe("what is required", () => {
  it.each<[string, ClusterFacts, RequiredDuringExecution, boolean]>([
    ["labels and properties", test("a"), {}, true],
    ["health", lost("a"), {}, true],
    ["no taints unless it says so", tainted("a"), {}, false],
    ["taints where it says so", tainted("a"), { requirements: ["TaintToleration"] }, true],
    ["nothing else then", test("a"), { requirements: ["TaintToleration"] }, false],
  ])("is %s", (_, cluster, option, isReplaced) => {
    const world = {
      clusters: [cluster, prod("b"), prod("c")],
      bindings: [available("a"), available("b")],
      option,
    };
    expect(looked(world, [0, 300 * S]).changes).toMatchObject({ unschedule: isReplaced ? "a" : "" });
  });
  it("is not health with PickAll: nothing would take the place of a cluster that is not heard of", () => {
    const policy: PlacementPolicy = { placementType: "PickAll" };
    const world = {
      clusters: [lost("a"), prod("b"), prod("c")],
      bindings: ["a", "b", "c"].map(available),
      policy,
    };
    expect(looked(world, [0, 300 * S]).changes).toEqual(NOTHING);
  });
  it("is nothing of PickFixed, nor without the option", () => {
    expect(executionSettings({ placementType: "PickFixed", requiredDuringExecution: {} })).toBeUndefined();
    expect(executionSettings({ placementType: "PickN" })).toBeUndefined();
    expect(executionSettings(undefined)).toBeUndefined();
  });
  it("is not health while most clusters are not heard of: then it is the hub that is cut off", () => {
    const clusters = [lost("a"), lost("b"), lost("c"), prod("d"), prod("e")];
    const world = { clusters, bindings: [available("a"), available("b")] };
    expect(looked(world, [0, 300 * S]).changes).toEqual(NOTHING);
  });
});

describe("replacements", () => {
  const clusters = [test("a"), test("b"), test("c"), ...["w", "x", "y", "z"].map(prod)];
  const bindings = ["a", "b", "c", "z"].map(available);

  it("are as many at once as the budget says, those that fail for longest first", () => {
    const first = looked({ clusters: [prod("a"), test("b"), ...clusters.slice(2)], bindings }, [0]).memory;
    const all = (option: RequiredDuringExecution) =>
      looked({ clusters, bindings, option }, [1 * S, 400 * S], first).changes;
    expect(all({})).toEqual({ create: "y", patch: "", unschedule: "b" });
    expect(all({ maxReplacements: 2 })).toMatchObject({ unschedule: "b c" });
    expect(all({ maxReplacements: "30%" })).toMatchObject({ unschedule: "b c" });
    expect(all({ maxReplacements: 0 })).toEqual(NOTHING);
  });
  it("wait for those that are on their way", () => {
    const arriving = [...bindings.slice(0, 3), fakeBinding("z")];
    expect(looked({ clusters, bindings: arriving }, [0, 400 * S]).changes).toEqual(NOTHING);
    const leaving = [...bindings, fakeBinding("y", { state: "Unscheduled" })];
    expect(looked({ clusters, bindings: leaving, count: 4 }, [0, 400 * S]).changes).toEqual(NOTHING);
  });
  it("are no more often than the interval says", () => {
    const { memory } = looked({ clusters, bindings }, [0, 300 * S]);
    const next = { clusters, bindings: ["b", "c", "y", "z"].map(available) };
    expect(looked(next, [359 * S], memory).changes).toEqual(NOTHING);
    expect(looked(next, [359 * S], memory).againInMs).toBeLessThanOrEqual(60 * S);
    expect(looked(next, [360 * S], memory).changes).toMatchObject({ unschedule: "b" });
  });
});

describe("a cluster that was replaced", () => {
  it("is not picked again before it has met the policy for the time given", () => {
    const clusters = [test("a"), prod("b")];
    const { memory } = looked({ clusters, bindings: [available("a")] }, [0, 300 * S]);
    const back = { clusters: [prod("a"), prod("b")], bindings: [available("b")], count: 2 };
    const early = looked(back, [400 * S, 699 * S], memory);
    expect(early.changes).toEqual(NOTHING);
    expect(early.againInMs).toBe(1 * S);
    expect(early.result.outcome.targetClusters.at(-1)).toEqual({
      clusterName: "a",
      selected: false,
      reason: "it was replaced, and has not met the policy for long enough since",
    });
    expect(looked(back, [400 * S, 700 * S], memory).changes).toEqual({ ...NOTHING, create: "a" });
  });
});
