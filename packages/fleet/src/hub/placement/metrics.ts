import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { GaugeMetric, Labels } from "@fairlead/base/metrics.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { findCondition, isConditionTrue } from "@fairlead/kube/objects/conditions.ts";
import type { Informer } from "@fairlead/kube/types.ts";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { PlacementEviction } from "#api/placement.kubernetes-fleet.io/v1beta1/overrides.ts";
import type { Placement } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type {
  StagedUpdateRun,
  StageTaskStatus,
  StageUpdatingStatus,
} from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { currentCondition } from "#placement/status/events.ts";
import { changedMs, statusOf } from "#updates/staged/conditions.ts";
import type { PlacementInformers, ScopeInformers } from "./informers.ts";

/** KubeFleet's metrics of placements and runs, under its names and labels. */

/** A series; its value is a time. Unit: seconds since the Unix epoch. */
interface Sample {
  readonly labels: Labels;
  readonly value: number;
}

/** The first condition that is not True, or "Completed". */
export function placementSample(placement: Placement, prefix: string): Sample {
  const { name, namespace = "", generation = 0, creationTimestamp } = placement.metadata;
  const types = stepsOf(placement);
  const open = types.find((it) => currentCondition(placement, prefix + it)?.status !== "True");
  const found = currentCondition(placement, prefix + (open ?? types.at(-1)));
  const { status = "nil", reason = "nil", lastTransitionTime = creationTimestamp } = found ?? {};
  const state =
    open === undefined
      ? { conditionType: "Completed", status, reason: "Completed" }
      : { conditionType: prefix + open, status, reason };
  return {
    labels: { namespace, name, generation: String(generation), ...state },
    value: seconds(lastTransitionTime),
  };
}

function stepsOf({ spec }: Placement): readonly string[] {
  const isReport = spec.strategy?.applyStrategy?.type === "ReportDiff";
  const last = isReport ? ["DiffReported"] : ["Applied", "Available"];
  return ["Scheduled", "RolloutStarted", "Overridden", "WorkSynchronized", ...last];
}

/** The condition that says most; undefined before there is one. */
export function runSample({ metadata, spec, status }: StagedUpdateRun): Sample | undefined {
  const { name, namespace = "", generation } = metadata;
  const found = ["Succeeded", "Progressing", "Initialized"]
    .map((it) => findCondition(status?.conditions, it))
    .find((it) => it?.observedGeneration === generation);
  if (found === undefined) return undefined;
  const { type, reason, lastTransitionTime } = found;
  const labels = {
    namespace,
    name,
    state: spec.state ?? "Initialize",
    condition: type,
    status: found.status,
    reason,
    failureType: FAILURES[reason] ?? "none",
  };
  return { labels, value: seconds(lastTransitionTime) };
}
/** A run fails to initialize because of what users wrote; other failures need an investigation. */
const FAILURES: Readonly<Record<string, string>> = {
  UpdateRunInitializedFailed: "user_error",
  UpdateRunFailed: "internal_error",
  UpdateRunStuck: "internal_error",
};

export function evictionSample({ metadata: { name, creationTimestamp }, status }: PlacementEviction): Sample {
  const [valid, executed] = ["Valid", "Executed"].map((it) => findCondition(status?.conditions, it));
  const isCompleted = valid?.status === "False" || executed !== undefined;
  const labels = {
    name,
    isCompleted: String(isCompleted),
    isValid: isCompleted ? String(valid?.status === "True") : "unknown",
  };
  return { labels, value: seconds((executed ?? valid)?.lastTransitionTime ?? creationTimestamp) };
}

/** How long users took for the approvals that came between two versions of a run. Unit: seconds. */
export function approvalLatencies(
  before: StagedUpdateRun,
  after: StagedUpdateRun,
): { readonly taskType: string; readonly seconds: number }[] {
  const open = new Set(
    tasksOf(before)
      .filter(({ task }) => statusOf(task, "ApprovalRequestApproved") !== "True")
      .map(({ task }) => task.approvalRequestName),
  );
  return tasksOf(after).flatMap(({ task, taskType }) => {
    const [createdMs, approvedMs] = [
      changedMs(task, "ApprovalRequestCreated"),
      changedMs(task, "ApprovalRequestApproved"),
    ];
    if (createdMs === undefined || approvedMs === undefined || !open.has(task.approvalRequestName)) return [];
    return [{ taskType, seconds: Math.max(0, approvedMs - createdMs) / 1000 }];
  });
}

function tasksOf({ status }: StagedUpdateRun): { task: StageTaskStatus; taskType: string }[] {
  return (status?.stagesStatus ?? []).flatMap(({ beforeStageTaskStatus = [], afterStageTaskStatus = [] }) => [
    ...beforeStageTaskStatus.map((task) => ({ task, taskType: "beforeStage" })),
    ...afterStageTaskStatus.map((task) => ({ task, taskType: "afterStage" })),
  ]);
}

