import { describe, expect, it } from "vitest";
import type {
  ClusterSelectorTerm,
  PlacementPolicy,
  PropertyExpression,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { policyProblems } from "./problems.ts";

const all: PlacementPolicy = { placementType: "PickAll" };
const fixed: PlacementPolicy = { placementType: "PickFixed", clusterNames: ["a"] };
const best: PlacementPolicy = { placementType: "PickN", numberOfClusters: 1 };
const term: ClusterSelectorTerm = { labelSelector: { matchLabels: { a: "b" } } };
const requiring = (it: ClusterSelectorTerm) => ({
  affinity: {
    clusterAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { clusterSelectorTerms: [it] } },
  },
});
const preferring = (preference: ClusterSelectorTerm, weight = 1) => ({
  affinity: {
    clusterAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [{ weight, preference }] },
  },
});
const spread = { topologySpreadConstraints: [{ topologyKey: "zone" }] };
const tolerations = { tolerations: [{ operator: "Exists" as const }] };
const REQUIRED =
  "policy.affinity.clusterAffinity.requiredDuringSchedulingIgnoredDuringExecution.clusterSelectorTerms[0]";
const PREFERRED = "policy.affinity.clusterAffinity.preferredDuringSchedulingIgnoredDuringExecution";

describe("the fields of a policy", () => {
  it.each<[string, PlacementPolicy, string | undefined]>([
    [
      "clusterNames, PickAll",
      { ...all, clusterNames: ["a"] },
      "policy.clusterNames: PickAll does not take it",
    ],
    ["clusterNames, PickFixed", { placementType: "PickFixed" }, "policy.clusterNames: PickFixed needs it"],
    ["clusterNames, PickN", { ...best, clusterNames: ["a"] }, "policy.clusterNames: PickN does not take it"],
    [
      "numberOfClusters, PickAll",
      { ...all, numberOfClusters: 1 },
      "policy.numberOfClusters: PickAll does not take it",
    ],
    [
      "numberOfClusters, PickFixed",
      { ...fixed, numberOfClusters: 1 },
      "policy.numberOfClusters: PickFixed does not take it",
    ],
    ["numberOfClusters, PickN", { placementType: "PickN" }, "policy.numberOfClusters: PickN needs it"],
    ["required terms, PickAll", { ...all, ...requiring(term) }, undefined],
    [
      "required terms, PickFixed",
      { ...fixed, ...requiring(term) },
      "policy.affinity: PickFixed does not take it",
    ],
    ["required terms, PickN", { ...best, ...requiring(term) }, undefined],
    ["preferred terms, PickAll", { ...all, ...preferring(term) }, `${PREFERRED}: PickAll does not take it`],
    [
      "preferred terms, PickFixed",
      { ...fixed, ...preferring(term) },
      "policy.affinity: PickFixed does not take it",
    ],
    ["preferred terms, PickN", { ...best, ...preferring(term) }, undefined],
    ["spread, PickAll", { ...all, ...spread }, "policy.topologySpreadConstraints: PickAll does not take it"],
    [
      "spread, PickFixed",
      { ...fixed, ...spread },
      "policy.topologySpreadConstraints: PickFixed does not take it",
    ],
    ["spread, PickN", { ...best, ...spread }, undefined],
    ["tolerations, PickAll", { ...all, ...tolerations }, undefined],
    [
      "tolerations, PickFixed",
      { ...fixed, ...tolerations },
      "policy.tolerations: PickFixed does not take it",
    ],
    ["tolerations, PickN", { ...best, ...tolerations }, undefined],
    ["numberOfClusters of 0", { ...best, numberOfClusters: 0 }, undefined],
    ["a negative number", { ...best, numberOfClusters: -1 }, "policy.numberOfClusters: is less than 0"],
    ["a name twice", { ...fixed, clusterNames: ["a", "a"] }, "policy.clusterNames: a name is there twice"],
    [
      "no name of a cluster",
      { ...fixed, clusterNames: ["A"] },
      "policy.clusterNames[0]: is not the name of a cluster",
    ],
    [
      "101 names",
      { ...fixed, clusterNames: Array.from({ length: 101 }, (_, at) => `c${at}`) },
      "policy.clusterNames: has more than 100 names",
    ],
    [
      "a sorter in a required term",
      { ...all, ...requiring({ propertySorter: { name: "p", sortOrder: "Ascending" } }) },
      `${REQUIRED}.propertySorter: a required term does not take it`,
    ],
    [
      "a property selector in a preferred term",
      { ...best, ...preferring({ propertySelector: { matchExpressions: [] } }) },
      `${PREFERRED}[0].preference.propertySelector: a preferred term does not take it`,
    ],
    [
      "a weight of 101",
      { ...best, ...preferring(term, 101) },
      `${PREFERRED}[0].weight: is not from -100 to 100`,
    ],
    [
      "a label expression without values",
      { ...all, ...requiring({ labelSelector: { matchExpressions: [{ key: "k", operator: "In" }] } }) },
      `${REQUIRED}.labelSelector: label selector: In on k needs values`,
    ],
    [
      "a skew of 0",
      { ...best, topologySpreadConstraints: [{ topologyKey: "zone", maxSkew: 0 }] },
      "policy.topologySpreadConstraints[0].maxSkew: is less than 1",
    ],
    [
      "a value with Exists",
      { ...all, tolerations: [{ key: "k", operator: "Exists", value: "v" }] },
      "policy.tolerations[0].value: operator Exists takes no value",
    ],
    [
      "Equal without a key",
      { ...all, tolerations: [{ value: "v" }] },
      "policy.tolerations[0].key: operator Equal needs one",
    ],
  ])("%s", (_, policy, problem) => {
    expect(policyProblems(policy)).toEqual(problem === undefined ? [] : [problem]);
  });
  it("may be absent altogether", () => {
    expect(policyProblems(undefined)).toEqual([]);
  });
});

