import { resource } from "@fairlead/kube/api/meta/resource.ts";
import type { Condition, KubeObject, LabelSelector } from "@fairlead/kube/api/meta/types.ts";

/** Placements, their snapshots and bindings. A ClusterResourcePlacement and a ResourcePlacement have one shape. */

export interface ResourceSelector {
  group: string;
  version: string;
  kind: string;
  name?: string;
  labelSelector?: LabelSelector;
  /** For Namespaces only. Default: NamespaceWithResources. */
  selectionScope?: "NamespaceOnly" | "NamespaceWithResources" | "NamespaceWithResourceSelectors";
}

export interface PropertyExpression {
  name: string;
  operator: "Gt" | "Ge" | "Lt" | "Le" | "Eq" | "Ne";
  /** One quantity. */
  values: string[];
}
export interface PropertySorter {
  name: string;
  sortOrder: "Ascending" | "Descending";
}
export interface ClusterSelectorTerm {
  labelSelector?: LabelSelector;
  propertySelector?: { matchExpressions: PropertyExpression[] };
  propertySorter?: PropertySorter;
}
export interface PreferredClusterSelector {
  /** -100 to 100. */
  weight: number;
  preference: ClusterSelectorTerm;
}
export interface TopologySpreadConstraint {
  /** Default: 1. */
  maxSkew?: number;
  topologyKey: string;
  /** Default: DoNotSchedule. */
  whenUnsatisfiable?: "DoNotSchedule" | "ScheduleAnyway";
}
export interface Toleration {
  key?: string;
  /** Default: Equal. */
  operator?: "Equal" | "Exists";
  value?: string;
  effect?: "NoSchedule";
}
/** A requirement of a policy, by the plugin that checks it. */
export type ExecutionRequirement =
  | "ClusterAffinity"
  | "ClusterEligibility"
  | "NamespaceAffinity"
  | "TaintToleration";
/** What holds while a cluster has the placement, not only when it is picked. */
export interface RequiredDuringExecution {
  /** Default: ClusterAffinity and ClusterEligibility. */
  requirements?: ExecutionRequirement[];
  /** How long a cluster has to fail before it is replaced, and to pass before it is picked again. Unit: seconds. Default: 300. */
  afterSeconds?: number;
  /** How many clusters may be in replacement at the same time. A percentage rounds up. Default: 1. */
  maxReplacements?: IntOrPercent;
  /** Shortest time between two replacements. Unit: seconds. Default: 60. */
  intervalSeconds?: number;
}
export interface PlacementPolicy {
  /** Default: PickAll. */
  placementType?: "PickAll" | "PickN" | "PickFixed";
  clusterNames?: string[];
  numberOfClusters?: number;
  affinity?: {
    clusterAffinity?: {
      requiredDuringSchedulingIgnoredDuringExecution?: { clusterSelectorTerms: ClusterSelectorTerm[] };
      preferredDuringSchedulingIgnoredDuringExecution?: PreferredClusterSelector[];
    };
  };
  topologySpreadConstraints?: TopologySpreadConstraint[];
  tolerations?: Toleration[];
  /** Addition. Absent: a cluster that is picked stays, whatever becomes of it. */
  requiredDuringExecution?: RequiredDuringExecution;
}

export interface ApplyStrategy {
  /** Default: ClientSideApply. */
  type?: "ClientSideApply" | "ServerSideApply" | "ReportDiff";
  serverSideApplyConfig?: { force?: boolean };
  /** Default: PartialComparison. */
  comparisonOption?: "PartialComparison" | "FullComparison";
  /** Default: Always. */
  whenToApply?: "Always" | "IfNotDrifted";
  /** Default: Always. */
  whenToTakeOver?: "Always" | "IfNoDiff" | "Never";
  allowCoOwnership?: boolean;
  /** Addition. Placements that have it may share objects: the highest one decides. Absent: an object belongs to one placement. */
  sharedPriority?: number;
  /** Addition. When objects of these kinds are available. The first rule of a kind counts. */
  healthRules?: HealthRule[];
  /** Addition. Differences that are listed of one object, in the status of its Work. Default: 100. */
  maxDifferences?: number;
}
export interface HealthRule {
  /** Empty: the core group. */
  group?: string;
  kind: string;
  /** CEL expression over `object`, the object in the member. */
  available: string;
}
export interface ReportBackStrategy {
  type: "Disabled" | "Mirror";
  destination?: "OriginalResource" | "WorkAPI";
}
export type IntOrPercent = number | string;
export interface RolloutStrategy {
  /** Default: RollingUpdate. */
  type?: "RollingUpdate" | "External";
  rollingUpdate?: {
    /** Default: 25%. */
    maxUnavailable?: IntOrPercent;
    /** Default: 25%. */
    maxSurge?: IntOrPercent;
    /** Unit: seconds. Default: 60. */
    unavailablePeriodSeconds?: number;
  };
  applyStrategy?: ApplyStrategy;
  deleteStrategy?: { propagationPolicy?: "Abandon" | "Delete" };
  reportBackStrategy?: ReportBackStrategy;
}

export interface PlacementSpec {
  resourceSelectors: ResourceSelector[];
  policy?: PlacementPolicy;
  strategy?: RolloutStrategy;
  /** Default: 10. */
  revisionHistoryLimit?: number;
  /** Of a ClusterResourcePlacement. Default: ClusterScopeOnly. */
  statusReportingScope?: "ClusterScopeOnly" | "NamespaceAccessible";
}