/** How long the clusters of the stages took whose last cluster was done between two versions of a run. Unit: seconds. */
export function stageDurations(before: StagedUpdateRun, after: StagedUpdateRun): number[] {
  const open = new Set(
    (before.status?.stagesStatus ?? []).filter((it) => !isDone(it)).map((it) => it.stageName),
  );
  return (after.status?.stagesStatus ?? []).flatMap((stage) => {
    const { stageName, startTime, clusters } = stage;
    if (startTime === undefined || clusters.length === 0 || !isDone(stage) || !open.has(stageName)) return [];
    const endMs = Math.max(...clusters.map((it) => changedMs(it, "Succeeded") ?? 0));
    return [Math.max(0, endMs - Date.parse(startTime)) / 1000];
  });
}

function isDone({ clusters }: StageUpdatingStatus): boolean {
  return clusters.every((it) => isConditionTrue(it.conditions, "Succeeded"));
}

function seconds(time: string | undefined): number {
  const ms = Date.parse(time ?? "");
  return Number.isNaN(ms) ? 0 : ms / 1000;
}

/** Gauges are computed at each scrape; all of them go when leadership ends. */
export function createPlacementMetrics(
  { cluster, namespaced }: Pick<PlacementInformers, "cluster" | "namespaced">,
  members: Informer<MemberCluster>,
  { metrics }: Pick<RuntimeDeps, "metrics">,
): Disposable {
  const stack = new DisposableStack();
  const scopes = [cluster, namespaced];
  const placements = metrics.gauge({
    name: "fleet_workload_placement_status_last_timestamp_seconds",
    help: "When the first condition of a placement that is not True changed.",
    labels: ["namespace", "name", "generation", "conditionType", "status", "reason"],
  });
  const evictions = metrics.gauge({
    name: "fleet_workload_eviction_complete",
    help: "When an eviction was decided or carried out.",
    labels: ["name", "isCompleted", "isValid"],
  });
  const runs = metrics.gauge({
    name: "fleet_workload_update_run_status_last_timestamp_seconds",
    help: "When the condition of a staged update run changed.",
    labels: ["namespace", "name", "state", "condition", "status", "reason", "failureType"],
  });
  const samples = (): (readonly [GaugeMetric, Sample])[] =>
    scopes.flatMap((of) => [
      ...each(of.placements, (it) => placementSample(it, of.scope.conditionPrefix), placements),
      ...each(of.evictions, evictionSample, evictions),
      ...each(of.runs, runSample, runs),
    ]);
  let shown: readonly (readonly [GaugeMetric, Sample])[] = [];
  const show = (next: typeof shown): void => {
    for (const [gauge, { labels }] of shown) gauge.remove(labels);
    for (const [gauge, { labels, value }] of next) gauge.set(labels, value);
    shown = next;
  };
  stack.use(metrics.onRender(() => show(samples())));
  stack.defer(() => show([]));
  for (const of of scopes) stack.use(observeRuns(of, { metrics }));
  stack.use(countJoins(members, { metrics }));
  return stack;
}

function each<T extends KubeObject>(
  { store }: Informer<T>,
  sample: (object: T) => Sample | undefined,
  gauge: GaugeMetric,
): (readonly [GaugeMetric, Sample])[] {
  return [...store.list()].flatMap((it) => {
    const found = sample(it);
    return found === undefined ? [] : [[gauge, found] as const];
  });
}

function observeRuns({ runs }: ScopeInformers, { metrics }: Pick<RuntimeDeps, "metrics">): Disposable {
  const latency = metrics.histogram({
    name: "fleet_workload_update_run_approval_request_latency_seconds",
    help: "From the creation of an approval request to its approval.",
    labels: ["namespace", "name", "taskType"],
    buckets: [60, 300, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400],
  });
  const duration = metrics.histogram({
    name: "fleet_workload_update_run_stage_cluster_updating_duration_seconds",
    help: "From the start of a stage to when its last cluster was done, without its tasks.",
    labels: ["namespace", "name"],
    buckets: [15, 30, 60, 120, 300, 600, 1800, 3600],
  });
  return runs.subscribe(({ before, after }) => {
    if (before === undefined) return;
    const { name, namespace = "" } = before.metadata;
    const labels = { namespace, name };
    if (after === undefined) {
      duration.remove(labels);
      for (const taskType of ["beforeStage", "afterStage"]) latency.remove({ ...labels, taskType });
      return;
    }
    for (const it of approvalLatencies(before, after))
      latency.observe({ ...labels, taskType: it.taskType }, it.seconds);
    for (const it of stageDurations(before, after)) duration.observe(labels, it);
  });
}

function countJoins(members: Informer<MemberCluster>, { metrics }: Pick<RuntimeDeps, "metrics">): Disposable {
  const [joined, left] = ["join", "leave"].map((it) =>
    metrics.counter({
      name: `${it}_result_counter`,
      help: `Members whose ${it} succeeded.`,
      labels: ["result"],
    }),
  );
  return members.subscribe(({ before, after }) => {
    const [was, is] = [before, after].map((it) => findCondition(it?.status?.conditions, "Joined")?.status);
    if (before === undefined || was === is) return;
    if (is === "True") joined?.add({ result: "success" });
    if (is === "False") left?.add({ result: "success" });
  });
}
