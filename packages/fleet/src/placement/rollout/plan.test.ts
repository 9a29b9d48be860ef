import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type {
  Placement,
  ResourceBinding,
  RolloutStrategy,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { roundedUp } from "../percent.ts";
import { bindingOf, FAILED, NOW_MS, READY } from "./binding.fake.ts";
import { type ApplicableOverrides, completeStrategy, planRollout } from "./plan.ts";

const NONE: ApplicableOverrides = { clusterResourceOverrideSnapshots: [], resourceOverrideSnapshots: [] };
const STRATEGY = completeStrategy(undefined);

function placement(
  rollingUpdate: RolloutStrategy["rollingUpdate"] = {},
  policy: Placement["spec"]["policy"] = { placementType: "PickAll" },
): Placement {
  return { metadata: { name: "app" }, spec: { resourceSelectors: [], policy, strategy: { rollingUpdate } } };
}

/** Names of clusters, in the order in which they are worked on. */
function plan(
  of: Placement,
  bindings: readonly ResourceBinding[],
  overridesOf: (cluster: string) => ApplicableOverrides = () => NONE,
) {
  const made = planRollout({
    placement: of,
    snapshot: "app-1-snapshot",
    bindings,
    overridesOf,
    nowMs: NOW_MS,
  });
  const names = (list: readonly ResourceBinding[]) => list.map((it) => it.spec.targetCluster).join(" ");
  return {
    roll: names(made.roll.map((it) => it.binding)),
    remove: names(made.remove),
    waiting: names(made.waiting.map((it) => it.binding)),
    restrategize: names(made.restrategize),
    recheckMs: made.recheckMs,
  };
}

const scheduled = (...names: string[]) => names.map((it) => bindingOf(it, "Scheduled"));
const stale = (names: string, ...conditions: string[]) =>
  names.split(" ").map((it) => bindingOf(it, "Bound", { conditions, applyStrategy: STRATEGY }));
const current = (names: string, ...conditions: string[]) =>
  names
    .split(" ")
    .map((it) =>
      bindingOf(it, "Bound", { conditions, resourceSnapshotName: "app-1-snapshot", applyStrategy: STRATEGY }),
    );
const leaving = (names: string, ...conditions: string[]) =>
  names.split(" ").map((it) => bindingOf(it, "Unscheduled", { conditions }));

describe("a first rollout", () => {
  it("binds all clusters at once: none of them serves yet", () => {
    expect(plan(placement(), scheduled("b", "a", "c"))).toMatchObject({ roll: "a b c", waiting: "" });
  });
  it("binds no more than the surge allows in addition to what may become available", () => {
    const five = placement({ maxSurge: 1 }, { placementType: "PickN", numberOfClusters: 3 });
    expect(plan(five, [...leaving("x y z", READY), ...scheduled("a", "b", "c")])).toMatchObject({
      roll: "a",
      waiting: "b c",
    });
  });
  it("waits for a cluster whose earlier binding is still being deleted", () => {
    const going = bindingOf("a", "Unscheduled", { isDeleting: true });
    expect(plan(placement(), [going, ...scheduled("a", "b")])).toMatchObject({ roll: "b", waiting: "a" });
  });
});

describe("an update", () => {
  it.each([
    ["25% of 4", {}, "a b c d", "a"],
    ["25% of 5, rounded up", {}, "a b c d e", "a b"],
    ["an integer", { maxUnavailable: 3 }, "a b c d e", "a b c"],
    ["100%", { maxUnavailable: "100%" }, "a b c", "a b c"],
    ["none", { maxUnavailable: 0 }, "a b c", ""],
    ["one cluster of one", {}, "a", "a"],
  ])("takes no more clusters than maxUnavailable: %s", (_, rolling, all, roll) => {
    expect(plan(placement(rolling), stale(all, READY))).toMatchObject({ roll });
  });
  it("counts clusters that are not available already", () => {
    const bindings = [...current("a", "Applied=Unknown ApplyInProgress"), ...stale("b c d", READY)];
    expect(plan(placement(), bindings)).toMatchObject({ roll: "", waiting: "b c d" });
  });
  it("continues where the updated clusters are available", () => {
    expect(plan(placement(), [...current("a", READY), ...stale("b c d", READY)])).toMatchObject({
      roll: "b",
    });
  });
  it("stops where the updated cluster failed, and reaches no other", () => {
    expect(plan(placement(), [...current("a", FAILED), ...stale("b c d", READY)])).toMatchObject({
      roll: "",
    });
  });
  it("updates clusters that failed at any time: this makes none unavailable", () => {
    const bindings = [...stale("a b", FAILED), ...stale("c d", READY)];
    expect(plan(placement({ maxUnavailable: 0 }), bindings)).toMatchObject({ roll: "a b", waiting: "c d" });
  });
  it("removes clusters before it updates others", () => {
    const three = placement({ maxUnavailable: 1 }, { placementType: "PickN", numberOfClusters: 3 });
    const bindings = [...leaving("z", READY), ...stale("a b c", READY)];
    expect(plan(three, bindings)).toMatchObject({ remove: "z", roll: "a", waiting: "b c" });
    expect(plan(placement({ maxUnavailable: 0 }, three.spec.policy), bindings)).toMatchObject({
      remove: "z",
      roll: "",
    });
  });
  it("removes a cluster that failed, or that never got resources, at any time", () => {
    const never = bindingOf("y", "Unscheduled", { resourceSnapshotName: "" });
    const bindings = [...leaving("z", FAILED), never, ...current("a b", READY)];
    expect(plan(placement({ maxUnavailable: 0 }), bindings)).toMatchObject({ remove: "y z" });
  });
  it("does not remove a cluster of which the present state is not known", () => {
    const bindings = [...leaving("z", `${READY} ^`), ...current("a b", READY)];
    expect(plan(placement({ maxUnavailable: 0 }), bindings)).toMatchObject({ remove: "" });
  });
  it("counts a cluster that is being removed as unavailable", () => {
    const going = bindingOf("z", "Bound", { isDeleting: true, conditions: [READY] });
    const four = placement({ maxUnavailable: 1 }, { placementType: "PickN", numberOfClusters: 4 });
    expect(plan(four, [going, ...stale("a b c", READY)])).toMatchObject({ roll: "" });
  });
  it.each([
    [{ placementType: "PickAll" }, "a b"],
    [{ placementType: "PickN", numberOfClusters: 8 }, "a b"],
    [{ placementType: "PickFixed", clusterNames: ["a", "b", "c", "d", "e"] }, "a b"],
  ] as const)("counts from the target of the policy: %j", (policy, roll) => {
    const all = policy.placementType === "PickN" ? "a b c d e f g h" : "a b c d e";
    expect(
      plan(placement({}, { ...policy } as Placement["spec"]["policy"]), stale(all, READY)),
    ).toMatchObject({ roll });
  });
  it("looks again when objects of unknown availability count as available", () => {
    const bindings = [
      ...current("a", "Available=True NotAllWorkAreAvailabilityTrackable @20"),
      ...stale("b c d", READY),
    ];
    expect(plan(placement(), bindings)).toMatchObject({ roll: "", recheckMs: 40_000 });
    expect(plan(placement({ unavailablePeriodSeconds: 20 }), bindings)).toMatchObject({ roll: "b" });
  });
  it("is due where the overrides of a cluster changed, and within the same budget", () => {
    const overridden = { ...NONE, clusterResourceOverrideSnapshots: ["red-1"] };
    expect(plan(placement(), current("a b c d", READY), () => overridden)).toMatchObject({
      roll: "a",
      waiting: "b c d",
    });
    expect(
      plan(placement(), current("a b c d", READY), (it) => (it === "c" ? overridden : NONE)),
    ).toMatchObject({
      roll: "c",
      waiting: "",
    });
  });
});

it("a cluster that waits says for what, in words that stay the same while it waits", () => {
  const four = placement({ maxSurge: 1 }, { placementType: "PickN", numberOfClusters: 4 });
  const going = bindingOf("e", "Unscheduled", { isDeleting: true, conditions: [READY] });
  const bindings = [...current("a b", READY), ...stale("c d", READY), going, ...scheduled("e", "f")];
  const { waiting } = planRollout({
    placement: four,
    snapshot: "app-1-snapshot",
    bindings,
    overridesOf: () => NONE,
    nowMs: NOW_MS,
  });
  expect(waiting.map((it) => `${it.binding.spec.targetCluster}: ${it.why}`)).toEqual([
    "d: At least 3 of 4 clusters stay available (maxUnavailable)",
    "f: At most 5 clusters have the resources at the same time (maxSurge)",
    "e: What the placement had in the cluster before is still being removed",
  ]);
});

it("a changed apply strategy goes to all clusters at once", () => {
  const server = {
    ...placement(),
    spec: { ...placement().spec, strategy: { applyStrategy: { type: "ServerSideApply" as const } } },
  };
  const bindings = [...current("a", READY), ...stale("b c", READY)];
  expect(plan(server, bindings)).toMatchObject({ roll: "b", restrategize: "a c" });
});

it("bindings that are as they should be are left alone", () => {
  expect(plan(placement(), current("a b c", READY))).toMatchObject({
    roll: "",
    remove: "",
    waiting: "",
    restrategize: "",
  });
});

describe("any rollout", () => {
  const state$ = fc.constantFrom("ready", "pending", "failed");
  const binding$ = fc.record({
    of: fc.constantFrom("stale", "current", "leaving", "scheduled"),
    state: state$,
  });
  it("keeps within its budgets, and ends with every binding up to date", () => {
    fc.assert(
      fc.property(
        fc.array(binding$, { maxLength: 12 }),
        fc.integer({ min: 1, max: 4 }),
        fc.integer({ min: 0, max: 4 }),
        (drawn, maxUnavailable, maxSurge) => {
          const conditions = { ready: [READY], pending: [], failed: [FAILED] };
          const make = { stale, current, leaving, scheduled: (name: string) => scheduled(name) };
          let bindings = drawn.flatMap(({ of, state }, at) => make[of](`c${at}`, ...conditions[state]));
          const target = bindings.filter((it) => it.spec.state !== "Unscheduled").length;
          const isReady = (it: ResourceBinding) => it.status?.conditions?.[0]?.status === "True";
          const isFailed = (it: ResourceBinding) => it.status?.conditions?.[0]?.status === "False";
          for (let step = 0; step < 50; step++) {
            const made = planRollout({
              placement: placement({ maxUnavailable, maxSurge }),
              snapshot: "app-1-snapshot",
              bindings,
              overridesOf: () => NONE,
              nowMs: NOW_MS,
            });
            const ready = bindings.filter(isReady).length;
            const touched = [...made.remove, ...made.roll.map((it) => it.binding)];
            const lost = touched.filter((it) => isReady(it)).length;
            if (lost > 0)
              expect(ready - lost).toBeGreaterThanOrEqual(target - roundedUp(maxUnavailable, target));
            const bound = bindings.filter((it) => it.spec.state !== "Scheduled" && !isFailed(it)).length;
            const added = made.roll.filter((it) => it.binding.spec.state === "Scheduled").length;
            if (added > 0) expect(bound + added).toBeLessThanOrEqual(target + maxSurge);
            const isRolled = new Set(made.roll.map((it) => it.binding));
            const isRemoved = new Set(made.remove);
            // What was rolled becomes available by the next step; so does what was pending.
            bindings = bindings
              .filter((it) => !isRemoved.has(it))
              .map((it) =>
                isRolled.has(it)
                  ? (current(it.spec.targetCluster, READY)[0] ?? it)
                  : isReady(it) || isFailed(it) || it.spec.state === "Scheduled"
                    ? it
                    : {
                        ...it,
                        status: { conditions: [...(stale("x", READY)[0]?.status?.conditions ?? [])] },
                      },
              );
          }
          const left = bindings.filter(
            (it) => it.spec.state === "Unscheduled" || it.spec.resourceSnapshotName !== "app-1-snapshot",
          );
          const isStuck = bindings.some((it) => isFailed(it));
          if (!isStuck && maxSurge > 0) expect(left).toEqual([]);
        },
      ),
    );
  });
});
