import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import type { PlacementDisruptionBudget } from "#api/placement.kubernetes-fleet.io/v1beta1/overrides.ts";
import type { Placement, ResourceBinding } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { AVAILABLE, currentCondition, DIFF_REPORTED } from "../conditions.ts";
import { isPercentage, roundedUp } from "../percent.ts";
import { targetOf } from "../rollout/plan.ts";
import { hasFailed } from "../rollout/readiness.ts";

export interface EvictionInput {
  readonly cluster: string;
  readonly placement: Placement | undefined;
  /** All of the placement. */
  readonly bindings: readonly ResourceBinding[];
  readonly budget: PlacementDisruptionBudget | undefined;
}

/** What becomes of an eviction. `evict`: the binding is deleted. */
export type EvictionVerdict =
  | { readonly kind: "executed" | "invalid" | "refused"; readonly message: string }
  | { readonly kind: "evict"; readonly binding: ResourceBinding; readonly message: string };

/** Whether the placement leaves the cluster; decided once. */
export function planEviction({ cluster, placement, bindings, budget }: EvictionInput): EvictionVerdict {
  const problem = problemOf(placement);
  if (placement === undefined || problem !== undefined)
    return { kind: "invalid", message: problem ?? "The placement does not exist" };
  const [binding, ...others] = bindings.filter((it) => it.spec.targetCluster === cluster);
  if (binding === undefined)
    return { kind: "invalid", message: `The placement has no binding for the cluster "${cluster}"` };
  if (others.length > 0)
    return {
      kind: "invalid",
      message: `The placement has ${others.length + 1} bindings for the cluster "${cluster}"`,
    };
  if (isDeleting(binding))
    return {
      kind: "executed",
      message: "The resources of the placement are already being removed from the cluster",
    };
  if (binding.spec.state === "Scheduled" || binding.spec.resourceSnapshotName === "")
    return { kind: "refused", message: "The placement has no resources in the cluster yet" };
  if (hasFailed(binding))
    return { kind: "evict", binding, message: "The placement has failed in the cluster: no budget applies" };
  if (currentCondition(binding, DIFF_REPORTED) !== undefined)
    return { kind: "evict", binding, message: "The placement only reports differences: no budget applies" };
  if (budget === undefined)
    return { kind: "evict", binding, message: "The placement has no disruption budget" };
  return planByBudget({ binding, placement, bindings, budget });
}

function problemOf(placement: Placement | undefined): string | undefined {
  if (placement === undefined) return undefined;
  if (isDeleting(placement)) return "The placement is being deleted";
  return placement.spec.policy?.placementType === "PickFixed"
    ? "The placement names its clusters (PickFixed): change the names instead"
    : undefined;
}

function planByBudget({
  binding,
  placement,
  bindings,
  budget,
}: {
  readonly binding: ResourceBinding;
  readonly placement: Placement;
  readonly bindings: readonly ResourceBinding[];
  readonly budget: PlacementDisruptionBudget;
}): EvictionVerdict {
  const problem = problemOfBudget(budget, placement);
  if (problem !== undefined)
    return { kind: "refused", message: `The disruption budget is not valid: ${problem}` };
  const target = targetOf(placement, bindings);
  const available = bindings.filter(isAvailable).length;
  const least = leastAvailable(budget, target);
  const rest = isAvailable(binding) ? available - 1 : available;
  const count = `${available} of ${target} clusters are available, and the disruption budget asks for ${Math.max(0, least)}`;
  return rest >= least
    ? { kind: "evict", binding, message: `The disruption budget allows the eviction: ${count}` }
    : { kind: "refused", message: `The disruption budget does not allow the eviction: ${count}` };
}

/** Which of both forms a placement on all clusters can have: their number is not known beforehand. */
export function problemOfBudget(
  { spec: { maxUnavailable, minAvailable } }: PlacementDisruptionBudget,
  placement: Pick<Placement, "spec">,
): string | undefined {
  if (maxUnavailable !== undefined && minAvailable !== undefined)
    return "spec: maxUnavailable and minAvailable cannot both be set";
  if ((placement.spec.policy?.placementType ?? "PickAll") !== "PickAll") return undefined;
  if (maxUnavailable !== undefined)
    return "spec.maxUnavailable is not allowed for a placement of type PickAll";
  return minAvailable !== undefined && isPercentage(minAvailable)
    ? "spec.minAvailable of a placement of type PickAll is an integer"
    : undefined;
}

/** How many clusters stay available. A budget that says nothing allows all. */
function leastAvailable(
  { spec: { maxUnavailable, minAvailable } }: PlacementDisruptionBudget,
  target: number,
): number {
  if (maxUnavailable !== undefined) return target - roundedUp(maxUnavailable, target);
  return minAvailable === undefined ? 0 : roundedUp(minAvailable, target);
}

function isAvailable(binding: ResourceBinding): boolean {
  return (
    binding.spec.state === "Bound" &&
    !isDeleting(binding) &&
    currentCondition(binding, AVAILABLE)?.status === "True"
  );
}
