import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { findCondition, type NewCondition, timestamp } from "@fairlead/kube/objects/conditions.ts";

/** How long what a member said of its pods counts when it says nothing more. Pure. */

/**
 * Services of a member that is gone are left within seconds; what is known of its pods is kept longer, so that policies hold
 * while it cannot report. After a day its addresses may be those of other pods, as blocks of fleet addresses are
 * (`RECLAIM_MS`). Unit: milliseconds.
 */
const IDENTITY_MAX_AGE_MS = 24 * 3600 * 1000;

export interface IdentityAge {
  /** Since when the member has not reported; undefined while it does. Unit: milliseconds. */
  readonly silentSinceMs: number | undefined;
  readonly isForgotten: boolean;
  /** When it will be forgotten. Unit: milliseconds from now. */
  readonly forgottenInMs: number | undefined;
}

export function identityAge(member: MemberCluster | undefined, nowMs: number): IdentityAge {
  const health = findCondition(member?.status?.conditions, "Healthy");
  const sinceMs = health?.status === "False" ? Date.parse(health.lastTransitionTime) : Number.NaN;
  return ageSince(Number.isNaN(sinceMs) ? undefined : sinceMs, nowMs);
}

export function ageSince(silentSinceMs: number | undefined, nowMs: number): IdentityAge {
  if (silentSinceMs === undefined) return { silentSinceMs, isForgotten: false, forgottenInMs: undefined };
  const leftMs = silentSinceMs + IDENTITY_MAX_AGE_MS - nowMs;
  return { silentSinceMs, isForgotten: leftMs <= 0, forgottenInMs: leftMs <= 0 ? undefined : leftMs };
}

export function ageCondition({ silentSinceMs, isForgotten }: IdentityAge): NewCondition {
  if (silentSinceMs === undefined)
    return {
      type: "Current",
      status: "True",
      reason: "HeartbeatReceived",
      message: "the member reports changes of its pods",
    };
  const end = timestamp(silentSinceMs + IDENTITY_MAX_AGE_MS);
  return {
    type: "Current",
    status: "False",
    reason: isForgotten ? "Forgotten" : "HeartbeatLost",
    message: isForgotten
      ? `the member has not reported since ${timestamp(silentSinceMs)}: other members do not know its pods any more`
      : `the member has not reported since ${timestamp(silentSinceMs)}: what other members know of its pods is as old, and counts until ${end}`,
  };
}
