import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import {
  PLACEMENT_DISRUPTION_BUDGETS,
  PLACEMENT_EVICTIONS,
  type PlacementDisruptionBudget,
  type PlacementEviction,
  RESOURCE_PLACEMENT_DISRUPTION_BUDGETS,
  RESOURCE_PLACEMENT_EVICTIONS,
} from "./v1beta1/overrides.ts";
import {
  CLUSTER_RESOURCE_BINDINGS,
  CLUSTER_RESOURCE_PLACEMENTS,
  CLUSTER_RESOURCE_SNAPSHOTS,
  CLUSTER_SCHEDULING_POLICY_SNAPSHOTS,
  type Placement,
  RESOURCE_BINDINGS,
  RESOURCE_PLACEMENTS,
  RESOURCE_SNAPSHOTS,
  type ResourceBinding,
  type ResourceSnapshot,
  SCHEDULING_POLICY_SNAPSHOTS,
  type SchedulingPolicySnapshot,
} from "./v1beta1/placement.ts";
import {
  APPROVAL_REQUESTS,
  type ApprovalRequest,
  CLUSTER_APPROVAL_REQUESTS,
  CLUSTER_STAGED_UPDATE_RUNS,
  CLUSTER_STAGED_UPDATE_STRATEGIES,
  STAGED_UPDATE_RUNS,
  STAGED_UPDATE_STRATEGIES,
  type StagedUpdateRun,
  type StagedUpdateStrategy,
} from "./v1beta1/staged.ts";

/** The kinds of one scope: those of ClusterResourcePlacements, or those of ResourcePlacements. */
export interface PlacementScope {
  readonly name: "cluster" | "namespaced";
  /** Before each condition type of the placement. */
  readonly conditionPrefix: "ClusterResourcePlacement" | "ResourcePlacement";
  readonly placements: Resource<Placement>;
  readonly policySnapshots: Resource<SchedulingPolicySnapshot>;
  readonly resourceSnapshots: Resource<ResourceSnapshot>;
  readonly bindings: Resource<ResourceBinding>;
  readonly runs: Resource<StagedUpdateRun>;
  readonly strategies: Resource<StagedUpdateStrategy>;
  readonly approvals: Resource<ApprovalRequest>;
  readonly evictions: Resource<PlacementEviction>;
  readonly budgets: Resource<PlacementDisruptionBudget>;
}

export const CLUSTER_SCOPE: PlacementScope = {
  name: "cluster",
  conditionPrefix: "ClusterResourcePlacement",
  placements: CLUSTER_RESOURCE_PLACEMENTS,
  policySnapshots: CLUSTER_SCHEDULING_POLICY_SNAPSHOTS,
  resourceSnapshots: CLUSTER_RESOURCE_SNAPSHOTS,
  bindings: CLUSTER_RESOURCE_BINDINGS,
  runs: CLUSTER_STAGED_UPDATE_RUNS,
  strategies: CLUSTER_STAGED_UPDATE_STRATEGIES,
  approvals: CLUSTER_APPROVAL_REQUESTS,
  evictions: PLACEMENT_EVICTIONS,
  budgets: PLACEMENT_DISRUPTION_BUDGETS,
};
export const NAMESPACED_SCOPE: PlacementScope = {
  name: "namespaced",
  conditionPrefix: "ResourcePlacement",
  placements: RESOURCE_PLACEMENTS,
  policySnapshots: SCHEDULING_POLICY_SNAPSHOTS,
  resourceSnapshots: RESOURCE_SNAPSHOTS,
  bindings: RESOURCE_BINDINGS,
  runs: STAGED_UPDATE_RUNS,
  strategies: STAGED_UPDATE_STRATEGIES,
  approvals: APPROVAL_REQUESTS,
  evictions: RESOURCE_PLACEMENT_EVICTIONS,
  budgets: RESOURCE_PLACEMENT_DISRUPTION_BUDGETS,
};
export const SCOPES: readonly PlacementScope[] = [CLUSTER_SCOPE, NAMESPACED_SCOPE];
