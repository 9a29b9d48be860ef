import { resource } from "@fairlead/kube/api/meta/resource.ts";
import type { Condition, KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { ApplyStrategy, PatchDetail, ReportBackStrategy } from "./placement.ts";

/** Objects to apply in a member: Work in its mailbox on the hub, AppliedWork in the member. */

export interface WorkIdentifier {
  /** Position in `spec.workload.manifests`, from 0. */
  ordinal: number;
  group?: string;
  version?: string;
  kind?: string;
  resource?: string;
  namespace?: string;
  name?: string;
}
export interface ManifestCondition {
  identifier: WorkIdentifier;
  conditions?: Condition[];
  driftDetails?: {
    observationTime: string;
    observedInMemberClusterGeneration: number;
    firstDriftedObservedTime: string;
    observedDrifts?: PatchDetail[];
  };
  diffDetails?: {
    observationTime: string;
    observedInMemberClusterGeneration?: number;
    firstDiffedObservedTime: string;
    observedDiffs?: PatchDetail[];
  };
  backReportedStatus?: { observedStatus: Record<string, unknown>; observationTime: string };
}
export interface Work extends KubeObject {
  spec: {
    workload?: { manifests?: KubeObject[] };
    /** Addition. Only objects in this namespace are applied. Absent: objects of any scope. */
    namespace?: string;
    applyStrategy?: ApplyStrategy;
    reportBackStrategy?: ReportBackStrategy;
  };
  status?: { conditions?: Condition[]; manifestConditions?: ManifestCondition[] };
}
/** Cluster-scoped, in the member, with the name of its Work: owner of every object that the Work applied. */
export interface AppliedWork extends KubeObject {
  spec: { workName: string; workNamespace: string };
  status?: { appliedResources?: (WorkIdentifier & { uid?: string })[] };
}

export const WORKS = resource<Work>("placement.kubernetes-fleet.io/v1beta1", "Work", "works");
export const APPLIED_WORKS = resource<AppliedWork>(
  "placement.kubernetes-fleet.io/v1beta1",
  "AppliedWork",
  "appliedworks",
  "Cluster",
);
