import type { Condition, KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";

type WithConditions = KubeObject & { readonly status?: { readonly conditions?: readonly Condition[] } };

/** The condition, if it was written for the present generation of the object: one of an earlier generation says nothing. */
export function currentCondition(object: WithConditions, type: string): Condition | undefined {
  const found = findCondition(object.status?.conditions, type);
  return found?.observedGeneration === object.metadata.generation ? found : undefined;
}

/** Reasons of conditions of bindings, and the one of Works that availability depends on. */
export const ROLLOUT_STARTED = "RolloutStarted";
export const OVERRIDDEN = "Overridden";
export const WORK_SYNCHRONIZED = "WorkSynchronized";
export const APPLIED = "Applied";
export const AVAILABLE = "Available";
export const DIFF_REPORTED = "DiffReported";
