import type {
  StageConfig,
  StageTask,
  StagedUpdateStrategySpec,
  StageTaskStatus,
  StageUpdatingStatus,
} from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { parseDuration } from "@fairlead/base/duration.ts";
import { byText } from "@fairlead/base/text.ts";
import { type Labels, matcherOf } from "@fairlead/kube/objects/selector.ts";
import { approvalName, type Timing } from "./approvals.ts";

/** Names of so many clusters are shown in a message. */
const MAX_NAMED = 10;

/** The names that fit in a message. */
export function listed(names: Iterable<string>): string {
  const all = [...names].toSorted(byText);
  const shown = all.slice(0, MAX_NAMED).join(", ");
  return all.length > MAX_NAMED ? `${shown} and ${all.length - MAX_NAMED} more` : shown;
}

/** What is wrong with a strategy, where the schema cannot say it. */
export function faultOf({ stages }: StagedUpdateStrategySpec): string | undefined {
  const names = new Set<string>();
  for (const [at, stage] of stages.entries()) {
    const path = `spec.stages[${at}]`;
    if (names.has(stage.name)) return `${path}.name: two stages are named ${stage.name}`;
    names.add(stage.name);
    const fault = faultOfStage(stage);
    if (fault !== undefined) return `${path}.${fault}`;
  }
  return undefined;
}

function faultOfStage(stage: StageConfig): string | undefined {
  const { beforeStageTasks = [], afterStageTasks = [], progressDeadline } = stage;
  if (beforeStageTasks.some((it) => it.type !== "Approval"))
    return "beforeStageTasks: only an Approval can come before a stage";
  for (const [field, tasks] of Object.entries({ beforeStageTasks, afterStageTasks })) {
    if (new Set(tasks.map((it) => it.type)).size < tasks.length) return `${field}: two are of one type`;
    const fault = tasks.map(faultOfTask).find((it) => it !== undefined);
    if (fault !== undefined) return `${field}: ${fault}`;
  }
  if (progressDeadline !== undefined && !(durationMs(progressDeadline) > 0))
    return "progressDeadline: it must be a duration above 0";
  return undefined;
}

function faultOfTask({ type, waitTime }: StageTask): string | undefined {
  if (type === "Approval") return waitTime === undefined ? undefined : "an Approval has no waitTime";
  return durationMs(waitTime) > 0 ? undefined : "a TimedWait needs a waitTime above 0";
}

/** Unit: milliseconds. NaN where it is absent or no duration. */
export function durationMs(text: string | undefined): number {
  return text === undefined ? NaN : (parseDuration(text) ?? NaN);
}

/** The names of the clusters of each stage, in order; or why the stages do not divide them. */
export function divide(
  { stages }: StagedUpdateStrategySpec,
  clusters: ReadonlyMap<string, Labels>,
): { readonly stages: readonly (readonly string[])[] } | { readonly fault: string } {
  const stageOf = new Map<string, string>();
  const divided: string[][] = [];
  for (const stage of stages) {
    const matches = matcherOf(stage.labelSelector);
    const names = [...clusters].flatMap(([name, labels]) => (matches(labels) ? [name] : []));
    for (const name of names) {
      const other = stageOf.get(name);
      if (other !== undefined)
        return { fault: `cluster ${name} is in two stages, ${other} and ${stage.name}` };
      stageOf.set(name, stage.name);
    }
    const sorted = sort(stage, names, clusters);
    if ("fault" in sorted) return sorted;
    divided.push(sorted.names);
  }
  const rest = [...clusters.keys()].filter((it) => !stageOf.has(it));
  if (rest.length > 0)
    return { fault: `${rest.length} of ${clusters.size} clusters are in no stage: ${listed(rest)}` };
  return { stages: divided };
}

/** By the number in their label, those without it last; then by name. */
function sort(
  { name: stage, sortingLabelKey: key }: StageConfig,
  names: readonly string[],
  clusters: ReadonlyMap<string, Labels>,
): { readonly names: string[] } | { readonly fault: string } {
  if (key === undefined) return { names: names.toSorted(byText) };
  const ranks = new Map<string, number>();
  for (const name of names) {
    const value = clusters.get(name)?.[key];
    if (value !== undefined && !/^[+-]?\d+$/.test(value))
      return {
        fault: `stage ${stage}: label ${key}=${value} of cluster ${name} is not an integer, which sortingLabelKey needs`,
      };
    ranks.set(name, value === undefined ? Infinity : Number(value));
  }
  const rank = (name: string): number => ranks.get(name) ?? Infinity;
  return { names: names.toSorted((a, b) => (rank(a) === rank(b) ? byText(a, b) : rank(a) - rank(b))) };
}

/** A stage before it starts. */
export function newStage(
  run: string,
  config: StageConfig,
  clusters: StageUpdatingStatus["clusters"],
): StageUpdatingStatus {
  const tasks = (timing: Timing): StageTaskStatus[] =>
    (config[`${timing}StageTasks`] ?? []).map(({ type }) =>
      type === "Approval" ? { type, approvalRequestName: approvalName(run, timing, config.name) } : { type },
    );
  const [before, after] = [tasks("before"), tasks("after")];
  return {
    stageName: config.name,
    clusters,
    ...(before.length > 0 ? { beforeStageTaskStatus: before } : {}),
    ...(after.length > 0 ? { afterStageTaskStatus: after } : {}),
  };
}
