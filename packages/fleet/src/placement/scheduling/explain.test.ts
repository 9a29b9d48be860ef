import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  LATEST_SNAPSHOT_LABEL,
  NUMBER_OF_CLUSTERS_ANNOTATION,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import type {
  Placement,
  PlacementPolicy,
  ResourceBinding,
  SchedulingPolicySnapshot,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { planPolicySnapshot } from "../snapshots/policy.ts";
import { clusterFacts } from "./cluster.ts";
import { applied, fakeBinding, fakeCluster, fleetOf } from "./cluster.fake.ts";
import { explainChange, explainPlacement, type Explanation, type Placed } from "./explain.ts";
import { bindings, members, policies } from "./generate.fake.ts";
import { compilePolicy } from "./policy.ts";
import { schedule } from "./schedule.ts";
import { policyOf, snapshotInForce } from "./snapshot.ts";

function placementOf(policy: PlacementPolicy | undefined, generation = 1): Placement {
  return {
    metadata: { name: "p", generation },
    spec: { resourceSelectors: [], ...(policy === undefined ? {} : { policy }) },
  };
}

/** The policy snapshots as the hub leaves them for a placement. */
function snapshotsFor({
  placement,
  snapshots,
  bindings: present,
}: Omit<Placed, "clusters">): SchedulingPolicySnapshot[] {
  const { create, remove, unlabel, update } = planPolicySnapshot({ placement, snapshots, bindings: present });
  const kept = snapshots
    .filter((it) => !remove.includes(it))
    .map((it): SchedulingPolicySnapshot => {
      const { metadata } = it;
      if (unlabel.includes(it))
        return {
          ...it,
          metadata: { ...metadata, labels: { ...metadata.labels, [LATEST_SNAPSHOT_LABEL]: "false" } },
        };
      if (update?.snapshot !== it) return it;
      const annotations = Object.entries({ ...metadata.annotations, ...update.annotations });
      return {
        ...it,
        metadata: {
          ...metadata,
          labels: { ...metadata.labels, ...update.labels },
          annotations: Object.fromEntries(
            annotations.filter((entry): entry is [string, string] => entry[1] !== null),
          ),
        },
      };
    });
  return create === undefined ? kept : [...kept, create];
}

/** Schedules until nothing changes any more. */
function settle(placed: Placed): ResourceBinding[] {
  const snapshot = snapshotInForce(placed.snapshots);
  if (snapshot === undefined) throw new Error("no snapshot");
  const policy = policyOf(snapshot);
  let present = [...placed.bindings];
  for (let pass = 0; pass < 5; pass += 1) {
    const result = schedule({
      placement: { namespace: undefined, name: "p" },
      policy: compilePolicy(policy),
      snapshot: { name: snapshot.metadata.name, hash: snapshot.spec.policyHash },
      count: policy?.numberOfClusters ?? 0,
      clusters: placed.clusters,
      bindings: present,
    });
    present = applied(present, result, snapshot.metadata.name);
  }
  return present;
}

const placedOf = (all: readonly ResourceBinding[]): string[] => [
  ...new Set(
    all
      .filter((it) => it.metadata.deletionTimestamp === undefined && it.spec.state !== "Unscheduled")
      .map((it) => it.spec.targetCluster),
  ),
];
const changed = ({ clusters }: Explanation, change: "add" | "remove"): string[] =>
  clusters
    .filter((it) => it.change === change)
    .map((it) => it.cluster)
    .toSorted();

describe("what a change of the policy would move", () => {
  it("is what then moves, in 1,000 random fleets", () => {
    const cases = fc.record({ before: policies, after: policies, members, bindings });
    fc.assert(
      fc.property(cases, ({ before, after, members: all, bindings: some }) => {
        const clusters = fleetOf(...all.map((it) => clusterFacts(it, { heartbeatAgeMs: 0 })));
        const old = { placement: placementOf(before), snapshots: [], bindings: some, clusters };
        const snapshots = snapshotsFor(old);
        const live = some.filter((it) => it.metadata.deletionTimestamp === undefined);
        const now: Placed = { ...old, snapshots, bindings: settle({ ...old, snapshots, bindings: live }) };
        const next: Placed = { ...now, placement: placementOf(after, 2) };
        const reported = explainChange(next);
        const then = settle({ ...next, snapshots: snapshotsFor(next) });
        const [was, is] = [placedOf(now.bindings), placedOf(then)];
        expect(changed(reported, "add")).toEqual(is.filter((it) => !was.includes(it)).toSorted());
        expect(changed(reported, "remove")).toEqual(was.filter((it) => !is.includes(it)).toSorted());
        expect(reported.clusters.filter((it) => it.isPicked).map((it) => it.cluster)).toEqual(is.toSorted());
      }),
      { numRuns: 1000 },
    );
  });
});

describe("an explanation", () => {
  const zone = (name: string, more: object = {}) => fakeCluster(name, { labels: { zone: name }, ...more });
  const clusters = fleetOf(
    zone("a"),
    zone("b", { taints: [{ key: "k", effect: "NoSchedule" }] }),
    zone("c", { joined: "Unknown" }),
    zone("d"),
  );
  const pickOne: PlacementPolicy = { placementType: "PickN", numberOfClusters: 1 };
  const placed = (policy: PlacementPolicy, ...present: ResourceBinding[]): Placed => {
    const all = { placement: placementOf(policy), snapshots: [], bindings: present, clusters };
    return { ...all, snapshots: snapshotsFor({ ...all, bindings: [] }) };
  };
  const lines = (it: Explanation | undefined): string[] =>
    (it?.clusters ?? []).map(
      ({ cluster, isPicked, change, reason }) => `${cluster} ${isPicked} ${change}: ${reason}`,
    );

  it("names the clusters that are picked, and why each of the others is not", () => {
    const current = fakeBinding("a");
    expect(lines(explainPlacement(placed(pickOne, current)))).toEqual([
      "a true none: picked before",
      "d false none: other clusters score higher, or were picked before",
      "b false none: TaintToleration: its taint k:NoSchedule is not tolerated",
      "c false none: ClusterEligibility: the member agent has not joined the fleet",
    ]);
  });
  it("has the word of each plugin, also about clusters that stay although they would not be picked again", () => {
    const current = fakeBinding("b");
    const [first] = explainPlacement(placed(pickOne, current))?.clusters ?? [];
    expect(first?.plugins).toEqual([
      { plugin: "ClusterAffinity", passes: true },
      { plugin: "ClusterEligibility", passes: true },
      { plugin: "NamespaceAffinity", passes: true },
      { plugin: "TaintToleration", passes: false, reason: "its taint k:NoSchedule is not tolerated" },
      { plugin: "SamePlacementAffinity", passes: false, reason: "the placement has the cluster already" },
      { plugin: "TopologySpreadConstraints", passes: true },
    ]);
  });
  it("says of clusters that PickFixed does not name that it does not", () => {
    const fixed: PlacementPolicy = { placementType: "PickFixed", clusterNames: ["c", "d"] };
    const result = explainChange({ ...placed(pickOne), placement: placementOf(fixed) });
    expect(lines(result)).toEqual([
      "d true add: picked by the scheduling policy",
      "c false none: ClusterEligibility: the member agent has not joined the fleet",
      "a false none: the policy does not name it",
      "b false none: the policy does not name it",
    ]);
    expect(result.clusters[1]?.plugins).toEqual([
      { plugin: "ClusterEligibility", passes: false, reason: "the member agent has not joined the fleet" },
    ]);
  });
  it("shows what scaling moves, which makes no new policy snapshot", () => {
    const now = placed(pickOne, fakeBinding("d"));
    const result = explainChange({ ...now, placement: placementOf({ ...pickOne, numberOfClusters: 2 }, 2) });
    expect(result.policySnapshot).toBe(now.snapshots[0]?.metadata.name);
    expect(now.snapshots[0]?.metadata.annotations?.[NUMBER_OF_CLUSTERS_ANNOTATION]).toBe("1");
    expect(lines(result).slice(0, 2)).toEqual([
      "a true add: picked by the scheduling policy (affinity score 0, topology spread score 0)",
      "d true none: picked before",
    ]);
  });
  it("shows that what is required during execution picks no cluster afresh", () => {
    const now = placed(pickOne, fakeBinding("b"));
    const result = explainChange({
      ...now,
      placement: placementOf({ ...pickOne, requiredDuringExecution: {} }, 2),
    });
    expect(result.policySnapshot).toBe(now.snapshots[0]?.metadata.name);
    expect(result.clusters.filter((it) => it.change !== "none")).toEqual([]);
  });
  it("says which clusters will be replaced, and which stay because their MemberClusters are missing", () => {
    const [b, lost] = [fakeBinding("b"), fakeBinding("lost")];
    const required: PlacementPolicy = {
      ...pickOne,
      numberOfClusters: 2,
      requiredDuringExecution: { requirements: ["TaintToleration"], afterSeconds: 60 },
    };
    const result = explainPlacement({ ...placed(required, b, lost), isLost: (it) => it === "lost" });
    expect(lines(result).slice(0, 2)).toEqual([
      "b true none: picked before; it is replaced once it has not met the policy for 60 s",
      "lost true none: picked before; its MemberCluster is missing, so that it stays",
    ]);
  });
  it("is not there before the hub has seen the placement", () => {
    expect(explainPlacement({ ...placed(pickOne), snapshots: [] })).toBeUndefined();
  });
});
