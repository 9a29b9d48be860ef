import * as fc from "fast-check";
import { expect, it } from "vitest";
import { sameJson } from "@fairlead/base/json.ts";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type {
  PlacementPolicy,
  ResourceBinding,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { type ClusterFacts, clusterFacts } from "#placement/scheduling/cluster.ts";
import { applied, fakeCluster, fleetOf } from "#placement/scheduling/cluster.fake.ts";
import { members, policies } from "#placement/scheduling/generate.fake.ts";
import { compilePolicy } from "#placement/scheduling/policy.ts";
import { schedule, type Schedule } from "#placement/scheduling/schedule.ts";
import { concerns } from "./triggers.ts";

function scheduledOn(
  policy: PlacementPolicy | undefined,
  namespace: string | undefined,
  all: readonly MemberCluster[],
  bindings: readonly ResourceBinding[],
): Schedule {
  return schedule({
    placement: { namespace, name: "p" },
    policy: compilePolicy(policy),
    snapshot: { name: "p-1", hash: "" },
    count: policy?.numberOfClusters ?? 0,
    clusters: fleetOf(...all.map((it) => clusterFacts(it, { heartbeatAgeMs: 0 }))),
    bindings,
  });
}

const factsIn = (all: readonly MemberCluster[], name: string): ClusterFacts | undefined => {
  const found = all.find((it) => it.metadata.name === name);
  return found === undefined ? undefined : clusterFacts(found, { heartbeatAgeMs: 0 });
};
const standing = (it: ClusterFacts | undefined): object | undefined =>
  it && { ...it, namespaces: it.namespaces && [...it.namespaces], property: undefined };

it("a change of a cluster that does not concern a placement, and has none of its bindings, moves nothing, in 1,000 random fleets", () => {
  const cases = fc.record({
    policy: policies,
    before: members,
    after: members,
    namespace: fc.constantFrom(undefined, "shop"),
  });
  let skipped = 0;
  fc.assert(
    fc.property(cases, ({ policy, before, after, namespace }) => {
      const first = scheduledOn(policy, namespace, before, []);
      const bindings = applied([], first, "p-1");
      const isFulfilled = first.outcome.condition.status === "True";
      const known = { namespace, policy: compilePolicy(policy), isFulfilled, isContinuous: false };
      const names = new Set([...before, ...after].map((it) => it.metadata.name));
      for (const name of names) {
        const [was, is] = [factsIn(before, name), factsIn(after, name)];
        const isGone = is === undefined || is.isLeaving;
        const isUsageOnly = was !== undefined && is !== undefined && sameJson(standing(was), standing(is));
        if (isGone && bindings.some((it) => it.spec.targetCluster === name)) continue;
        if (concerns({ name, before: was, after: is, isUsageOnly }, known)) continue;
        skipped += 1;
        const changed = [
          ...before.filter((it) => it.metadata.name !== name),
          ...after.filter((it) => it.metadata.name === name),
        ];
        const { create, patch, unschedule } = scheduledOn(policy, namespace, changed, bindings);
        expect({ create, patch, unschedule }).toEqual({ create: [], patch: [], unschedule: [] });
      }
    }),
    { numRuns: 1000 },
  );
  expect(skipped).toBeGreaterThan(500);
});

it("usage that the policy does not read costs no evaluation of the policy, whatever its type", () => {
  let evaluations = 0;
  const cluster = fakeCluster("a");
  const change = { name: "a", before: cluster, after: cluster, isUsageOnly: true };
  for (const placementType of ["PickAll", "PickFixed", "PickN"] as const) {
    const clusterNames = placementType === "PickFixed" ? { clusterNames: ["a"] } : {};
    const compiled = compilePolicy({ placementType, ...clusterNames });
    const counted = {
      passes: () => {
        evaluations += 1;
        return true;
      },
    };
    const policy = { ...compiled, filters: compiled.filters.map((it) => ({ ...it, ...counted })) };
    const known = { namespace: undefined, policy, isFulfilled: false, isContinuous: false };
    expect(concerns(change, known)).toBe(false);
  }
  expect(evaluations).toBe(0);
});
