import { ENDPOINTS, GLOBAL_SERVICE, TRAFFIC } from "#api/fairlead.dev/names.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";

interface Reported {
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
}

/** By reason of a condition: the reason of the event, where other agents and their users know it by another name. */
const REASONS: Readonly<Record<string, string>> = {
  ServiceIsValid: "ValidServiceExport",
  ServiceIneligible: "ServiceNotEligible",
  ServicePendingConflictResolution: "PendingExportConflictResolution",
  ConflictFound: "ServiceExportConflictFound",
  NoConflictFound: "NoServiceExportConflictFound",
};

const REPORTED_TYPES = new Set(["Valid", "Conflict", TRAFFIC, ENDPOINTS, GLOBAL_SERVICE]);

/**
 * What `kubectl describe` shows of a ServiceExport: what came to differ since its status was written last, once. That
 * something is fine is worth telling only where it was not said before.
 */
export function planEvents(
  before: readonly Condition[] | undefined,
  next: readonly Omit<Condition, "lastTransitionTime">[],
): Reported[] {
  return next.flatMap((condition): Reported[] => {
    const was = before?.find((it) => it.type === condition.type);
    if (!REPORTED_TYPES.has(condition.type)) return [];
    if (was?.status === condition.status && was.reason === condition.reason) return [];
    const isFine = condition.status === (condition.type === "Conflict" ? "False" : "True");
    const isPending = condition.status === "Unknown";
    return [
      {
        type: isFine || isPending ? "Normal" : "Warning",
        reason: REASONS[condition.reason] ?? condition.reason,
        message: condition.message,
      },
    ];
  });
}
