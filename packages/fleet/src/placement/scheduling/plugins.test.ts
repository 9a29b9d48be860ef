import { describe, expect, it } from "vitest";
import type {
  ClusterSelectorTerm,
  PlacementPolicy,
  PreferredClusterSelector,
  PropertyExpression,
  Toleration,
  TopologySpreadConstraint,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { type ClusterFacts, clusterFacts, propertyOf } from "./cluster.ts";
import {
  changesIn,
  fakeBinding,
  fakeCluster,
  type FakeMember,
  fakeMember,
  scheduled,
} from "./cluster.fake.ts";
import { compilePolicy } from "./policy.ts";
import type { Schedule } from "./schedule.ts";
import { Spread } from "./spread.ts";

function requires(...clusterSelectorTerms: ClusterSelectorTerm[]): PlacementPolicy {
  return {
    affinity: {
      clusterAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { clusterSelectorTerms } },
    },
  };
}
function isPicked(policy: PlacementPolicy, cluster: FakeMember): boolean {
  return scheduled(policy, [fakeCluster("a", cluster)]).create.length === 1;
}
const refusal = (policy: PlacementPolicy, cluster: FakeMember): string | undefined =>
  scheduled(policy, [fakeCluster("a", cluster)]).outcome.targetClusters.find((it) => !it.selected)?.reason;

const CPU = "resources.kubernetes-fleet.io/available-cpu";
const property = (
  operator: PropertyExpression["operator"],
  value: string,
  name = "gpu",
): ClusterSelectorTerm => ({
  propertySelector: { matchExpressions: [{ name, operator, values: [value] }] },
});

describe("required terms", () => {
  const prod = { labelSelector: { matchLabels: { env: "prod" } } };
  it.each([
    ["a label", [prod], { labels: { env: "prod" } }, { labels: { env: "test" } }],
    ["any of several terms", [prod, property("Ge", "1")], { properties: { gpu: "1" } }, {}],
    [
      "both the labels and the properties of a term",
      [{ ...prod, ...property("Ge", "1") }],
      { labels: { env: "prod" }, properties: { gpu: "1" } },
      { labels: { env: "prod" } },
    ],
    ["Gt", [property("Gt", "2")], { properties: { gpu: "3" } }, { properties: { gpu: "2" } }],
    ["Ge", [property("Ge", "2")], { properties: { gpu: "2" } }, { properties: { gpu: "1999m" } }],
    ["Lt", [property("Lt", "2")], { properties: { gpu: "1" } }, { properties: { gpu: "2" } }],
    ["Le", [property("Le", "2")], { properties: { gpu: "2000m" } }, { properties: { gpu: "2001m" } }],
    ["Eq", [property("Eq", "1Ki")], { properties: { gpu: "1024" } }, { properties: { gpu: "1k" } }],
    ["Ne", [property("Ne", "1k")], { properties: { gpu: "1Ki" } }, { properties: { gpu: "1000" } }],
    ["a property that is there", [property("Ne", "1")], { properties: { gpu: "2" } }, {}],
    [
      "a property that is a quantity",
      [property("Ne", "1")],
      { properties: { gpu: "2" } },
      { properties: { gpu: "v2" } },
    ],
    [
      "the usage of resources",
      [property("Ge", "2", CPU)],
      { available: { cpu: "2" } },
      { properties: { [CPU]: "2" } },
    ],
    [
      "nothing that every object has",
      [property("Ne", "1", "gpu")],
      { properties: { gpu: "0" } },
      { properties: {} },
    ],
  ])("ask for %s", (_, terms, match, other) => {
    expect(isPicked(requires(...terms), match)).toBe(true);
    expect(isPicked(requires(...terms), other)).toBe(false);
  });
  it("of which there are none ask for nothing", () => {
    expect(isPicked(requires(), {})).toBe(true);
  });
  it.each([
    [[prod], {}, "its labels do not match env=prod"],
    [[property("Ge", "2")], {}, "it has no value of property gpu"],
    [[property("Ge", "2")], { properties: { gpu: "1" } }, "property gpu is not Ge 2"],
    [[prod, prod], {}, "it matches none of the 2 required terms"],
  ])("say what a cluster lacks (%#)", (terms, cluster, why) => {
    expect(refusal(requires(...terms), cluster)).toBe(`ClusterAffinity: ${why}`);
  });
});

describe("the properties of a cluster", () => {
  it.each([
    ["total", "capacity"],
    ["allocatable", "allocatable"],
    ["available", "available"],
  ])("%s are those of resourceUsage.%s", (name, part) => {
    const member = fakeMember("a");
    member.status = { ...member.status, resourceUsage: { [part]: { memory: "1Gi" } } };
    expect(propertyOf(member, `resources.kubernetes-fleet.io/${name}-memory`)).toBe("1Gi");
  });
  it("do not include what JavaScript objects inherit", () => {
    expect(propertyOf(fakeMember("a"), "constructor")).toBeUndefined();
    expect(propertyOf(fakeMember("a", { available: {} }), `${CPU.slice(0, -3)}constructor`)).toBeUndefined();
    expect(clusterFacts(fakeMember("a"), { heartbeatAgeMs: 0 }).property("toString")).toBeUndefined();
  });
});

