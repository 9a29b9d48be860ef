import type {
  StagedUpdateRunStatus,
  StageUpdatingStatus,
} from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { statusOf } from "./conditions.ts";

/**
 * Whether the only difference is how far clusters are whose update goes well: a status that is written later, or is lost with the program,
 * then says no less than the bindings do. A stage with a cluster that failed is another matter: what is done about it relies on the status.
 */
export function isProgressOnly(before: StagedUpdateRunStatus, after: StagedUpdateRunStatus): boolean {
  return sameJson(outlineOf(before), outlineOf(after));
}

/** How many clusters a status has. */
export function clustersOf(status: StagedUpdateRunStatus): number {
  return stagesOf(status).reduce((sum, it) => sum + it.clusters.length, 0);
}

function stagesOf({ stagesStatus = [], deletionStageStatus: deletion }: StagedUpdateRunStatus) {
  return [...stagesStatus, ...(deletion === undefined ? [] : [deletion])];
}

function outlineOf(status: StagedUpdateRunStatus): object {
  const { stagesStatus: _stages, deletionStageStatus: _deletion, ...rest } = status;
  return { ...rest, stages: stagesOf(status).map(stageOutline) };
}

function stageOutline({ clusters, ...rest }: StageUpdatingStatus): object {
  const isGood = clusters.every((it) => statusOf(it, "Succeeded") !== "False");
  return { ...rest, clusters: isGood ? clusters.map((it) => it.clusterName) : clusters };
}