export interface EnvelopeIdentifier {
  name: string;
  namespace?: string;
  type?: "ConfigMap" | "ClusterResourceEnvelope" | "ResourceEnvelope";
}
export interface ResourceIdentifier {
  group?: string;
  version: string;
  kind: string;
  name: string;
  namespace?: string;
  envelope?: EnvelopeIdentifier;
}
export interface PatchDetail {
  /** JSON pointer (RFC 6901). */
  path: string;
  valueInMember?: string;
  valueInHub?: string;
}
export interface FailedPlacement extends ResourceIdentifier {
  condition: Condition;
}
export interface DriftedPlacement extends ResourceIdentifier {
  observationTime: string;
  targetClusterObservedGeneration: number;
  firstDriftedObservedTime: string;
  observedDrifts?: PatchDetail[];
}
export interface DiffedPlacement extends ResourceIdentifier {
  observationTime: string;
  targetClusterObservedGeneration?: number;
  firstDiffedObservedTime: string;
  observedDiffs?: PatchDetail[];
}
export interface NamespacedName {
  name: string;
  namespace: string;
}
export interface PlacementDetails {
  failedPlacements?: FailedPlacement[];
  driftedPlacements?: DriftedPlacement[];
  diffedPlacements?: DiffedPlacement[];
}
export interface PerClusterPlacementStatus extends PlacementDetails {
  /** Undefined if no cluster could be picked. */
  clusterName?: string;
  observedResourceIndex?: string;
  applicableResourceOverrides?: NamespacedName[];
  applicableClusterResourceOverrides?: string[];
  conditions?: Condition[];
}
export interface PlacementStatus {
  selectedResources?: ResourceIdentifier[];
  observedResourceIndex?: string;
  placementStatuses?: PerClusterPlacementStatus[];
  conditions?: Condition[];
}
export interface Placement extends KubeObject {
  spec: PlacementSpec;
  status?: PlacementStatus;
}

export interface ClusterResourcePlacementStatus extends KubeObject {
  sourceStatus: PlacementStatus;
  lastUpdatedTime: string;
}

export interface ClusterDecision {
  clusterName: string;
  selected: boolean;
  /** `priorityScore` is the score of the topology spread. */
  clusterScore?: { affinityScore?: number; priorityScore?: number };
  reason: string;
}
export interface SchedulingPolicySnapshot extends KubeObject {
  spec: { policy?: PlacementPolicy; policyHash: string };
  status?: { observedCRPGeneration: number; conditions?: Condition[]; targetClusters?: ClusterDecision[] };
}
export interface ResourceSnapshot extends KubeObject {
  spec: { selectedResources: KubeObject[] };
  status?: { conditions?: Condition[] };
}

export interface ResourceBindingSpec {
  state: "Scheduled" | "Bound" | "Unscheduled";
  resourceSnapshotName: string;
  resourceOverrideSnapshots?: NamespacedName[];
  clusterResourceOverrideSnapshots?: string[];
  schedulingPolicySnapshotName: string;
  targetCluster: string;
  clusterDecision: ClusterDecision;
  applyStrategy?: ApplyStrategy;
}
export interface ResourceBinding extends KubeObject {
  spec: ResourceBindingSpec;
  status?: PlacementDetails & { conditions?: Condition[] };
}

const GROUP_VERSION = "placement.kubernetes-fleet.io/v1beta1";

export const CLUSTER_RESOURCE_PLACEMENTS = resource<Placement>(
  GROUP_VERSION,
  "ClusterResourcePlacement",
  "clusterresourceplacements",
  "Cluster",
);
export const RESOURCE_PLACEMENTS = resource<Placement>(
  GROUP_VERSION,
  "ResourcePlacement",
  "resourceplacements",
);
export const CLUSTER_RESOURCE_PLACEMENT_STATUSES = resource<ClusterResourcePlacementStatus>(
  GROUP_VERSION,
  "ClusterResourcePlacementStatus",
  "clusterresourceplacementstatuses",
);
export const CLUSTER_SCHEDULING_POLICY_SNAPSHOTS = resource<SchedulingPolicySnapshot>(
  GROUP_VERSION,
  "ClusterSchedulingPolicySnapshot",
  "clusterschedulingpolicysnapshots",
  "Cluster",
);
export const SCHEDULING_POLICY_SNAPSHOTS = resource<SchedulingPolicySnapshot>(
  GROUP_VERSION,
  "SchedulingPolicySnapshot",
  "schedulingpolicysnapshots",
);
export const CLUSTER_RESOURCE_SNAPSHOTS = resource<ResourceSnapshot>(
  GROUP_VERSION,
  "ClusterResourceSnapshot",
  "clusterresourcesnapshots",
  "Cluster",
);
export const RESOURCE_SNAPSHOTS = resource<ResourceSnapshot>(
  GROUP_VERSION,
  "ResourceSnapshot",
  "resourcesnapshots",
);
export const CLUSTER_RESOURCE_BINDINGS = resource<ResourceBinding>(
  GROUP_VERSION,
  "ClusterResourceBinding",
  "clusterresourcebindings",
  "Cluster",
);
export const RESOURCE_BINDINGS = resource<ResourceBinding>(
  GROUP_VERSION,
  "ResourceBinding",
  "resourcebindings",
);