describe("preferred terms", () => {
  const sorted = (sortOrder: "Ascending" | "Descending", weight: number): PreferredClusterSelector => ({
    weight,
    preference: { propertySorter: { name: "gpu", sortOrder } },
  });
  const scoresOf = (preferences: PreferredClusterSelector[], clusters: readonly ClusterFacts[]): number[] => {
    const score = compilePolicy({
      placementType: "PickN",
      numberOfClusters: 1,
      affinity: { clusterAffinity: { preferredDuringSchedulingIgnoredDuringExecution: preferences } },
    }).scorerOf(clusters);
    return clusters.map((it) => score(it));
  };
  const gpus = ["0", "1", "4"].map((gpu, at) => fakeCluster(`c${at}`, { properties: { gpu } }));
  const none = fakeCluster("none");
  const labelled: PreferredClusterSelector = {
    weight: -20,
    preference: { labelSelector: { matchLabels: { env: "prod" } } },
  };
  it.each([
    ["Descending is linear from the least value to the largest", [sorted("Descending", 10)], [0, 3, 10, 0]],
    ["Ascending is the other way round", [sorted("Ascending", 10)], [10, 8, 0, 0]],
    [
      "halves are rounded away from 0, with a negative weight, too",
      [sorted("Descending", -10)],
      [0, -3, -10, 0],
    ],
    ["weights add up", [sorted("Descending", 10), sorted("Descending", 10)], [0, 6, 20, 0]],
  ])("%s", (_, preferences, scores) => {
    expect(scoresOf(preferences, [...gpus, none])).toEqual(scores);
  });
  it("give 0 where all values are the same", () => {
    const same = ["a", "b"].map((it) => fakeCluster(it, { properties: { gpu: "5" } }));
    expect(scoresOf([sorted("Ascending", 10)], same)).toEqual([0, 0]);
  });
  it("give their full weight for labels", () => {
    expect(scoresOf([labelled], [none, fakeCluster("prod", { labels: { env: "prod" } })])).toEqual([0, -20]);
  });
  it("give the sorted weight only where the labels match", () => {
    const [least, most] = [
      fakeCluster("least", { properties: { gpu: "0" } }),
      fakeCluster("most", { properties: { gpu: "2" }, labels: { env: "prod" } }),
    ];
    const preference = { ...sorted("Descending", 8).preference, ...labelled.preference };
    expect(scoresOf([{ weight: 8, preference }], [least, most])).toEqual([0, 8]);
    expect(
      scoresOf([{ weight: 8, preference }], [fakeCluster("x", { properties: { gpu: "9" } }), least]),
    ).toEqual([0, 0]);
  });
});

describe("taints", () => {
  const taint = { key: "k", value: "v", effect: "NoSchedule" as const };
  it.each<[string, Toleration[], boolean]>([
    ["nothing", [], false],
    ["its key and value", [{ key: "k", value: "v" }], true],
    [
      "its key and value, and its effect",
      [{ key: "k", operator: "Equal", value: "v", effect: "NoSchedule" }],
      true,
    ],
    ["its key and another value", [{ key: "k", value: "w" }], false],
    ["another key", [{ key: "l", value: "v" }], false],
    ["its key, by Exists", [{ key: "k", operator: "Exists" }], true],
    ["another key, by Exists", [{ key: "l", operator: "Exists" }], false],
    ["everything", [{ operator: "Exists" }], true],
  ])("keep placements away that tolerate %s: %#", (_, tolerations, isIn) => {
    expect(isPicked({ tolerations }, { taints: [taint] })).toBe(isIn);
  });
  it("must all be tolerated", () => {
    const taints = [taint, { key: "other", effect: "NoSchedule" as const }];
    expect(refusal({ tolerations: [{ key: "k", operator: "Exists" }] }, { taints })).toBe(
      "TaintToleration: its taint other:NoSchedule is not tolerated",
    );
  });
  it("do not count for PickFixed", () => {
    expect(isPicked({ placementType: "PickFixed", clusterNames: ["a"] }, { taints: [taint] })).toBe(true);
  });
});

