import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";
import type { KubeObject, OwnerReference } from "@fairlead/kube/api/meta/types.ts";
import { findCondition, isConditionTrue } from "@fairlead/kube/objects/conditions.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";

/** Readings of a pod that several controllers share. Source: k8s.io/kubernetes, pkg/api/v1/pod. */

export function isReady(pod: Pod): boolean {
  return isConditionTrue(pod.status?.conditions, "Ready");
}

/** Its containers ended and none starts again. */
export function isTerminal(pod: Pod): boolean {
  return pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed";
}

/** Counts towards the replicas of its controller. */
export function isActive(pod: Pod): boolean {
  return !isTerminal(pod) && !isDeleting(pod);
}

/** When the pod became ready; undefined while it is not. Unit: milliseconds since the epoch. */
export function readySinceMs(pod: Pod): number | undefined {
  const condition = findCondition(pod.status?.conditions, "Ready");
  return condition?.status === "True" ? Date.parse(condition.lastTransitionTime ?? "") || 0 : undefined;
}

/** How long until the pod was ready for `minReadySeconds`: 0 when it is available, Infinity while it is not ready. */
export function availableInMs(pod: Pod, minReadySeconds: number, nowMs: number): number {
  const sinceMs = readySinceMs(pod);
  if (sinceMs === undefined) return Number.POSITIVE_INFINITY;
  return minReadySeconds === 0 ? 0 : Math.max(0, sinceMs + minReadySeconds * 1000 - nowMs);
}

export function controllerOf(object: KubeObject): OwnerReference | undefined {
  return object.metadata.ownerReferences?.find((owner) => owner.controller === true);
}

export function isControlledBy(object: KubeObject, owner: KubeObject): boolean {
  return controllerOf(object)?.uid === owner.metadata.uid;
}
