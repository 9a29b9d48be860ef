import { timestamp } from "@fairlead/kube/objects/conditions.ts";
import type {
  HealthCheck,
  MemberUpdateStatus,
  UpdateGroupStatus,
} from "#api/fairlead.dev/v1alpha1/updates.ts";
import { PROBED_BEFORE_MS, probersOf } from "./flows.ts";
import { checkOf, decide } from "./members.ts";
import { isKnown, type Walk } from "./walk.ts";

/** Members are probed for a while before their upgrade, so that what fails then can be compared with what failed before. */

function isProbed(walk: Walk, check: HealthCheck | undefined): check is HealthCheck {
  return check !== undefined && probersOf(check) > 0 && walk.facts.flows !== undefined;
}

/** Whether a member that could begin is still compared with itself. A member without anything to probe begins at once. */
export function areProbesAwaited(
  walk: Walk,
  { name, probedSince }: MemberUpdateStatus,
  check: HealthCheck | undefined,
): boolean {
  if (!isProbed(walk, check)) return false;
  if (probedSince === undefined) return true;
  const untilMs = Date.parse(probedSince) + PROBED_BEFORE_MS;
  const isIdle = walk.facts.flows?.(name, check.flows).isIdle === true && !looksUp(walk, name);
  if (walk.facts.nowMs >= untilMs || isIdle) return false;
  walk.again(untilMs);
  return true;
}

/** Whether the member has begun to ask its DNS, too few times for a comparison. */
function looksUp(walk: Walk, name: string): boolean {
  const observed = walk.facts.observe(name);
  const { lookups, failedLookupsPerMille } = (isKnown(observed) ? observed.measurements : undefined) ?? {};
  return lookups !== undefined && failedLookupsPerMille === undefined;
}

/** Begins the probes of those that come next. */
export function prepareProbes(walk: Walk, next: readonly MemberUpdateStatus[], stage: string): void {
  if (!isProbed(walk, checkOf(walk, stage))) return;
  const { nowMs } = walk.facts;
  for (const it of next) {
    if (it.probedSince !== undefined || decide(walk, it.name, stage).is !== "begin") continue;
    it.probedSince = timestamp(nowMs);
    it.message = "its services are probed before its upgrade";
    walk.again(nowMs + PROBED_BEFORE_MS);
  }
}

/** No member begins for now. */
export function endProbes({ members }: UpdateGroupStatus): void {
  for (const it of members)
    if (it.status.state !== "Running" && it.probedSince !== undefined) {
      delete it.probedSince;
      delete it.message;
    }
}