describe("expressions about one property", () => {
  const at = `${REQUIRED}.propertySelector.matchExpressions`;
  const problemsOf = (...matchExpressions: PropertyExpression[]) =>
    policyProblems({ ...all, ...requiring({ propertySelector: { matchExpressions } }) });
  const is = (operator: PropertyExpression["operator"], value: string, name = "p"): PropertyExpression => ({
    name,
    operator,
    values: [value],
  });

  it.each([
    ["two Eq", [is("Eq", "1"), is("Eq", "2")]],
    ["Eq with Ne of the same value", [is("Eq", "1"), is("Ne", "1000m")]],
    ["an empty interval", [is("Gt", "2"), is("Lt", "2")]],
    ["an interval without its only value", [is("Ge", "2"), is("Le", "2"), is("Ne", "2")]],
    ["an open end at the other one", [is("Ge", "2"), is("Lt", "2")]],
  ])("contradict themselves: %s", (_, expressions) => {
    expect(problemsOf(...expressions)).toEqual([`${at}: no value of p meets all of them`]);
  });
  it.each([
    ["the same Eq twice", [is("Eq", "1"), is("Eq", "1000m")]],
    ["an interval of one value", [is("Ge", "2"), is("Le", "2")]],
    ["about other properties", [is("Eq", "1"), is("Eq", "2", "q")]],
    ["only Ne", [is("Ne", "1"), is("Ne", "2")]],
  ])("do not: %s", (_, expressions) => {
    expect(problemsOf(...expressions)).toEqual([]);
  });
  it("have one quantity each", () => {
    expect(problemsOf({ name: "p", operator: "Eq", values: ["1", "2"] })).toEqual([
      `${at}[0].values: needs exactly one quantity`,
    ]);
    expect(problemsOf(is("Eq", "v1.30"))).toEqual([`${at}[0].values: "v1.30" is not a quantity`]);
  });
});
