import type { Node, Pod, Taint, Toleration } from "@fairlead/kube/api/core/v1/types.ts";
import { isConditionTrue } from "@fairlead/kube/objects/conditions.ts";

/** Which pods a taint keeps away. Source: Kubernetes documentation, "Taints and Tolerations". */

export const NOT_READY = "node.kubernetes.io/not-ready";
export const UNREACHABLE = "node.kubernetes.io/unreachable";
export const UNSCHEDULABLE = "node.kubernetes.io/unschedulable";

export function tolerates(pod: Pick<Pod, "spec">, taint: Taint): boolean {
  return findToleration(pod, taint) !== undefined;
}

export function findToleration(pod: Pick<Pod, "spec">, taint: Taint): Toleration | undefined {
  return (pod.spec?.tolerations ?? []).find((it) => isTolerated(it, taint));
}

function isTolerated(toleration: Toleration, taint: Taint): boolean {
  const { key = "", operator = "", effect = "" } = toleration;
  if (effect !== "" && effect !== taint.effect) return false;
  if (key === "") return operator === "Exists";
  if (key !== taint.key) return false;
  return operator === "Exists" || (operator !== "Lt" && operator !== "Gt" && sameValue(toleration, taint));
}

function sameValue(toleration: Toleration, taint: Taint): boolean {
  return (toleration.value ?? "") === (taint.value ?? "");
}

/** The taints of the node, and the taint of a node that is not ready, which it may not have yet. */
export function effectiveTaints(node: Node): readonly Taint[] {
  const present = node.spec?.taints ?? [];
  if (isConditionTrue(node.status?.conditions, "Ready")) return present;
  return [...present, { key: NOT_READY, effect: "NoSchedule" }];
}

/** Keeps pods away for good or until it goes: `PreferNoSchedule` does not. */
export function isHard(taint: Taint): boolean {
  return taint.effect !== "PreferNoSchedule";
}
