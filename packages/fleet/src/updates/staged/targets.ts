import {
  NUMBER_OF_CLUSTERS_ANNOTATION,
  PLACEMENT_GENERATION_ANNOTATION,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import type {
  ResourceBinding,
  SchedulingPolicySnapshot,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";

/** The clusters of a placement, by name. */
export interface Targets {
  /** Those that the scheduler picked. */
  readonly scheduled: ReadonlyMap<string, ResourceBinding>;
  /** Those that it picked formerly, whose objects are still there. */
  readonly leaving: ReadonlyMap<string, ResourceBinding>;
}

export function targetsOf(bindings: Iterable<ResourceBinding>): Targets {
  const scheduled = new Map<string, ResourceBinding>();
  const leaving = new Map<string, ResourceBinding>();
  for (const it of bindings) (isLeaving(it) ? leaving : scheduled).set(it.spec.targetCluster, it);
  return { scheduled, leaving };
}

function isLeaving(binding: ResourceBinding): boolean {
  return binding.spec.state === "Unscheduled" || isDeleting(binding);
}

/** How many clusters the policy asks for; undefined if for all. */
export function clusterCountOf({ metadata, spec }: SchedulingPolicySnapshot): number | undefined {
  switch (spec.policy?.placementType) {
    case "PickFixed":
      return spec.policy?.clusterNames?.length ?? 0;
    case "PickN":
      return Number(
        metadata.annotations?.[NUMBER_OF_CLUSTERS_ANNOTATION] ?? spec.policy?.numberOfClusters ?? 0,
      );
    default:
      return undefined;
  }
}

/** Whether the scheduler has decided about the policy: "no" is its answer that it cannot pick what is asked for. */
export function schedulingOf(policy: SchedulingPolicySnapshot): "yes" | "no" | "pending" {
  const condition = findCondition(policy.status?.conditions, "Scheduled");
  if (condition === undefined || condition.status === "Unknown" || isOutdated(policy, condition))
    return "pending";
  return condition.status === "True" ? "yes" : "no";
}

/** Whether the scheduler's answer is about an older generation of the placement or of the snapshot. */
function isOutdated(
  { metadata, status }: SchedulingPolicySnapshot,
  { observedGeneration }: Condition,
): boolean {
  const { generation = 0, annotations } = metadata;
  const asked = Number(annotations?.[PLACEMENT_GENERATION_ANNOTATION] ?? 0);
  const [answered, observed] = [status?.observedCRPGeneration ?? asked, observedGeneration ?? generation];
  return answered < asked || observed < generation;
}
