import { matcherOf } from "@fairlead/kube/objects/selector.ts";
import type {
  ClusterResourceOverrideSnapshot,
  OverrideRule,
  ResourceOverrideSnapshot,
} from "#api/placement.kubernetes-fleet.io/v1beta1/overrides.ts";
import { problemOfPatch } from "./paths.ts";
import { type OverriddenCluster, substituted, VariableError } from "./variables.ts";

/** An object that an override selects. A Namespace stands for its objects as well. */
export interface SelectedObject {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly name: string;
  /** Undefined: the object is cluster-scoped. */
  readonly namespace: string | undefined;
}

/** One operation of RFC 6902, with the value that it has for the cluster. */
export type ResolvedPatch = {
  readonly op: "add" | "remove" | "replace";
  readonly path: string;
  readonly value?: unknown;
};
/** What an override snapshot says for one cluster. `delete`: the objects are left out. */
export interface ResolvedOverride {
  readonly snapshot: string;
  readonly selected: readonly SelectedObject[];
  readonly steps: readonly ("delete" | readonly ResolvedPatch[])[];
}

/** An override that cannot be applied: an error of its author, which the conditions of the binding report. */
export class OverrideError extends Error {}

/** Whether the rule is for the cluster. No selector selects none, an empty one all. */
export function ruleMatches({ clusterSelector }: OverrideRule, { labels }: OverriddenCluster): boolean {
  if (clusterSelector === undefined || clusterSelector === null) return false;
  const terms = clusterSelector.clusterSelectorTerms ?? [];
  return terms.length === 0 || terms.some((it) => matcherOf(it.labelSelector ?? {})(labels));
}

/**
 * What overrides say for a cluster, in the order in which they apply: those of cluster-scoped overrides first, so that a
 * ResourceOverride has the last word.
 *
 * @throws {OverrideError}
 */
export function resolveOverrides(
  clusterOverrides: readonly ClusterResourceOverrideSnapshot[],
  overrides: readonly ResourceOverrideSnapshot[],
  cluster: OverriddenCluster,
): readonly ResolvedOverride[] {
  return [
    ...clusterOverrides.map(({ metadata: { name }, spec: { overrideSpec } }) => ({
      snapshot: `ClusterResourceOverrideSnapshot "${name}"`,
      selected: overrideSpec.clusterResourceSelectors.map((it) => selectedObject(it, undefined)),
      rules: overrideSpec.policy.overrideRules,
    })),
    ...overrides.map(({ metadata: { name, namespace }, spec: { overrideSpec } }) => ({
      snapshot: `ResourceOverrideSnapshot "${namespace}/${name}"`,
      selected: overrideSpec.resourceSelectors.map((it) => selectedObject(it, namespace)),
      rules: overrideSpec.policy.overrideRules,
    })),
  ].map(({ snapshot, selected, rules }) => ({
    snapshot,
    selected,
    steps: rules
      .filter((rule) => ruleMatches(rule, cluster))
      .map((rule) => resolveRule(rule, cluster, snapshot)),
  }));
}

function selectedObject(
  {
    group,
    version,
    kind,
    name = "",
  }: { readonly group: string; readonly version: string; readonly kind: string; readonly name?: string },
  namespace: string | undefined,
): SelectedObject {
  return { group, version, kind, name, namespace };
}

function resolveRule(
  { overrideType, jsonPatchOverrides = [] }: OverrideRule,
  cluster: OverriddenCluster,
  snapshot: string,
): "delete" | readonly ResolvedPatch[] {
  if (overrideType === "Delete") return "delete";
  return jsonPatchOverrides.map(({ op, path, value }) => {
    const problem = problemOfPatch({ op, path, value });
    if (problem !== undefined) throw new OverrideError(`${snapshot}: ${problem}`);
    if (op === "remove") return { op, path };
    try {
      return { op, path, value: substituted(value, cluster) };
    } catch (error) {
      if (error instanceof VariableError) throw new OverrideError(`${snapshot}: ${path}: ${error.message}`);
      throw error;
    }
  });
}
