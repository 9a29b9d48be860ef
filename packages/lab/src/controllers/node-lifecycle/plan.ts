import { defined } from "@fairlead/base/defined.ts";
import type { Node, NodeCondition, Pod, Taint } from "@fairlead/kube/api/core/v1/types.ts";
import type { Clock } from "@fairlead/base/clock.ts";
import { findCondition, setCondition, timestamp } from "@fairlead/kube/objects/conditions.ts";
import { findToleration } from "../taints.ts";

/** What follows when a node falls silent. Source: pkg/controller/nodelifecycle, pkg/controller/tainteviction. */

const NOT_READY = "node.kubernetes.io/not-ready";
const UNREACHABLE = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE = "node.kubernetes.io/unschedulable";
const OWN_TAINTS = new Set([NOT_READY, UNREACHABLE, UNSCHEDULABLE]);
/** Conditions that only the kubelet can know. */
const KUBELET_CONDITIONS = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];
/** The tolerations that the admission plugin DefaultTolerationSeconds gives every pod. Unit: seconds. */
const DEFAULT_TOLERATION_SECONDS = 300;

/** The conditions of a node without heartbeats; the same array if they are already set. */
export function silentConditions(node: Node, clock: Clock): NodeCondition[] {
  let conditions = node.status?.conditions ?? [];
  for (const type of KUBELET_CONDITIONS) {
    const present = findCondition(conditions, type);
    if (present === undefined && type !== "Ready") continue;
    const reason = present === undefined ? "NodeStatusNeverUpdated" : "NodeStatusUnknown";
    const message =
      present === undefined ? "Kubelet never posted node status." : "Kubelet stopped posting node status.";
    if (present?.status === "Unknown") continue;
    const heartbeat = present?.lastHeartbeatTime;
    const next = {
      type,
      status: "Unknown" as const,
      reason,
      message,
      ...defined({ lastHeartbeatTime: heartbeat }),
    };
    conditions = setCondition<NodeCondition>(conditions, next, clock);
  }
  return conditions;
}

/** The taints that a node's conditions and `unschedulable` ask for; the same array when it has them. */
export function plannedTaints(node: Node, clock: Clock): Taint[] {
  const present = node.spec?.taints ?? [];
  const wanted = wantedTaints(node);
  const isSame = (a: Taint, b: Taint): boolean => a.key === b.key && a.effect === b.effect;
  const kept = present.filter((it) => !OWN_TAINTS.has(it.key) || wanted.some((other) => isSame(it, other)));
  const added = wanted.filter((it) => !present.some((other) => isSame(it, other)));
  if (kept.length === present.length && added.length === 0) return present;
  const timeAdded = timestamp(clock.now());
  return [...kept, ...added.map((it) => (it.effect === "NoExecute" ? { ...it, timeAdded } : it))];
}

function wantedTaints(node: Node): Taint[] {
  const status = findCondition(node.status?.conditions, "Ready")?.status ?? "Unknown";
  const both = (key: string): Taint[] => [
    { key, effect: "NoSchedule" },
    { key, effect: "NoExecute" },
  ];
  const cordoned: Taint[] =
    node.spec?.unschedulable === true ? [{ key: UNSCHEDULABLE, effect: "NoSchedule" }] : [];
  if (status === "True") return cordoned;
  return [...cordoned, ...both(status === "False" ? NOT_READY : UNREACHABLE)];
}

/**
 * When a pod has to leave its node: 0 is at once, Infinity never.
 *
 * @returns Unit: milliseconds from now.
 */
export function evictionInMs(pod: Pod, taints: readonly Taint[], nowMs: number): number {
  const waits = taints
    .filter((taint) => taint.effect === "NoExecute")
    .map((taint) => {
      const seconds = tolerationSeconds(pod, taint);
      const sinceMs = Date.parse(taint.timeAdded ?? "") || nowMs;
      return Math.max(0, sinceMs + seconds * 1000 - nowMs);
    });
  return Math.min(Number.POSITIVE_INFINITY, ...waits);
}

function tolerationSeconds(pod: Pod, taint: Taint): number {
  const toleration = findToleration(pod, taint);
  if (toleration !== undefined) return toleration.tolerationSeconds ?? Number.POSITIVE_INFINITY;
  return taint.key === NOT_READY || taint.key === UNREACHABLE ? DEFAULT_TOLERATION_SECONDS : 0;
}
