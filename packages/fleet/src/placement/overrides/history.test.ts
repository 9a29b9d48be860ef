import { expect, it } from "vitest";
import type { ClusterResourceOverrideSnapshot } from "#api/placement.kubernetes-fleet.io/v1beta1/overrides.ts";
import { overrideHash, planHistory } from "./history.ts";

const spec = (value: number): ClusterResourceOverrideSnapshot["spec"]["overrideSpec"] => ({
  clusterResourceSelectors: [],
  policy: { overrideRules: [{ jsonPatchOverrides: [{ op: "add", path: "/spec", value }] }] },
});
const snapshot = (index: number, latest: string | undefined = "false"): ClusterResourceOverrideSnapshot => ({
  metadata: {
    name: `x-${index}`,
    labels: {
      "kubernetes-fleet.io/override-index": String(index),
      ...(latest === undefined ? {} : { "kubernetes-fleet.io/is-latest-snapshot": latest }),
    },
  },
  spec: { overrideSpec: spec(index), overrideHash: overrideHash(spec(index)) },
});
const plan = (value: number, ...snapshots: ClusterResourceOverrideSnapshot[]) => {
  const { create, label, remove } = planHistory(spec(value), snapshots);
  return {
    create,
    label: label.map(([it, to]) => `${it.metadata.name}=${to}`),
    remove: remove.map((it) => it.metadata.name),
  };
};

it("a new override gets the first snapshot", () => {
  expect(plan(0)).toEqual({ create: 0, label: [], remove: [] });
});
it("an unchanged override gets none", () => {
  expect(plan(1, snapshot(0), snapshot(1, "true"))).toEqual({ create: undefined, label: [], remove: [] });
});
it("a changed override gets the next, and the one before is no longer the latest", () => {
  expect(plan(2, snapshot(0), snapshot(1, "true"))).toEqual({ create: 2, label: ["x-1=false"], remove: [] });
});
it("an override that is as it was earlier gets a new snapshot: indexes only grow", () => {
  expect(plan(0, snapshot(0), snapshot(1, "true"))).toMatchObject({ create: 2 });
});
it("a pass that was stopped after the new snapshot is completed by the next one", () => {
  expect(plan(2, snapshot(1, "true"), snapshot(2, "true"))).toEqual({
    create: undefined,
    label: ["x-1=false"],
    remove: [],
  });
  expect(plan(2, snapshot(1), snapshot(2))).toEqual({ create: undefined, label: ["x-2=true"], remove: [] });
});
it("ten snapshots are kept, the oldest go", () => {
  const all = Array.from({ length: 11 }, (_, at) => snapshot(at, at === 10 ? "true" : "false"));
  expect(plan(10, ...all).remove).toEqual(["x-0"]);
  expect(plan(11, ...all)).toMatchObject({ create: 11, remove: ["x-1", "x-0"] });
});
