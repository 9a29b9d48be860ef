import { byText } from "@fairlead/base/text.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import {
  LATEST_SNAPSHOT_LABEL,
  OVERRIDE_INDEX_LABEL,
  PARENT_OVERRIDE_LABEL,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import type {
  ClusterResourceOverrideSnapshot,
  ResourceOverrideSnapshot,
} from "#api/placement.kubernetes-fleet.io/v1beta1/overrides.ts";
import type { ApplicableOverrides } from "../rollout/plan.ts";
import { keyOfSelected } from "./apply.ts";
import { ruleMatches } from "./resolve.ts";
import type { OverriddenCluster } from "./variables.ts";

/** Overrides that may apply to a placement. */
export interface OverrideCandidates {
  readonly cluster: readonly ClusterResourceOverrideSnapshot[];
  readonly namespaced: readonly ResourceOverrideSnapshot[];
}

/** The placement that overrides are looked for. */
interface OverriddenPlacement {
  readonly name: string;
  /** Undefined: a ClusterResourcePlacement. */
  readonly namespace: string | undefined;
}

/** The index of an override snapshot; -1 if it has none. */
export function overrideIndexOf({ metadata }: KubeObject): number {
  const index = Number(metadata.labels?.[OVERRIDE_INDEX_LABEL] ?? "-1");
  return Number.isInteger(index) ? index : -1;
}

/** The latest snapshot of each override; the newer one while two have the label. */
function latestOf<T extends KubeObject>(snapshots: Iterable<T>): T[] {
  const latest = new Map<string, T>();
  for (const it of snapshots) {
    const { namespace = "", labels } = it.metadata;
    if (labels?.[LATEST_SNAPSHOT_LABEL] !== "true") continue;
    const key = `${namespace}/${labels[PARENT_OVERRIDE_LABEL] ?? ""}`;
    const present = latest.get(key);
    if (present === undefined || overrideIndexOf(present) < overrideIndexOf(it)) latest.set(key, it);
  }
  return [...latest.values()].toSorted((a, b) => byText(keyOf(a), keyOf(b)));
}

/** The latest snapshots of overrides that name the placement or none. */
export function candidatesFor(
  placement: OverriddenPlacement,
  clusterOverrides: Iterable<ClusterResourceOverrideSnapshot>,
  overrides: Iterable<ResourceOverrideSnapshot>,
): OverrideCandidates {
  const isCluster = placement.namespace === undefined;
  const names = ({ placement: named }: { placement?: { name: string; scope?: string } | null }): boolean =>
    named === undefined ||
    named === null ||
    (named.name === placement.name && (named.scope ?? "Cluster") === (isCluster ? "Cluster" : "Namespaced"));
  return {
    // A ResourcePlacement places no cluster-scoped object, and a Namespace that it is in is not its own.
    cluster: isCluster ? latestOf(clusterOverrides).filter((it) => names(it.spec.overrideSpec)) : [],
    namespaced: latestOf(overrides).filter(
      (it) => names(it.spec.overrideSpec) && (isCluster || it.metadata.namespace === placement.namespace),
    ),
  };
}

/**
 * The overrides that select one of the placed objects and have a rule for the cluster.
 *
 * @param placed - The keys of selectors that select placed objects, see `selectingKeys`.
 */
export function applicableOverrides(
  candidates: OverrideCandidates,
  placed: ReadonlySet<string>,
  cluster: OverriddenCluster,
): ApplicableOverrides {
  const rulesMatch = (it: ClusterResourceOverrideSnapshot | ResourceOverrideSnapshot): boolean =>
    it.spec.overrideSpec.policy.overrideRules.some((rule) => ruleMatches(rule, cluster));
  return {
    clusterResourceOverrideSnapshots: candidates.cluster
      .filter(({ spec }) =>
        spec.overrideSpec.clusterResourceSelectors.some(({ name = "", ...it }) =>
          placed.has(keyOfSelected({ ...it, name, namespace: undefined })),
        ),
      )
      .filter(rulesMatch)
      .map((it) => it.metadata.name),
    resourceOverrideSnapshots: candidates.namespaced
      .filter(({ metadata: { namespace }, spec }) =>
        spec.overrideSpec.resourceSelectors.some((it) => placed.has(keyOfSelected({ ...it, namespace }))),
      )
      .filter(rulesMatch)
      .map(({ metadata: { name, namespace = "" } }) => ({ name, namespace })),
  };
}
