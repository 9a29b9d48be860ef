import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { sidecarsOf } from "./restart.ts";
import type { Ended } from "./status.ts";

/** How a pod comes to its end. Pure. */

/**
 * The running containers to stop next: first all that are not sidecars, then the sidecars one by one, the last
 * one first (KEP-753).
 */
export function nextToEnd(pod: Pod, running: readonly string[]): ReadonlySet<string> {
  const sidecars = sidecarsOf(pod).map((it) => it.name);
  const others = running.filter((it) => !sidecars.includes(it));
  if (others.length > 0) return new Set(others);
  return new Set(sidecars.filter((it) => running.includes(it)).slice(-1));
}

/** When the pod's `activeDeadlineSeconds` are over. Unit: milliseconds since the Unix epoch. */
export function deadlineOf({ spec, status }: Pod): number | undefined {
  const seconds = spec?.activeDeadlineSeconds;
  if (status?.startTime === undefined || seconds === undefined) return undefined;
  return Date.parse(status.startTime) + seconds * 1000;
}

/** Source: pkg/kubelet/active_deadline.go. */
export const DEADLINE_EXCEEDED: Ended = {
  reason: "DeadlineExceeded",
  message: "Pod was active on the node longer than the specified deadline",
};