describe("topology spread", () => {
  const zones = (...all: string[]): ClusterFacts[] =>
    all.map((zone, at) => fakeCluster(`${zone}${at}`, zone === "none" ? {} : { labels: { zone } }));
  const pickN = (
    count: number,
    ...topologySpreadConstraints: TopologySpreadConstraint[]
  ): PlacementPolicy => ({
    placementType: "PickN",
    numberOfClusters: count,
    topologySpreadConstraints,
  });
  const byZone: TopologySpreadConstraint = { topologyKey: "zone" };
  const picks = (result: Schedule): string => (changesIn(result) as { create: string }).create;

  it("goes round the domains, one pick at a time", () => {
    expect(picks(scheduled(pickN(3, byZone), zones("x", "x", "x", "y", "z")))).toBe("x2 y3 z4");
    expect(picks(scheduled(pickN(4, byZone), zones("x", "x", "x", "y", "y")))).toBe("x1 x2 y3 y4");
  });
  it("stops at the skew, which is 1 unless it says otherwise", () => {
    const result = scheduled(pickN(4, byZone), zones("x", "x", "x", "y"));
    expect(picks(result)).toBe("x1 x2 y3");
    expect(result.outcome.condition.status).toBe("False");
    expect(result.outcome.targetClusters.at(-1)).toEqual({
      clusterName: "x0",
      selected: false,
      clusterScore: { affinityScore: 0, priorityScore: -1 },
      reason: "TopologySpreadConstraints: zone=x would have a skew of 2, more than 1",
    });
    expect(picks(scheduled(pickN(4, { ...byZone, maxSkew: 2 }), zones("x", "x", "x", "y")))).toBe(
      "x0 x1 x2 y3",
    );
  });
  it("goes past the skew with ScheduleAnyway, where nothing else is left", () => {
    const anyway: TopologySpreadConstraint = { ...byZone, whenUnsatisfiable: "ScheduleAnyway" };
    const result = scheduled(pickN(4, anyway), zones("x", "x", "x", "y"));
    expect(picks(result)).toBe("x0 x1 x2 y3");
    const last = result.create.find((it) => it.spec.targetCluster === "x0");
    expect(last?.spec.clusterDecision.clusterScore).toEqual({ affinityScore: 0, priorityScore: -1001 });
  });
  it("counts what is placed already, and not what has an older policy", () => {
    const all = zones("x", "x", "y");
    expect(picks(scheduled(pickN(2, byZone), all, [fakeBinding("x0")]))).toBe("y2");
    const old = fakeBinding("x0", { schedulingPolicySnapshotName: "older" });
    expect(changesIn(scheduled(pickN(2, byZone), all, [old]))).toEqual({
      create: "y2",
      patch: "x0",
      unschedule: "",
    });
  });
  it("counts domains in which no cluster is suitable", () => {
    const tainted = fakeCluster("w", { labels: { zone: "w" }, taints: [{ key: "k", effect: "NoSchedule" }] });
    expect(picks(scheduled(pickN(3, byZone), [...zones("x", "x"), tainted]))).toBe("x1");
  });
  it("has no say about clusters without the label", () => {
    expect(picks(scheduled(pickN(4, byZone), zones("none", "none", "none", "x", "x", "y")))).toBe(
      "none0 none1 none2 y5",
    );
    expect(picks(scheduled(pickN(3, byZone), zones("none", "none", "none")))).toBe("none0 none1 none2");
  });
  it("comes before affinity, and affinity before what was there", () => {
    const preferred = [{ weight: 10, preference: { labelSelector: { matchLabels: { zone: "x" } } } }];
    const affinity = { clusterAffinity: { preferredDuringSchedulingIgnoredDuringExecution: preferred } };
    const all = zones("x", "x", "y");
    expect(picks(scheduled({ ...pickN(2, byZone), affinity }, all))).toBe("x1 y2");
    const old = fakeBinding("y2", { schedulingPolicySnapshotName: "older" });
    expect(changesIn(scheduled({ ...pickN(1), affinity }, all, [old]))).toEqual({
      create: "x1",
      patch: "",
      unschedule: "y2",
    });
  });
  it.each([
    ["all are the same", { x: 1, y: 1 }, "x", -1],
    ["it alone has the fewest", { x: 0, y: 1 }, "x", 1],
    ["another has as few", { x: 0, y: 0, z: 1 }, "x", 0],
    ["it is between", { x: 1, y: 0, z: 2 }, "x", 0],
    ["it has the most", { x: 2, y: 0 }, "x", -1],
    ["it is the only domain", { x: 3 }, "x", 0],
  ])("scores the change of the skew: %s", (_, counts, zone, score) => {
    const clusters = Object.entries(counts).flatMap(([name, count]) =>
      Array.from({ length: count + 1 }, (__, at) => fakeCluster(`${name}${at}`, { labels: { zone: name } })),
    );
    const placed = new Set(
      Object.entries(counts).flatMap(([name, count]) =>
        Array.from({ length: count }, (__, at) => `${name}${at}`),
      ),
    );
    const spread = new Spread([{ ...byZone, maxSkew: 9 }], clusters, (it) => placed.has(it));
    expect(spread.judge(fakeCluster("new", { labels: { zone } })).score).toBe(score);
  });
});
