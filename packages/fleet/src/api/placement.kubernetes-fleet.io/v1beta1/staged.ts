import { resource } from "@fairlead/kube/api/meta/resource.ts";
import type { Condition, KubeObject, LabelSelector } from "@fairlead/kube/api/meta/types.ts";
import type { ApplyStrategy, IntOrPercent, NamespacedName } from "./placement.ts";

/** Staged update runs of placements. The cluster-scoped kinds act on a ClusterResourcePlacement, the namespaced ones on a ResourcePlacement. */

export interface StageTask {
  type: "TimedWait" | "Approval";
  /** Go duration, for TimedWait. */
  waitTime?: string;
}
export interface StageConfig {
  name: string;
  /** Absent: no cluster. Empty: every cluster. */
  labelSelector?: LabelSelector;
  sortingLabelKey?: string;
  /** Default: 1. A percentage rounds down, to 1 at least. */
  maxConcurrency?: IntOrPercent;
  beforeStageTasks?: StageTask[];
  afterStageTasks?: StageTask[];
  /** How long a cluster may take until it is available; after that it counts as failed. Go duration. Default: no limit. Addition. */
  progressDeadline?: string;
  /** How many clusters may fail before the stage fails. A percentage rounds up. Default: 0. Addition. */
  maxFailures?: IntOrPercent;
  /** Rollback: clusters of a failed stage get back what they had. Default: Stop. Addition. */
  onFailure?: "Stop" | "Rollback";
}
export interface StagedUpdateStrategySpec {
  stages: StageConfig[];
}
export interface StagedUpdateStrategy extends KubeObject {
  spec: StagedUpdateStrategySpec;
}

export interface StageTaskStatus {
  type: "TimedWait" | "Approval";
  approvalRequestName?: string;
  conditions?: Condition[];
}
export interface ClusterUpdatingStatus {
  clusterName: string;
  resourceOverrideSnapshots?: NamespacedName[];
  clusterResourceOverrideSnapshots?: string[];
  conditions?: Condition[];
}
export interface StageUpdatingStatus {
  stageName: string;
  clusters: ClusterUpdatingStatus[];
  beforeStageTaskStatus?: StageTaskStatus[];
  afterStageTaskStatus?: StageTaskStatus[];
  /** RFC 3339. */
  startTime?: string;
  endTime?: string;
  conditions?: Condition[];
}
export interface StagedUpdateRunStatus {
  policySnapshotIndexUsed?: string;
  policyObservedClusterCount?: number;
  resourceSnapshotIndexUsed?: string;
  appliedStrategy?: ApplyStrategy;
  stagedUpdateStrategySnapshot?: StagedUpdateStrategySpec;
  stagesStatus?: StageUpdatingStatus[];
  deletionStageStatus?: StageUpdatingStatus;
  conditions?: Condition[];
}
export interface StagedUpdateRun extends KubeObject {
  spec: {
    placementName: string;
    /** Absent: the latest, made if needed. */
    resourceSnapshotIndex?: string;
    stagedRolloutStrategyName: string;
    /** Default: Initialize. */
    state?: "Initialize" | "Run" | "Stop";
    /** Replan: clusters that join or leave the placement are added to and removed from the stages. Default: Abort. Addition. */
    onPlacementChange?: "Abort" | "Replan";
  };
  status?: StagedUpdateRunStatus;
}
export interface ApprovalRequest extends KubeObject {
  spec: { parentStageRollout: string; targetStage: string };
  status?: { conditions?: Condition[] };
}

const GROUP_VERSION = "placement.kubernetes-fleet.io/v1beta1";

export const CLUSTER_STAGED_UPDATE_STRATEGIES = resource<StagedUpdateStrategy>(
  GROUP_VERSION,
  "ClusterStagedUpdateStrategy",
  "clusterstagedupdatestrategies",
  "Cluster",
);
export const STAGED_UPDATE_STRATEGIES = resource<StagedUpdateStrategy>(
  GROUP_VERSION,
  "StagedUpdateStrategy",
  "stagedupdatestrategies",
);
export const CLUSTER_STAGED_UPDATE_RUNS = resource<StagedUpdateRun>(
  GROUP_VERSION,
  "ClusterStagedUpdateRun",
  "clusterstagedupdateruns",
  "Cluster",
);
export const STAGED_UPDATE_RUNS = resource<StagedUpdateRun>(
  GROUP_VERSION,
  "StagedUpdateRun",
  "stagedupdateruns",
);
export const CLUSTER_APPROVAL_REQUESTS = resource<ApprovalRequest>(
  GROUP_VERSION,
  "ClusterApprovalRequest",
  "clusterapprovalrequests",
  "Cluster",
);
export const APPROVAL_REQUESTS = resource<ApprovalRequest>(
  GROUP_VERSION,
  "ApprovalRequest",
  "approvalrequests",
);
