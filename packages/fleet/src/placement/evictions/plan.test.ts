import { describe, expect, it } from "vitest";
import type { PlacementDisruptionBudget } from "#api/placement.kubernetes-fleet.io/v1beta1/overrides.ts";
import type { Placement, ResourceBinding } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { bindingOf, FAILED, READY } from "../rollout/binding.fake.ts";
import { planEviction } from "./plan.ts";

type Policy = NonNullable<Placement["spec"]["policy"]>;
const placementOf = (policy?: Policy, metadata: object = {}): Placement => ({
  metadata: { name: "app", ...metadata },
  spec: { resourceSelectors: [], ...(policy === undefined ? {} : { policy }) },
});
const PICK_THREE = placementOf({ placementType: "PickN", numberOfClusters: 3 });
const budgetOf = (spec: PlacementDisruptionBudget["spec"]): PlacementDisruptionBudget => ({
  metadata: { name: "app" },
  spec,
});
const ready = (names: string): ResourceBinding[] =>
  names.split(" ").map((it) => bindingOf(it, "Bound", { conditions: [READY] }));

const verdict = (
  placement: Placement | undefined,
  bindings: readonly ResourceBinding[],
  budget?: PlacementDisruptionBudget,
) => planEviction({ cluster: "a", placement, bindings, budget });

describe("an eviction", () => {
  it.each([
    ["whose placement does not exist", undefined, ready("a"), /does not exist/],
    [
      "whose placement is being deleted",
      placementOf(undefined, { deletionTimestamp: "t" }),
      ready("a"),
      /is being deleted/,
    ],
    [
      "from a placement that names its clusters",
      placementOf({ placementType: "PickFixed", clusterNames: ["a"] }),
      ready("a"),
      /PickFixed/,
    ],
    ["from a cluster without a binding", PICK_THREE, ready("b"), /no binding for the cluster "a"/],
    ["from a cluster with two bindings", PICK_THREE, ready("a a"), /2 bindings for the cluster "a"/],
  ])("%s is not valid", (_, placement, bindings, message) => {
    expect(verdict(placement, bindings)).toEqual({
      kind: "invalid",
      message: expect.stringMatching(message) as unknown,
    });
  });
  it("of a binding that is being deleted is executed", () => {
    expect(verdict(PICK_THREE, [bindingOf("a", "Bound", { isDeleting: true })])).toMatchObject({
      kind: "executed",
    });
  });
  it("of a placement that has not reached the cluster is not executed", () => {
    expect(verdict(PICK_THREE, [bindingOf("a", "Scheduled")])).toMatchObject({ kind: "refused" });
  });
  it("without a budget is executed", () => {
    expect(verdict(PICK_THREE, ready("a"))).toMatchObject({
      kind: "evict",
      binding: { spec: { targetCluster: "a" } },
    });
  });
  it.each([
    ["has failed", [FAILED]],
    ["only reports differences", ["DiffReported=True AllWorkHaveDiffReported"]],
  ])("of a placement that %s asks no budget", (_, conditions) => {
    const none = budgetOf({ maxUnavailable: 0 });
    expect(verdict(PICK_THREE, [bindingOf("a", "Bound", { conditions })], none)).toMatchObject({
      kind: "evict",
    });
  });
});

describe("a budget", () => {
  it.each([
    ["allows one of three", { maxUnavailable: 1 }, PICK_THREE, "a b c", "evict"],
    ["counts one that is missing", { maxUnavailable: 1 }, PICK_THREE, "a b", "refused"],
    ["rounds a percentage up", { maxUnavailable: "10%" }, PICK_THREE, "a b c", "evict"],
    ["of zero allows none", { maxUnavailable: 0 }, PICK_THREE, "a b c", "refused"],
    ["keeps a minimum", { minAvailable: 2 }, PICK_THREE, "a b c", "evict"],
    ["keeps a minimum that is just reached", { minAvailable: 3 }, PICK_THREE, "a b c", "refused"],
    ["rounds a percentage of a minimum up", { minAvailable: "67%" }, PICK_THREE, "a b c", "refused"],
    ["keeps a minimum of a placement on all clusters", { minAvailable: 1 }, placementOf(), "a b", "evict"],
    ["keeps the last cluster", { minAvailable: 1 }, placementOf(), "a", "refused"],
    ["that says nothing allows all", {}, PICK_THREE, "a", "evict"],
    ["that says both is refused", { minAvailable: 1, maxUnavailable: 1 }, PICK_THREE, "a b c", "refused"],
    [
      "in maxUnavailable is refused for a placement on all clusters",
      { maxUnavailable: 1 },
      placementOf(),
      "a b",
      "refused",
    ],
    [
      "in per cent is refused for a placement on all clusters",
      { minAvailable: "50%" },
      placementOf({ placementType: "PickAll" }),
      "a b",
      "refused",
    ],
  ] as const)("%s", (...[, spec, placement, names, kind]) => {
    expect(verdict(placement, ready(names), budgetOf(spec))).toMatchObject({ kind });
  });
  it("does not count a cluster twice that is not available anyway", () => {
    const bindings = [
      bindingOf("a", "Bound", { conditions: ["Applied=Unknown ApplyInProgress"] }),
      ...ready("b c"),
    ];
    expect(verdict(PICK_THREE, bindings, budgetOf({ minAvailable: 2 }))).toMatchObject({ kind: "evict" });
  });
  it("does not count clusters that are being removed as available", () => {
    const going = bindingOf("b", "Bound", { isDeleting: true, conditions: [READY] });
    expect(
      verdict(PICK_THREE, [...ready("a"), going, ...ready("c")], budgetOf({ maxUnavailable: 1 })),
    ).toMatchObject({ kind: "refused" });
  });
});
