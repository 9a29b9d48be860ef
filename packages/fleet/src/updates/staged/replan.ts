import type {
  StagedUpdateRun,
  StagedUpdateRunStatus,
  StageUpdatingStatus,
} from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { cloneJson } from "@fairlead/base/json.ts";
import { byText } from "@fairlead/base/text.ts";
import { joinedClusters, leftClusters } from "./changes.ts";
import { isFinal, mark } from "./conditions.ts";
import { type Ground, labelled, momentOf, type OverridesOf, policyUsed } from "./initialize.ts";
import { divide } from "./stages.ts";
import { schedulingOf, type Targets, targetsOf } from "./targets.ts";

/**
 * The status of a run with the clusters that its placement has now: clusters that joined are in the stage that selects them, or in
 * the first that is not done where that is; clusters that left are in the last stage. Undefined: the scheduler has not decided yet.
 */
export function replan(
  run: StagedUpdateRun,
  { policy, bindings, labelsOf }: Pick<Ground, "policy" | "bindings" | "labelsOf">,
  overridesOf: OverridesOf,
  nowMs: number,
): StagedUpdateRunStatus | undefined {
  if (policy === undefined || schedulingOf(policy) === "pending") return undefined;
  const targets = targetsOf(bindings);
  const status = cloneJson(run.status ?? {});
  const joined = joinedClusters(status, targets);
  const left = leftClusters(status, targets);
  const { stagesStatus: stages = [], stagedUpdateStrategySnapshot: strategy = { stages: [] } } = status;
  const divided = divide(strategy, labelled(joined, labelsOf));
  if ("fault" in divided) {
    const message = `the update run cannot be planned again: ${divided.fault}`;
    mark(status, momentOf(run, nowMs), ["Progressing", "False", "UpdateRunFailed", message]);
    mark(status, momentOf(run, nowMs), ["Succeeded", "False", "UpdateRunFailed", message]);
    return status;
  }
  for (const stage of stages)
    stage.clusters = stage.clusters.filter(({ clusterName: it }) => !left.has(it) && !joined.has(it));
  for (const [at, names] of divided.stages.entries())
    stageFor(stages, at)?.clusters.push(...names.map((it) => ({ clusterName: it, ...overridesOf(it) })));
  addLeaving(status.deletionStageStatus, targets);
  Object.assign(status, policyUsed(policy, targets));
  return status;
}

function addLeaving(stage: StageUpdatingStatus | undefined, { leaving }: Targets): void {
  const listed = new Set(stage?.clusters.map((it) => it.clusterName));
  const added = [...leaving.keys()].filter((it) => !listed.has(it)).toSorted(byText);
  stage?.clusters.push(...added.map((clusterName) => ({ clusterName })));
}

/** A cluster that no open stage can take is shown in its own, and needs another run. */
function stageFor(stages: readonly StageUpdatingStatus[], at: number): StageUpdatingStatus | undefined {
  const own = stages[at];
  if (own === undefined || !isFinal(own)) return own;
  return stages.find((it) => !isFinal(it)) ?? own;
}
