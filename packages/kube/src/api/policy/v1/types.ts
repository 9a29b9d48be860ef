import { resource } from "../../meta/resource.ts";
import type { Condition, KubeObject, LabelSelector } from "../../meta/types.ts";

export interface PodDisruptionBudget extends KubeObject {
  spec?: {
    minAvailable?: number | string;
    maxUnavailable?: number | string;
    selector?: LabelSelector;
    unhealthyPodEvictionPolicy?: "IfHealthyBudget" | "AlwaysAllow";
  };
  status?: {
    observedGeneration?: number;
    /** Pods whose eviction was granted and that are not gone yet: name to when. */
    disruptedPods?: Record<string, string>;
    disruptionsAllowed: number;
    currentHealthy: number;
    desiredHealthy: number;
    expectedPods: number;
    conditions?: Condition[];
  };
}

export const POD_DISRUPTION_BUDGETS = resource<PodDisruptionBudget>(
  "policy/v1",
  "PodDisruptionBudget",
  "poddisruptionbudgets",
);
