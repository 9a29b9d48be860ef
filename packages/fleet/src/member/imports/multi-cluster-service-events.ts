import { LOAD_BALANCER_CONDITION } from "#api/fairlead.dev/multi-cluster-service.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";

interface Reported {
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
}

/** What `kubectl describe` shows of a MultiClusterService: what came to differ since its status was written last. Pure. */
export function planEvents(
  before: readonly Condition[] | undefined,
  next: readonly Omit<Condition, "lastTransitionTime">[],
): Reported[] {
  return next.flatMap((condition): Reported[] => {
    const was = before?.find((it) => it.type === condition.type);
    if (was?.status === condition.status && was.reason === condition.reason) return [];
    const { message } = condition;
    if (condition.type === LOAD_BALANCER_CONDITION)
      return [
        { type: condition.reason === "Pending" ? "Normal" : "Warning", reason: condition.reason, message },
      ];
    if (condition.type !== "Valid") return [];
    if (condition.status === "True") return [{ type: "Normal", reason: "FoundValidService", message }];
    return was?.status === "True" ? [{ type: "Normal", reason: "UnimportedService", message }] : [];
  });
}
