import type { ResourceBinding } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import {
  APPLIED,
  AVAILABLE,
  currentCondition,
  DIFF_REPORTED,
  OVERRIDDEN,
  WORK_SYNCHRONIZED,
} from "../conditions.ts";

/** How far the resources of a binding are. `readyInMs`: when objects whose availability is not known count as available. */
export type Readiness =
  | { readonly kind: "ready" | "failed" }
  | { readonly kind: "pending"; readonly readyInMs?: number };

/** Reason of Available where the availability of some objects is not known: they count after a time. */
export const NOT_TRACKABLE = "NotAllWorkAreAvailabilityTrackable";
const FAILING = [OVERRIDDEN, WORK_SYNCHRONIZED, APPLIED, AVAILABLE];
/** Reasons of False while the member is still at work. */
const TRANSIENT = new Set([
  "OverriddenPending",
  "WorkNotSynchronizedYet",
  "ApplyPending",
  "ResourceNotAvailableYet",
]);

/** @param periodMs - How long after they were applied objects whose availability is not known count as unready. */
export function readinessOf(binding: ResourceBinding, nowMs: number, periodMs: number): Readiness {
  if (currentCondition(binding, DIFF_REPORTED)?.status === "True") return { kind: "ready" };
  const available = currentCondition(binding, AVAILABLE);
  if (available?.status === "True") {
    if (available.reason !== NOT_TRACKABLE) return { kind: "ready" };
    const readyInMs = Date.parse(available.lastTransitionTime) + periodMs - nowMs;
    // Of a time far ahead, a clock is to blame that was set back since: it must not hold up a rollout for as long.
    return readyInMs > 0 && readyInMs <= 2 * periodMs ? { kind: "pending", readyInMs } : { kind: "ready" };
  }
  return hasFailed(binding) ? { kind: "failed" } : { kind: "pending" };
}

export function hasFailed(binding: ResourceBinding): boolean {
  return FAILING.some((type) => {
    const condition = currentCondition(binding, type);
    return condition?.status === "False" && !TRANSIENT.has(condition.reason);
  });
}
