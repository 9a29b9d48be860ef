import { defined } from "@fairlead/base/defined.ts";
import type { ReplicaSet, WorkloadCondition } from "@fairlead/kube/api/apps/v1/types.ts";
import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { availableInMs, isActive, isReady, isTerminal, readySinceMs } from "../pods.ts";

/** What a ReplicaSet does with pods. Source: k8s.io/kubernetes, pkg/controller/replicaset and controller_utils.go. */

export interface ScalePlan {
  readonly create: number;
  readonly delete: readonly Pod[];
}

/** As upstream: at most this many pods are made or removed in one pass. */
const BURST = 500;

/** @param related - How many pods of the same owner run on each node: those of crowded nodes go first. */
export function planScale(
  replicaSet: ReplicaSet,
  own: readonly Pod[],
  related: ReadonlyMap<string, number>,
): ScalePlan {
  if (isDeleting(replicaSet)) return { create: 0, delete: [] };
  const active = own.filter(isActive);
  const missing = (replicaSet.spec?.replicas ?? 1) - active.length;
  if (missing >= 0) return { create: Math.min(missing, BURST), delete: [] };
  const surplus = Math.min(-missing, BURST);
  return { create: 0, delete: active.toSorted(byDispensability(related)).slice(0, surplus) };
}

/**
 * The first are the first to go. Source: ActivePodsWithRanks in controller_utils.go.
 *
 * @param related - As in `planScale`.
 */
export function byDispensability(related: ReadonlyMap<string, number>): (a: Pod, b: Pod) => number {
  const crowd = (pod: Pod): number => -(related.get(pod.spec?.nodeName ?? "") ?? 0);
  // Each is a rank; at equal ones the next decides.
  const ranks: readonly ((pod: Pod) => number)[] = [
    (pod) => ((pod.spec?.nodeName ?? "") === "" ? 0 : 1),
    (pod) => ["Pending", "Unknown", "Running"].indexOf(pod.status?.phase ?? "Pending"),
    (pod) => (isReady(pod) ? 1 : 0),
    deletionCost,
    crowd,
    // The one that served longest stays.
    (pod) => -(readySinceMs(pod) ?? 0),
    (pod) => -restarts(pod),
    (pod) => -Date.parse(pod.metadata.creationTimestamp ?? ""),
  ];
  return (a, b) => {
    for (const rank of ranks) {
      const difference = rank(a) - rank(b);
      if (difference !== 0 && !Number.isNaN(difference)) return difference;
    }
    return 0;
  };
}

function deletionCost(pod: Pod): number {
  return Number(pod.metadata.annotations?.["controller.kubernetes.io/pod-deletion-cost"] ?? 0) || 0;
}

function restarts(pod: Pod): number {
  return Math.max(0, ...(pod.status?.containerStatuses ?? []).map((it) => it.restartCount));
}

type ReplicaSetStatus = NonNullable<ReplicaSet["status"]>;

export interface StatusPlan {
  readonly status: ReplicaSetStatus;
  /** When a pod will count as available without anything else happening. Unit: milliseconds from now. */
  readonly checkInMs: number | undefined;
}

export function planStatus(
  replicaSet: ReplicaSet,
  own: readonly Pod[],
  at: { readonly nowMs: number; readonly conditions: WorkloadCondition[] },
): StatusPlan {
  const { minReadySeconds = 0, template } = replicaSet.spec ?? {};
  const labels = Object.entries(template?.metadata?.labels ?? {});
  const counted = own.filter((pod) => !isTerminal(pod) && !isDeleting(pod));
  const waits = counted.map((pod) => availableInMs(pod, minReadySeconds, at.nowMs));
  const pending = waits.filter((ms) => ms > 0 && Number.isFinite(ms));
  const hasAllLabels = (pod: Pod): boolean =>
    labels.every(([key, value]) => pod.metadata.labels?.[key] === value);
  const { generation } = replicaSet.metadata;
  return {
    status: {
      replicas: counted.length,
      fullyLabeledReplicas: counted.filter(hasAllLabels).length,
      readyReplicas: counted.filter(isReady).length,
      availableReplicas: waits.filter((ms) => ms === 0).length,
      terminatingReplicas: own.filter((pod) => isDeleting(pod) && !isTerminal(pod)).length,
      ...defined({ observedGeneration: generation }),
      ...(at.conditions.length === 0 ? {} : { conditions: at.conditions }),
    },
    checkInMs: pending.length === 0 ? undefined : Math.min(...pending),
  };
}
