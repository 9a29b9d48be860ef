import { resource } from "../../meta/resource.ts";
import type { KubeObject, LabelSelector } from "../../meta/types.ts";
import type { PodTemplateSpec } from "../../core/v1/types.ts";

export interface WorkloadCondition {
  type: string;
  status: "True" | "False" | "Unknown";
  reason?: string;
  message?: string;
  lastUpdateTime?: string;
  lastTransitionTime?: string;
}

export interface Deployment extends KubeObject {
  spec?: {
    replicas?: number;
    selector: LabelSelector;
    template: PodTemplateSpec;
    strategy?: {
      type?: "RollingUpdate" | "Recreate";
      rollingUpdate?: { maxSurge?: number | string; maxUnavailable?: number | string };
    };
    /** Unit: seconds. */
    minReadySeconds?: number;
    revisionHistoryLimit?: number;
    /** Unit: seconds. */
    progressDeadlineSeconds?: number;
    paused?: boolean;
  };
  status?: {
    observedGeneration?: number;
    replicas?: number;
    updatedReplicas?: number;
    readyReplicas?: number;
    availableReplicas?: number;
    unavailableReplicas?: number;
    terminatingReplicas?: number;
    collisionCount?: number;
    conditions?: WorkloadCondition[];
  };
}

export interface ReplicaSet extends KubeObject {
  spec?: { replicas?: number; selector: LabelSelector; template?: PodTemplateSpec; minReadySeconds?: number };
  status?: {
    observedGeneration?: number;
    replicas: number;
    fullyLabeledReplicas?: number;
    readyReplicas?: number;
    availableReplicas?: number;
    terminatingReplicas?: number;
    conditions?: WorkloadCondition[];
  };
}

export interface StatefulSet extends KubeObject {
  spec?: {
    replicas?: number;
    selector: LabelSelector;
    template: PodTemplateSpec;
    serviceName?: string;
    podManagementPolicy?: "OrderedReady" | "Parallel";
    updateStrategy?: {
      type?: "RollingUpdate" | "OnDelete";
      rollingUpdate?: { partition?: number; maxUnavailable?: number | string };
    };
    ordinals?: { start?: number };
    /** Unit: seconds. */
    minReadySeconds?: number;
    revisionHistoryLimit?: number;
    volumeClaimTemplates?: unknown[];
  };
  status?: {
    observedGeneration?: number;
    replicas: number;
    readyReplicas?: number;
    availableReplicas?: number;
    currentReplicas?: number;
    updatedReplicas?: number;
    currentRevision?: string;
    updateRevision?: string;
    collisionCount?: number;
    conditions?: WorkloadCondition[];
  };
}

export interface DaemonSet extends KubeObject {
  spec?: {
    selector: LabelSelector;
    template: PodTemplateSpec;
    updateStrategy?: {
      type?: "RollingUpdate" | "OnDelete";
      rollingUpdate?: { maxUnavailable?: number | string; maxSurge?: number | string };
    };
    /** Unit: seconds. */
    minReadySeconds?: number;
    revisionHistoryLimit?: number;
  };
  status?: {
    observedGeneration?: number;
    currentNumberScheduled: number;
    desiredNumberScheduled: number;
    numberMisscheduled: number;
    numberReady: number;
    numberAvailable?: number;
    numberUnavailable?: number;
    updatedNumberScheduled?: number;
    collisionCount?: number;
    conditions?: WorkloadCondition[];
  };
}

/** A state of a template that its workload had, or has. */
export interface ControllerRevision extends KubeObject {
  data?: unknown;
  revision: number;
}

export const DEPLOYMENTS = resource<Deployment>("apps/v1", "Deployment", "deployments");
export const REPLICA_SETS = resource<ReplicaSet>("apps/v1", "ReplicaSet", "replicasets");
export const STATEFUL_SETS = resource<StatefulSet>("apps/v1", "StatefulSet", "statefulsets");
export const DAEMON_SETS = resource<DaemonSet>("apps/v1", "DaemonSet", "daemonsets");
export const CONTROLLER_REVISIONS = resource<ControllerRevision>(
  "apps/v1",
  "ControllerRevision",
  "controllerrevisions",
);
