import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type {
  ClusterResourceOverride,
  PlacementDisruptionBudget,
  ResourceOverride,
} from "#api/placement.kubernetes-fleet.io/v1beta1/overrides.ts";
import type { Placement } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";

/** What is refused because of other objects: pure. Each returns the problem, which names the field, or undefined. */

interface Selected {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly name?: string;
}

function textOf({ group, version, kind, name = "" }: Selected): string {
  return `${kind} ${name} (${group === "" ? version : `${group}/${version}`})`;
}

/** One override for each object. */
export function overrideProblem<T extends ClusterResourceOverride | ResourceOverride>(
  override: T,
  others: Iterable<T>,
): string | undefined {
  const own = new Map(selectedBy(override).map((it) => [textOf(it), it] as const));
  for (const other of others) {
    if (other.metadata.name === override.metadata.name) continue;
    const taken = selectedBy(other).find((it) => own.has(textOf(it)));
    if (taken !== undefined)
      return `spec.${fieldOf(override)}: ${textOf(taken)} is selected by override ${other.metadata.name} already; an object can have one`;
  }
  return undefined;
}

function fieldOf(override: ClusterResourceOverride | ResourceOverride): string {
  return "clusterResourceSelectors" in override.spec ? "clusterResourceSelectors" : "resourceSelectors";
}
function selectedBy({ spec }: ClusterResourceOverride | ResourceOverride): readonly Selected[] {
  return "clusterResourceSelectors" in spec ? spec.clusterResourceSelectors : spec.resourceSelectors;
}

/** Of a MemberCluster that is deleted with validationMode Strict. */
export function leaveProblem(cluster: string, exports: readonly KubeObject[]): string | undefined {
  const [first] = exports;
  if (first === undefined) return undefined;
  return `spec.deleteOptions.validationMode is Strict, and ${cluster} still exports ${exports.length} services, such as ${first.metadata.name}: delete its ServiceExports first, or set validationMode to Skip`;
}

/** Undefined: the server does not serve the kind. */
export type Served = (of: Selected) => { readonly isNamespaced: boolean } | undefined;

/** Of a ClusterResourcePlacement. */
export function selectorProblem({ spec }: Placement, served: Served): string | undefined {
  const hasParts = spec.resourceSelectors.some(
    (it) => it.selectionScope === "NamespaceWithResourceSelectors",
  );
  for (const [at, selector] of spec.resourceSelectors.entries()) {
    const found = served(selector);
    const { group, version, kind } = selector;
    const text = `${kind} of ${group === "" ? version : `${group}/${version}`}`;
    if (found === undefined) return `spec.resourceSelectors[${at}]: the hub serves no ${text}`;
    if (found.isNamespaced && !hasParts)
      return `spec.resourceSelectors[${at}]: ${text} is namespaced: select its namespace, with NamespaceWithResourceSelectors for some of its objects`;
  }
  return undefined;
}

/** Of an eviction from a placement; one that does not exist is the controller's to report. */
export function evictionProblem(placement: Placement | undefined): string | undefined {
  if (placement === undefined) return undefined;
  const { name, deletionTimestamp } = placement.metadata;
  if (deletionTimestamp !== undefined)
    return `spec.placementName: ClusterResourcePlacement ${name} is being deleted`;
  return placement.spec.policy?.placementType === "PickFixed"
    ? `spec.placementName: ClusterResourcePlacement ${name} is PickFixed: remove the cluster from its spec.policy.clusterNames`
    : undefined;
}

/** Of a budget for a placement. */
export function budgetProblem(
  { spec }: PlacementDisruptionBudget,
  placement: Placement | undefined,
): string | undefined {
  if (placement === undefined || (placement.spec.policy?.placementType ?? "PickAll") !== "PickAll")
    return undefined;
  const { name } = placement.metadata;
  if (spec.maxUnavailable !== undefined)
    return `spec.maxUnavailable: ClusterResourcePlacement ${name} is PickAll, for which only minAvailable is allowed`;
  return typeof spec.minAvailable === "string"
    ? `spec.minAvailable: ClusterResourcePlacement ${name} is PickAll, for which it must be a number`
    : undefined;
}
