import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import type {
  ResourceBinding,
  ResourceBindingSpec,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";

/** The time of tests, and of conditions that do not say another. */
export const NOW_MS = Date.UTC(2026, 0, 1);

/** "Type=Status Reason", with "@SECONDS" for the age of the condition and "^" for one of an earlier generation. */
export function condition(text: string): Condition {
  const [what = "", reason = "Reason", ...marks] = text.split(" ");
  const [type = "", status = ""] = what.split("=");
  const age = Number(marks.find((it) => it.startsWith("@"))?.slice(1) ?? "0");
  return {
    type,
    status: status as Condition["status"],
    reason,
    message: "",
    observedGeneration: marks.includes("^") ? 1 : 2,
    lastTransitionTime: new Date(NOW_MS - age * 1000).toISOString(),
  };
}

export const READY = "Available=True AllWorkAreAvailable";
export const FAILED = "Applied=False NotAllWorkHaveBeenApplied";

/** A binding of cluster `name`, which has the resources of `snapshot` unless it is Scheduled. */
export function bindingOf(
  name: string,
  state: ResourceBindingSpec["state"],
  {
    conditions = [],
    isDeleting = false,
    ...spec
  }: Partial<ResourceBindingSpec> & {
    readonly conditions?: readonly string[];
    readonly isDeleting?: boolean;
  } = {},
): ResourceBinding {
  return {
    metadata: {
      name: `app-${name}`,
      generation: 2,
      labels: { "kubernetes-fleet.io/parent-CRP": "app" },
      ...(isDeleting ? { deletionTimestamp: new Date(NOW_MS).toISOString() } : {}),
    },
    spec: {
      state,
      resourceSnapshotName: state === "Scheduled" ? "" : "app-0-snapshot",
      schedulingPolicySnapshotName: "app-0",
      targetCluster: name,
      clusterDecision: { clusterName: name, selected: true, reason: "picked" },
      ...spec,
    },
    status: { conditions: conditions.map(condition) },
  };
}
