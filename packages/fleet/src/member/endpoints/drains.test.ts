import { describe, expect, it } from "vitest";
import type {
  DrainedCluster,
  InternalMemberCluster,
} from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Session } from "../session.ts";
import { changedClusters, Drains } from "./drains.ts";

/** Two services of one slice each: "one" of cluster a, "two" of cluster b. */
const session = {
  cluster: "c",
  here: { slices: { store: { byIndex: () => [] } } },
  fleet: {
    importedServices: {
      list: () =>
        ["a", "b"].map((cluster) => ({
          spec: { service: { namespace: "work", name: cluster }, clusters: [{ cluster, ports: [] }] },
        })),
    },
    sliceImports: {
      byIndex: (_: string, service: string) => [{ metadata: { name: service === "work/a" ? "one" : "two" } }],
    },
  },
} as unknown as Session;

function internalMember(asked: readonly DrainedCluster[], done: readonly DrainedCluster[] = []) {
  const after: InternalMemberCluster = {
    metadata: { name: "c" },
    spec: { state: "Join", drained: [...asked] },
    status: { drained: [...done] },
  };
  return { key: "c" as never, before: undefined, after };
}
const soft = (cluster: string): DrainedCluster => ({ cluster, mode: "Soft" });

describe("a drain that a member is asked for", () => {
  it("concerns the slices of all services of the cluster, and is carried out after a pass for each", () => {
    const drains = new Drains(session);
    drains.follow(internalMember([]));
    expect(drains.follow(internalMember([soft("a")]))).toEqual(["one"]);
    expect(drains.isCarriedOut([soft("a")])).toBe(false);
    drains.passed(objectKey(undefined, "one"), drains.revision);
    expect(drains.isCarriedOut([soft("a")])).toBe(true);
  });

  it("is not applied by a reconcile that began before the request", () => {
    const drains = new Drains(session);
    drains.follow(internalMember([]));
    const before = drains.revision;
    drains.follow(internalMember([soft("a")]));
    drains.passed(objectKey(undefined, "one"), before);
    expect(drains.isCarriedOut([soft("a")])).toBe(false);
  });

  it("concerns nothing new if only other fields of the InternalMemberCluster change", () => {
    const drains = new Drains(session);
    drains.follow(internalMember([soft("a")]));
    expect(drains.follow(internalMember([soft("a")], [soft("a")]))).toEqual([]);
  });

  it("was carried out by the agent before this one, as far as it said so", () => {
    const drains = new Drains(session);
    expect(drains.follow(internalMember([soft("a"), soft("b")], [soft("a")]))).toEqual(["two"]);
    expect(drains.isCarriedOut([soft("a"), soft("b")])).toBe(false);
  });

  it("is reported at once where no slice is concerned", () => {
    const drains = new Drains(session);
    let calls = 0;
    drains.onDone = () => (calls += 1);
    drains.follow(internalMember([soft("z")]));
    expect(calls).toBe(1);
    expect(drains.isCarriedOut([soft("z")])).toBe(true);
  });

  it("changes with its mode, and when it ends", () => {
    expect(changedClusters([soft("a"), soft("b")], [soft("a"), { cluster: "b", mode: "Hard" }])).toEqual(
      new Set(["b"]),
    );
    expect(changedClusters([soft("a")], [])).toEqual(new Set(["a"]));
  });
});
