import type { TopologySpreadConstraint } from "@fairlead/kube/api/core/v1/affinity.ts";
import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { matcherOf } from "@fairlead/kube/objects/selector.ts";
import { matchesNode } from "../node-match.ts";
import { effectiveTaints, isHard, tolerates } from "../taints.ts";
import { withLabelKeys } from "./pod-affinity.ts";
import type { ClusterView, NodeView } from "./snapshot.ts";

/** Pods spread evenly over zones or nodes. Source: pkg/scheduler/framework/plugins/podtopologyspread. */

interface Spread {
  readonly constraint: TopologySpreadConstraint;
  /** Pods that count, by the value of the topology key; every value that a pod may go to is there. */
  readonly counts: ReadonlyMap<string, number>;
  /** Whether the pod itself will count. */
  readonly self: number;
}

function spreadOf(pod: Pod, cluster: ClusterView, constraint: TopologySpreadConstraint): Spread {
  const matches = matcherOf(withLabelKeys(constraint, pod.metadata.labels));
  const counts = new Map<string, number>();
  const hard = constraintsOf(pod, constraint.whenUnsatisfiable);
  for (const view of cluster.nodes) {
    const value = view.labelOf(constraint.topologyKey);
    const hasAllKeys = hard.every((it) => view.labelOf(it.topologyKey) !== undefined);
    if (value === undefined || !hasAllKeys || !mayCount(pod, constraint, view)) continue;
    const matching = view.pods.filter(
      (it) =>
        it.metadata.namespace === pod.metadata.namespace && !isDeleting(it) && matches(it.metadata.labels),
    );
    counts.set(value, (counts.get(value) ?? 0) + matching.length);
  }
  return { constraint, counts, self: matches(pod.metadata.labels) ? 1 : 0 };
}

function constraintsOf(pod: Pod, when: TopologySpreadConstraint["whenUnsatisfiable"]) {
  return (pod.spec?.topologySpreadConstraints ?? []).filter((it) => it.whenUnsatisfiable === when);
}

/** Nodes that the pod could not go to do not make a zone look empty (KEP-3094). */
function mayCount(pod: Pod, constraint: TopologySpreadConstraint, { node }: NodeView): boolean {
  const { nodeAffinityPolicy = "Honor", nodeTaintsPolicy = "Ignore" } = constraint;
  if (nodeAffinityPolicy === "Honor" && !matchesNode(pod, node)) return false;
  return (
    nodeTaintsPolicy === "Ignore" ||
    effectiveTaints(node).every((taint) => !isHard(taint) || tolerates(pod, taint))
  );
}

const MISMATCH = "node(s) didn't match pod topology spread constraints";

/** Why a node does not do; `isFinal` where no other pod's going could help. */
export function spreadRefusals(
  pod: Pod,
  cluster: ClusterView,
): (view: NodeView) => { readonly reason: string; readonly isFinal: boolean } | undefined {
  const spreads = constraintsOf(pod, "DoNotSchedule").map((it) => spreadOf(pod, cluster, it));
  return (view) => {
    for (const { constraint, counts, self } of spreads) {
      const value = view.labelOf(constraint.topologyKey);
      if (value === undefined) return { reason: `${MISMATCH} (missing required label)`, isFinal: true };
      const isShort = counts.size < (constraint.minDomains ?? 1);
      const least = isShort || counts.size === 0 ? 0 : Math.min(...counts.values());
      const skew = (counts.get(value) ?? 0) + self - least;
      if (skew > constraint.maxSkew) return { reason: MISMATCH, isFinal: false };
    }
    return undefined;
  };
}

/**
 * How many pods of its kind are where the node is, over all constraints that only ask. A node that lacks one of their
 * keys is not counted for any of them, and comes last (scoring.go, requireAllTopologies).
 */
export function crowding(pod: Pod, cluster: ClusterView): (view: NodeView) => number {
  const spreads = constraintsOf(pod, "ScheduleAnyway").map((it) => spreadOf(pod, cluster, it));
  const countOf = (view: NodeView): number | undefined => {
    let total = 0;
    for (const { constraint, counts } of spreads) {
      const value = view.labelOf(constraint.topologyKey);
      if (value === undefined) return undefined;
      total += counts.get(value) ?? 0;
    }
    return total;
  };
  const last = Math.max(0, ...cluster.nodes.map((view) => countOf(view) ?? 0)) + 1;
  return (view) => countOf(view) ?? last;
}
