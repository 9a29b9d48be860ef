import { timestamp } from "@fairlead/kube/objects/conditions.ts";
import { describe, expect, it } from "vitest";
import {
  LATEST_SNAPSHOT_LABEL,
  NEXT_SNAPSHOT_DETECTED_ANNOTATION,
  NUMBER_OF_CLUSTERS_ANNOTATION,
  NUMBER_OF_RESOURCE_SNAPSHOTS_ANNOTATION,
  PARENT_PLACEMENT_LABEL,
  PLACEMENT_GENERATION_ANNOTATION,
  POLICY_INDEX_LABEL,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import type {
  Placement,
  PlacementPolicy,
  PlacementSpec,
  ResourceBinding,
  ResourceSnapshot,
  SchedulingPolicySnapshot,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type { SelectedObject } from "../selection/select.ts";
import { indexInName, nextIndex, surplus } from "./history.ts";
import { resourceHash, splitIntoParts } from "./parts.ts";
import { planPolicySnapshot, policyHash } from "./policy.ts";
import { planResourceSnapshot, type ResourcesPlan, resourceSnapshots } from "./resources.ts";

const NOW = Date.parse("2026-01-01T00:10:00Z");

function placement(spec: Partial<PlacementSpec> = {}, generation = 1): Placement {
  return { metadata: { name: "p", generation }, spec: { resourceSelectors: [], ...spec } };
}
function binding(snapshot: string, policy = ""): ResourceBinding {
  return {
    metadata: { name: "b" },
    spec: {
      state: "Bound",
      resourceSnapshotName: snapshot,
      schedulingPolicySnapshotName: policy,
      targetCluster: "c",
      clusterDecision: { clusterName: "c", selected: true, reason: "" },
    },
  };
}
const names = (objects: readonly { metadata: { name: string } }[]): string[] =>
  objects.map((it) => it.metadata.name);

describe("indexes of snapshots", () => {
  it.each([
    ["p-0", 0],
    ["p-12-snapshot", 12],
    ["p-12-3", undefined],
    ["p-x", undefined],
    ["q-1", undefined],
    ["", undefined],
  ])("in the name %s: %s", (name, expected) => {
    expect(indexInName(name, "p")).toBe(expected);
  });
  it("only grow", () => {
    expect(nextIndex([])).toBe(0);
    expect(nextIndex([3, -1, 1])).toBe(4);
  });
  it.each([
    [3, 10, 0],
    [10, 10, 1],
    [12, 10, 3],
    [2, 1, 2],
    [1, 0, 1],
  ])("of %s snapshots with a limit of %s, %s make room for one more", (count, limit, expected) => {
    expect(surplus(Array.from({ length: count }), limit)).toHaveLength(expected);
  });
});

describe("the policy snapshot", () => {
  const pickN = (numberOfClusters: number, rest: Partial<PlacementPolicy> = {}): PlacementPolicy => ({
    placementType: "PickN",
    numberOfClusters,
    ...rest,
  });
  /** What the API server has after a plan. */
  function after(
    of: Placement,
    snapshots: readonly SchedulingPolicySnapshot[],
    bindings: ResourceBinding[] = [],
  ) {
    const plan = planPolicySnapshot({ placement: of, snapshots, bindings });
    const kept = snapshots
      .filter((it) => !plan.remove.includes(it))
      .map((it) => {
        const labels = plan.unlabel.includes(it) ? { [LATEST_SNAPSHOT_LABEL]: "false" } : {};
        const update = plan.update?.snapshot === it ? plan.update : { labels: {}, annotations: {} };
        const annotations = Object.fromEntries(
          Object.entries({ ...it.metadata.annotations, ...update.annotations }).filter(
            ([, value]) => value !== null,
          ),
        ) as Record<string, string>;
        const metadata = {
          ...it.metadata,
          labels: { ...it.metadata.labels, ...labels, ...update.labels },
          annotations,
        };
        return { ...it, metadata };
      });
    return { plan, snapshots: [...kept, ...(plan.create === undefined ? [] : [plan.create])] };
  }
  const latest = (snapshots: readonly SchedulingPolicySnapshot[]): string[] =>
    names(snapshots.filter((it) => it.metadata.labels?.[LATEST_SNAPSHOT_LABEL] === "true"));

  it("is NAME-0 first, with labels, annotations and hash, and then nothing is to be written", () => {
    const first = after(placement({ policy: pickN(3) }), []);
    expect(first.snapshots).toEqual([
      {
        metadata: {
          name: "p-0",
          labels: {
            [PARENT_PLACEMENT_LABEL]: "p",
            [LATEST_SNAPSHOT_LABEL]: "true",
            [POLICY_INDEX_LABEL]: "0",
          },
          annotations: { [PLACEMENT_GENERATION_ANNOTATION]: "1", [NUMBER_OF_CLUSTERS_ANNOTATION]: "3" },
        },
        spec: {
          policy: { placementType: "PickN" },
          policyHash: Buffer.from(policyHash({ placementType: "PickN" })).toString("base64"),
        },
      },
    ]);
    expect(after(placement({ policy: pickN(3) }), first.snapshots).plan).toEqual({ remove: [], unlabel: [] });
  });
  it("stays when the number of clusters changes, which is not part of the hash", () => {
    expect(policyHash(pickN(1))).toBe(policyHash(pickN(2)));
    expect(policyHash(pickN(1))).not.toBe(policyHash(undefined));
    const first = after(placement({ policy: pickN(3) }), []);
    const scaled = after(placement({ policy: pickN(5) }, 2), first.snapshots);
    expect(names(scaled.snapshots)).toEqual(["p-0"]);
    expect(scaled.snapshots[0]?.metadata.annotations).toEqual({
      [PLACEMENT_GENERATION_ANNOTATION]: "2",
      [NUMBER_OF_CLUSTERS_ANNOTATION]: "5",
    });
    expect(after(placement({ policy: pickN(5) }, 2), scaled.snapshots).plan.update).toBeUndefined();
  });
  it("of a placement without a policy has none, and says the generation that it stands for", () => {
    const first = after(placement(), []);
    expect(first.snapshots[0]?.spec.policy).toBeUndefined();
    expect(after(placement({}, 2), first.snapshots).plan.update?.annotations).toEqual({
      [PLACEMENT_GENERATION_ANNOTATION]: "2",
    });
  });
  it("is a new one for a new policy, also for one that was there before", () => {
    const tolerations = [{ key: "a" }];
    let state = after(placement({ policy: pickN(1) }), []);
    state = after(placement({ policy: pickN(1, { tolerations }) }, 2), state.snapshots);
    expect(names(state.plan.unlabel)).toEqual(["p-0"]);
    state = after(placement({ policy: pickN(1) }, 3), state.snapshots);
    expect(names(state.snapshots)).toEqual(["p-0", "p-1", "p-2"]);
    expect(latest(state.snapshots)).toEqual(["p-2"]);
  });
  it("keeps the history within its limit: the oldest go before a new one is made", () => {
    let state: ReturnType<typeof after> | undefined;
    for (const generation of [1, 2, 3, 4])
      state = after(
        placement(
          { policy: pickN(1, { tolerations: [{ key: `${generation}` }] }), revisionHistoryLimit: 2 },
          generation,
        ),
        state?.snapshots ?? [],
      );
    expect(names(state?.snapshots ?? [])).toEqual(["p-2", "p-3"]);
    const one = after(placement({ revisionHistoryLimit: 1 }, 5), state?.snapshots ?? []);
    expect(names(one.plan.remove)).toEqual(["p-2", "p-3"]);
    expect(names(one.snapshots)).toEqual(["p-4"]);
  });
  it("is labelled again if it lost its label, and others lose theirs", () => {
    const first = after(placement(), []).snapshots[0]!;
    const relabelled = (value: string) => ({
      ...first,
      metadata: { ...first.metadata, labels: { ...first.metadata.labels, [LATEST_SNAPSHOT_LABEL]: value } },
    });
    expect(latest(after(placement(), [relabelled("false")]).snapshots)).toEqual(["p-0"]);
    const older = {
      ...first,
      metadata: {
        ...first.metadata,
        name: "p-x",
        labels: { ...first.metadata.labels, [POLICY_INDEX_LABEL]: "x" },
      },
    };
    expect(latest(after(placement(), [older, first]).snapshots)).toEqual(["p-0"]);
  });
  it("does not take the index of a lost snapshot that bindings name", () => {
    expect(after(placement(), [], [binding("", "p-7")]).snapshots[0]?.metadata.name).toBe("p-8");
  });
});

function selected(name: string, { bytes = 100, digest = name } = {}): SelectedObject {
  const json = JSON.stringify({ apiVersion: "v1", kind: "ConfigMap", metadata: { name } });
  return {
    id: { version: "v1", kind: "ConfigMap", name },
    content: { json, bytes, digest, isEnvelope: false },
  };
}

describe("the parts of a resource snapshot", () => {
  const KIB = 1024;
  it.each([
    [[], [0]],
    [[100, 100], [2]],
    [[400 * KIB, 400 * KIB], [2]],
    [
      [400 * KIB, 400 * KIB + 1],
      [1, 1],
    ],
    [
      [900 * KIB, 10],
      [1, 1],
    ],
    [
      [10, 1300 * KIB, 10],
      [1, 1, 1],
    ],
  ])("hold at most 800 KiB each: objects of %j bytes in parts of %j", (sizes, expected) => {
    const objects = sizes.map((bytes, at) => selected(`o${at}`, { bytes }));
    expect(splitIntoParts(objects).map((it) => it.length)).toEqual(expected);
    expect(splitIntoParts(objects).flat()).toEqual(objects);
  });
  it("have names, labels and annotations as in KubeFleet, and the master is written last", () => {
    const objects = ["a", "b", "c"].map((it) => selected(it, { bytes: 500 * KIB }));
    const parts = resourceSnapshots(placement({}, 4), { index: 2, hash: "h", objects });
    expect(
      parts.map(({ metadata: { name, labels, annotations } }) => ({ name, labels, annotations })),
    ).toEqual([
      {
        name: "p-2-0",
        labels: { "kubernetes-fleet.io/parent-CRP": "p", "kubernetes-fleet.io/resource-index": "2" },
        annotations: { "kubernetes-fleet.io/subindex-of-resource-snapshot": "0" },
      },
      {
        name: "p-2-1",
        labels: { "kubernetes-fleet.io/parent-CRP": "p", "kubernetes-fleet.io/resource-index": "2" },
        annotations: { "kubernetes-fleet.io/subindex-of-resource-snapshot": "1" },
      },
      {
        name: "p-2-snapshot",
        labels: {
          "kubernetes-fleet.io/parent-CRP": "p",
          "kubernetes-fleet.io/resource-index": "2",
          "kubernetes-fleet.io/is-latest-snapshot": "true",
        },
        annotations: {
          "kubernetes-fleet.io/resource-hash": "h",
          "kubernetes-fleet.io/number-of-resource-snapshots": "3",
          "kubernetes-fleet.io/number-of-enveloped-object": "0",
          "kubernetes-fleet.io/CRP-generation": "4",
        },
      },
    ]);
    expect(parts.flatMap((it) => names(it.spec.selectedResources))).toEqual(["b", "c", "a"]);
  });
  it("of nothing selected are one empty master", () => {
    const parts = resourceSnapshots(placement(), { index: 0, hash: "h", objects: [] });
    expect(names(parts)).toEqual(["p-0-snapshot"]);
    expect(parts[0]?.spec.selectedResources).toEqual([]);
  });
  it("have a hash that changes with each content, kind, name and version", () => {
    const a = selected("a");
    const hashes = [
      [],
      [a],
      [a, selected("b")],
      [selected("a", { digest: "other" })],
      [{ ...a, id: { ...a.id, version: "v2" } }],
      [{ ...a, id: { ...a.id, kind: "Secret" } }],
      [{ ...a, id: { ...a.id, namespace: "n" } }],
    ].map(resourceHash);
    expect(new Set(hashes).size).toBe(hashes.length);
    expect(resourceHash([a])).toBe(resourceHash([selected("a")]));
  });
});

describe("the resource snapshot", () => {
  const made = (index: number, hash: string, { atMs = NOW - 3_600_000, generation = 1, parts = 1 } = {}) => {
    const objects = Array.from({ length: parts }, (_, at) => selected(`${at}`, { bytes: 800 * 1024 }));
    return resourceSnapshots(placement({}, generation), { index, hash, objects }).map((it) => ({
      ...it,
      metadata: { ...it.metadata, creationTimestamp: timestamp(atMs) },
    }));
  };
  const older = (snapshot: ResourceSnapshot): ResourceSnapshot => ({
    ...snapshot,
    metadata: {
      ...snapshot.metadata,
      labels: { ...snapshot.metadata.labels, [LATEST_SNAPSHOT_LABEL]: "false" },
    },
  });
  const noted = (snapshot: ResourceSnapshot, atMs: number): ResourceSnapshot => ({
    ...snapshot,
    metadata: {
      ...snapshot.metadata,
      annotations: { ...snapshot.metadata.annotations, [NEXT_SNAPSHOT_DETECTED_ANNOTATION]: timestamp(atMs) },
    },
  });
  const plan = (
    snapshots: readonly ResourceSnapshot[],
    hash: string,
    rest: {
      readonly of?: Placement;
      readonly bindings?: readonly ResourceBinding[];
      readonly awaited?: readonly number[];
    } = {},
  ): ResourcesPlan =>
    planResourceSnapshot({
      placement: rest.of ?? placement(),
      snapshots,
      bindings: rest.bindings ?? [],
      awaited: rest.awaited ?? [],
      hash,
      pace: { minIntervalMs: 30_000, collectMs: 15_000 },
      nowMs: NOW,
    });

  it("is made at once if none exists, and stays while the content does", () => {
    expect(plan([], "a")).toEqual({ remove: [], unlabel: [], create: 0 });
    expect(plan(made(0, "a"), "a")).toEqual({ remove: [], unlabel: [] });
  });
  it("is made at once for a changed placement; if its content stays, it takes over the generation", () => {
    const of = placement({}, 2);
    expect(plan(made(0, "a", { atMs: NOW }), "b", { of })).toMatchObject({ create: 1 });
    expect(plan(made(0, "a"), "a", { of }).update?.annotations).toEqual({
      [PLACEMENT_GENERATION_ANNOTATION]: "2",
      [NEXT_SNAPSHOT_DETECTED_ANNOTATION]: null,
    });
  });
  it.each<[string, number, number | undefined, number]>([
    ["a change seen now, of an old snapshot, is collected for 15 s", 3600, undefined, 15],
    ["a change seen now waits until 30 s after the last snapshot", 5, undefined, 25],
    ["a change that was collected, of an old snapshot, is due", 3600, 15, 0],
    ["a change that was collected waits until 30 s after the last snapshot", 20, 18, 10],
    ["a change noted ahead of the clock counts as seen now", 3600, -3600, 15],
    ["a snapshot made ahead of the clock counts as made now", -3600, undefined, 30],
    ["a snapshot made ahead of the clock counts as made when the change was noted", -3600, 20, 10],
  ])("%s", (_, ageSeconds, notedSeconds, waitSeconds) => {
    const [snapshot] = made(0, "a", { atMs: NOW - ageSeconds * 1000 });
    const known = notedSeconds === undefined ? snapshot! : noted(snapshot!, NOW - notedSeconds * 1000);
    const found = plan([known], "b");
    if (waitSeconds === 0) expect(found).toMatchObject({ create: 1 });
    else expect(found.waitMs).toBe(waitSeconds * 1000);
  });
  it("notes since when a change waits, once", () => {
    const [snapshot] = made(0, "a");
    expect(plan([snapshot!], "b").update?.annotations).toEqual({
      [NEXT_SNAPSHOT_DETECTED_ANNOTATION]: timestamp(NOW),
    });
    expect(plan([noted(snapshot!, NOW - 5000)], "b").update).toBeUndefined();
  });
  it("forgets a change that was reverted", () => {
    const [snapshot] = made(0, "a");
    expect(plan([noted(snapshot!, NOW - 5000)], "a").update?.annotations).toMatchObject({
      [NEXT_SNAPSHOT_DETECTED_ANNOTATION]: null,
    });
  });
  it("gets a new index for content that an older snapshot had", () => {
    const [first] = made(0, "a");
    expect(plan([older(first!), ...made(1, "b")], "a", { of: placement({}, 2) })).toMatchObject({
      create: 2,
    });
  });
  it("is made again, under a new index, if it was lost or a part of it was", () => {
    expect(plan([], "a", { bindings: [binding("p-4-snapshot")] })).toMatchObject({ create: 5 });
    const [part, ...others] = made(3, "a", { parts: 3 });
    expect(part?.metadata.annotations?.[NUMBER_OF_RESOURCE_SNAPSHOTS_ANNOTATION]).toBeUndefined();
    expect(plan(others, "a")).toMatchObject({ create: 4 });
    expect(plan([part!, ...others], "a").create).toBeUndefined();
  });
  it("leaves one latest: others lose the label before it is made, or if it stays", () => {
    const two = [...made(0, "a"), ...made(1, "b")];
    expect(names(plan(two, "b").unlabel)).toEqual(["p-0-snapshot"]);
    const changed = plan(two, "c", { of: placement({}, 2) });
    expect(names(changed.unlabel)).toEqual(["p-0-snapshot", "p-1-snapshot"]);
    expect(plan([older(made(0, "a")[0]!)], "a").update?.labels).toEqual({ [LATEST_SNAPSHOT_LABEL]: "true" });
  });
  it("keeps the history within its limit, with all parts, but what bindings still have or update runs are about to give", () => {
    const of = placement({ revisionHistoryLimit: 2 }, 2);
    const all = [
      ...made(0, "a", { parts: 2 }).map(older),
      ...made(1, "b").map(older),
      ...made(2, "c", { parts: 2 }),
    ];
    expect(names(plan(all, "d", { of }).remove)).toEqual(["p-0-0", "p-0-snapshot", "p-1-snapshot"]);
    const bindings = [binding("p-0-snapshot")];
    expect(names(plan(all, "d", { of, bindings }).remove)).toEqual(["p-1-snapshot"]);
    expect(names(plan(all, "d", { of, bindings, awaited: [1] }).remove)).toEqual([]);
  });
  it("removes parts that a stopped hub left behind without their master", () => {
    const [orphan] = made(1, "b", { parts: 2 });
    const found = plan([...made(0, "a"), orphan!], "b", { of: placement({}, 2) });
    expect(names(found.remove)).toEqual(["p-1-0"]);
    expect(found.create).toBe(2);
  });
});
