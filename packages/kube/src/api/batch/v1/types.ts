import type { Pod, PodTemplateSpec } from "../../core/v1/types.ts";
import { resource } from "../../meta/resource.ts";
import type { KubeObject, LabelSelector } from "../../meta/types.ts";

/** Kinds of the group batch, cut to the fields this project reads or writes. */

export interface JobCondition {
  type: "Suspended" | "Complete" | "Failed" | "FailureTarget" | "SuccessCriteriaMet";
  status: "True" | "False" | "Unknown";
  reason?: string;
  message?: string;
  lastProbeTime?: string;
  lastTransitionTime?: string;
}

export interface PodFailurePolicyRule {
  action: "FailJob" | "FailIndex" | "Ignore" | "Count";
  onExitCodes?: { containerName?: string; operator: "In" | "NotIn"; values: number[] };
  onPodConditions?: { type: string; status?: "True" | "False" | "Unknown" }[];
}

export interface SuccessPolicyRule {
  succeededIndexes?: string;
  succeededCount?: number;
}

export interface JobSpec {
  parallelism?: number;
  /** Absent: done as soon as one pod succeeds and none runs. */
  completions?: number;
  completionMode?: "NonIndexed" | "Indexed";
  backoffLimit?: number;
  backoffLimitPerIndex?: number;
  maxFailedIndexes?: number;
  /** Unit: seconds. */
  activeDeadlineSeconds?: number;
  /** Unit: seconds. */
  ttlSecondsAfterFinished?: number;
  suspend?: boolean;
  podReplacementPolicy?: "TerminatingOrFailed" | "Failed";
  podFailurePolicy?: { rules: PodFailurePolicyRule[] };
  successPolicy?: { rules: SuccessPolicyRule[] };
  /** Another controller than Kubernetes' own. */
  managedBy?: string;
  selector?: LabelSelector;
  template: PodTemplateSpec;
}

export interface JobStatus {
  startTime?: string;
  completionTime?: string;
  active?: number;
  ready?: number;
  terminating?: number;
  succeeded?: number;
  failed?: number;
  completedIndexes?: string;
  failedIndexes?: string;
  /** Pods that ended, have their finalizer still and are not in the counts yet: uids. */
  uncountedTerminatedPods?: { succeeded?: string[]; failed?: string[] };
  conditions?: JobCondition[];
}

export interface Job extends KubeObject {
  spec?: JobSpec;
  status?: JobStatus;
}

/** Kept by a pod of a Job until it is in the Job's counts (KEP-2307). */
export const JOB_TRACKING_FINALIZER = "batch.kubernetes.io/job-tracking";

export function isTracked(pod: Pod): boolean {
  return pod.metadata.finalizers?.includes(JOB_TRACKING_FINALIZER) === true;
}

export interface CronJob extends KubeObject {
  spec?: { schedule: string; suspend?: boolean; jobTemplate: { spec: JobSpec } };
}

export const CRON_JOBS = resource<CronJob>("batch/v1", "CronJob", "cronjobs");
export const JOBS = resource<Job>("batch/v1", "Job", "jobs");
