import { parseQuantity } from "@fairlead/kube/api/meta/quantity.ts";
import { formatSelector, matcherOf } from "@fairlead/kube/objects/selector.ts";
import type {
  ClusterSelectorTerm,
  PreferredClusterSelector,
  PropertyExpression,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type { ClusterFacts } from "./cluster.ts";

/** A required term: what a cluster has to match, and in words what it does not. */
export interface Term {
  readonly matches: (cluster: ClusterFacts) => boolean;
  /** What of the term a cluster that does not match lacks. */
  readonly lacks: (cluster: ClusterFacts) => string;
}

const COMPARE: Readonly<Record<PropertyExpression["operator"], (a: bigint, b: bigint) => boolean>> = {
  Gt: (a, b) => a > b,
  Ge: (a, b) => a >= b,
  Lt: (a, b) => a < b,
  Le: (a, b) => a <= b,
  Eq: (a, b) => a === b,
  Ne: (a, b) => a !== b,
};

/** @throws {FleetError} `API_INVALID` for a label selector that cannot be read; `policyProblems` names these before. */
export function compileTerm({ labelSelector, propertySelector }: ClusterSelectorTerm): Term {
  const hasLabels = labelSelector === undefined ? () => true : matcherOf(labelSelector);
  const expressions = (propertySelector?.matchExpressions ?? []).map(compileExpression);
  return {
    matches: (cluster) => hasLabels(cluster.labels) && expressions.every((it) => it.matches(cluster)),
    lacks(cluster) {
      if (!hasLabels(cluster.labels)) return `its labels do not match ${formatSelector(labelSelector ?? {})}`;
      return expressions.find((it) => !it.matches(cluster))?.lacks(cluster) ?? "";
    },
  };
}

function compileExpression({ name, operator, values }: PropertyExpression): Term {
  const limit = parseQuantity(values[0]);
  const compare = COMPARE[operator];
  return {
    matches(cluster) {
      const value = cluster.property(name);
      return value !== undefined && limit !== undefined && compare(value, limit);
    },
    lacks: (cluster) =>
      cluster.property(name) === undefined
        ? `it has no value of property ${name}`
        : `property ${name} is not ${operator} ${values[0] ?? ""}`,
  };
}

/** A preference: its score for a cluster of a fleet. */
export type Scorer = (cluster: ClusterFacts) => number;

/** Made for the clusters of the fleet, whose least and largest values a sorter spans. */
export function compilePreference({
  weight,
  preference: { labelSelector, propertySorter },
}: PreferredClusterSelector): (fleet: readonly ClusterFacts[]) => Scorer {
  const hasLabels = labelSelector === undefined ? () => true : matcherOf(labelSelector);
  if (propertySorter === undefined) return () => (cluster) => (hasLabels(cluster.labels) ? weight : 0);
  const { name, sortOrder } = propertySorter;
  return (fleet) => {
    const [least, largest] = rangeOf(fleet, name);
    return (cluster) => {
      const value = cluster.property(name);
      if (value === undefined || least === largest || !hasLabels(cluster.labels)) return 0;
      const share = Number(value - least) / Number(largest - least);
      return roundHalfAway((sortOrder === "Descending" ? share : 1 - share) * weight);
    };
  };
}

function rangeOf(fleet: readonly ClusterFacts[], name: string): readonly [bigint, bigint] {
  let [least, largest]: [bigint | undefined, bigint | undefined] = [undefined, undefined];
  for (const cluster of fleet) {
    const value = cluster.property(name);
    if (value === undefined) continue;
    if (least === undefined || value < least) least = value;
    if (largest === undefined || value > largest) largest = value;
  }
  return [least ?? 0n, largest ?? 0n];
}

/** `Math.round` rounds -2.5 up. Never -0, which JSON does not tell from 0. */
function roundHalfAway(value: number): number {
  return Math.sign(value) * Math.round(Math.abs(value)) + 0;
}
