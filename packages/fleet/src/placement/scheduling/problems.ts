import { parseQuantity } from "@fairlead/kube/api/meta/quantity.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import { matcherOf } from "@fairlead/kube/objects/selector.ts";
import type { LabelSelector } from "@fairlead/kube/api/meta/types.ts";
import type {
  ClusterSelectorTerm,
  PlacementPolicy,
  PreferredClusterSelector,
  PropertyExpression,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { isClusterName } from "#api/fairlead.dev/cluster-names.ts";

const MAX_NAMES = 100;
const MAX_TOLERATIONS = 100;
const MAX_TERMS = 10;
const MAX_WEIGHT = 100;

/** What is wrong with a policy, field by field; empty if nothing is. */
export function policyProblems(policy: PlacementPolicy | undefined): readonly string[] {
  if (policy === undefined) return [];
  const { placementType: type = "PickAll" } = policy;
  return [
    ...fieldProblems(policy, type),
    ...nameProblems(policy),
    ...affinityProblems(policy, type),
    ...tolerationProblems(policy),
    ...spreadProblems(policy),
  ];
}

type PlacementType = NonNullable<PlacementPolicy["placementType"]>;
type Field = "clusterNames" | "numberOfClusters" | "affinity" | "topologySpreadConstraints" | "tolerations";

/** Fields that a type of placement needs, and those that it takes besides. */
const FIELDS: Readonly<
  Record<PlacementType, { readonly needs: readonly Field[]; readonly takes: readonly Field[] }>
> = {
  PickAll: { needs: [], takes: ["affinity", "tolerations"] },
  PickFixed: { needs: ["clusterNames"], takes: [] },
  PickN: { needs: ["numberOfClusters"], takes: ["affinity", "topologySpreadConstraints", "tolerations"] },
};
const ALL_FIELDS = [
  "clusterNames",
  "numberOfClusters",
  "affinity",
  "topologySpreadConstraints",
  "tolerations",
] as const satisfies readonly Field[];

function fieldProblems(policy: PlacementPolicy, type: PlacementType): string[] {
  const { needs, takes } = FIELDS[type];
  return ALL_FIELDS.flatMap((field) => {
    if (needs.includes(field)) return isGiven(policy[field]) ? [] : [`policy.${field}: ${type} needs it`];
    return isGiven(policy[field]) && !takes.includes(field)
      ? [`policy.${field}: ${type} does not take it`]
      : [];
  });
}

function isGiven(value: PlacementPolicy[Field]): boolean {
  return Array.isArray(value) ? value.length > 0 : value !== undefined;
}

function nameProblems({ clusterNames = [], numberOfClusters = 0 }: PlacementPolicy): string[] {
  const at = "policy.clusterNames";
  const isRepeated = new Set(clusterNames).size < clusterNames.length;
  return [
    ...(clusterNames.length > MAX_NAMES ? [`${at}: has more than ${MAX_NAMES} names`] : []),
    ...(isRepeated ? [`${at}: a name is there twice`] : []),
    ...clusterNames.flatMap((it, index) =>
      isClusterName(it) ? [] : [`${at}[${index}]: is not the name of a cluster`],
    ),
    ...(numberOfClusters < 0 ? ["policy.numberOfClusters: is less than 0"] : []),
  ];
}

function affinityProblems({ affinity }: PlacementPolicy, type: PlacementType): string[] {
  const at = "policy.affinity.clusterAffinity";
  const required =
    affinity?.clusterAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.clusterSelectorTerms ?? [];
  const preferred = affinity?.clusterAffinity?.preferredDuringSchedulingIgnoredDuringExecution ?? [];
  const requiredAt = `${at}.requiredDuringSchedulingIgnoredDuringExecution.clusterSelectorTerms`;
  const preferredAt = `${at}.preferredDuringSchedulingIgnoredDuringExecution`;
  return [
    ...(required.length > MAX_TERMS ? [`${requiredAt}: has more than ${MAX_TERMS} terms`] : []),
    ...required.flatMap((it, index) => termProblems(it, `${requiredAt}[${index}]`)),
    ...(preferred.length > 0 && type === "PickAll" ? [`${preferredAt}: PickAll does not take it`] : []),
    ...preferred.flatMap((it, index) => preferenceProblems(it, `${preferredAt}[${index}]`)),
  ];
}

function termProblems(
  { labelSelector, propertySelector, propertySorter }: ClusterSelectorTerm,
  at: string,
): string[] {
  const expressions = propertySelector?.matchExpressions ?? [];
  const expressionsAt = `${at}.propertySelector.matchExpressions`;
  return [
    ...selectorProblems(labelSelector, `${at}.labelSelector`),
    ...(propertySorter === undefined ? [] : [`${at}.propertySorter: a required term does not take it`]),
    ...expressions.flatMap((it, index) => expressionProblems(it, `${expressionsAt}[${index}]`)),
    ...[...Map.groupBy(expressions, (it) => it.name)].flatMap(([name, all]) =>
      isContradiction(all) ? [`${expressionsAt}: no value of ${name} meets all of them`] : [],
    ),
  ];
}

function preferenceProblems({ weight, preference }: PreferredClusterSelector, at: string): string[] {
  return [
    ...(Math.abs(weight) > MAX_WEIGHT ? [`${at}.weight: is not from -${MAX_WEIGHT} to ${MAX_WEIGHT}`] : []),
    ...selectorProblems(preference.labelSelector, `${at}.preference.labelSelector`),
    ...(preference.propertySelector === undefined
      ? []
      : [`${at}.preference.propertySelector: a preferred term does not take it`]),
  ];
}

function selectorProblems(selector: LabelSelector | undefined, at: string): string[] {
  try {
    matcherOf(selector);
    return [];
  } catch (error) {
    return [`${at}: ${messageOf(error)}`];
  }
}

function expressionProblems({ values }: PropertyExpression, at: string): string[] {
  if (values.length !== 1) return [`${at}.values: needs exactly one quantity`];
  return parseQuantity(values[0]) === undefined
    ? [`${at}.values: ${JSON.stringify(values[0])} is not a quantity`]
    : [];
}

/** Whether no value of one property can meet all expressions. Values are whole numbers of 10^-9, so that open ends are closed ones. */
function isContradiction(expressions: readonly PropertyExpression[]): boolean {
  const valuesOf = (...operators: readonly PropertyExpression["operator"][]): bigint[] =>
    expressions
      .filter((it) => operators.includes(it.operator))
      .flatMap((it) => parseQuantity(it.values[0]) ?? []);
  const least = largest([...valuesOf("Ge", "Eq"), ...valuesOf("Gt").map((it) => it + 1n)]);
  const negatedMost = largest(
    [...valuesOf("Le", "Eq"), ...valuesOf("Lt").map((it) => it - 1n)].map((it) => -it),
  );
  if (least === undefined || negatedMost === undefined) return false;
  const excluded = new Set(valuesOf("Ne"));
  let value = least;
  while (value <= -negatedMost && excluded.has(value)) value += 1n;
  return value > -negatedMost;
}

function largest(values: readonly bigint[]): bigint | undefined {
  let found: bigint | undefined;
  for (const it of values) if (found === undefined || it > found) found = it;
  return found;
}

function tolerationProblems({ tolerations = [] }: PlacementPolicy): string[] {
  const at = "policy.tolerations";
  return [
    ...(tolerations.length > MAX_TOLERATIONS ? [`${at}: has more than ${MAX_TOLERATIONS} entries`] : []),
    ...tolerations.flatMap(({ key = "", operator = "Equal", value = "" }, index) => [
      ...(operator === "Exists" && value !== ""
        ? [`${at}[${index}].value: operator Exists takes no value`]
        : []),
      ...(operator === "Equal" && key === "" ? [`${at}[${index}].key: operator Equal needs one`] : []),
    ]),
  ];
}

function spreadProblems({ topologySpreadConstraints = [] }: PlacementPolicy): string[] {
  const at = "policy.topologySpreadConstraints";
  return topologySpreadConstraints.flatMap(({ maxSkew = 1, topologyKey }, index) => [
    ...(maxSkew < 1 ? [`${at}[${index}].maxSkew: is less than 1`] : []),
    ...(topologyKey === "" ? [`${at}[${index}].topologyKey: is empty`] : []),
  ]);
}
