import { ACTIVE_CONDITION } from "#api/fairlead.dev/names.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";

/** On users' objects that stay when their cluster leaves. */
export function inactiveCondition(cluster: string): Omit<Condition, "lastTransitionTime"> {
  return {
    type: ACTIVE_CONDITION,
    status: "False",
    reason: "LeftFleet",
    message: `cluster ${cluster} has left its fleet: nothing is exported or imported until it joins one`,
  };
}
