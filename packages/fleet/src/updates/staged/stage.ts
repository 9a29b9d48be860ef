import type {
  ClusterUpdatingStatus,
  StageConfig,
  StageUpdatingStatus,
} from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { timestamp } from "@fairlead/kube/objects/conditions.ts";
import { completeStrategy } from "#placement/rollout/plan.ts";
import { concurrencyOf, tolerance } from "./amounts.ts";
import { isAt, isReady, sameStrategy, versionFor } from "./binding.ts";
import { changedMs, isFinal, mark, statusOf } from "./conditions.ts";
import { Abort, type Pass, type Step, STUCK_AFTER_MS } from "./pass.ts";
import { previousOf, rollBack } from "./rollback.ts";
import { durationMs, listed } from "./stages.ts";
import { areTasksDone } from "./tasks.ts";

interface At {
  readonly pass: Pass;
  readonly stage: StageUpdatingStatus;
  readonly config: StageConfig;
}

/** Advances a stage as far as it goes now. The stages before it are done. */
export function stepStage(pass: Pass, stage: StageUpdatingStatus, config: StageConfig): Step {
  const at: At = { pass, stage, config };
  if (stage.clusters.length === 0) {
    finish(at, "True", "StageUpdatingSkippedNoClusters", "the stage has no clusters");
    return { at: "done" };
  }
  for (const it of stage.clusters) if (isInFlight(it)) observe(at, it);
  const step = hasFailed(at) ? fail(at) : stage.clusters.every(isFinal) ? stepAfter(at) : stepClusters(at);
  report(at, step);
  return step;
}

function isInFlight(cluster: ClusterUpdatingStatus): boolean {
  return statusOf(cluster, "Started") === "True" && !isFinal(cluster);
}

function inFlight({ stage }: At): ClusterUpdatingStatus[] {
  return stage.clusters.filter(isInFlight);
}

function stepClusters(at: At): Step {
  const { pass, stage, config } = at;
  const isUntouched = stage.startTime === undefined;
  if (pass.isStopped) return { at: inFlight(at).length > 0 ? "stopping" : "stopped" };
  if (
    isUntouched &&
    !areTasksDone(pass, { config, timing: "before", tasks: stage.beforeStageTaskStatus ?? [], sinceMs: 0 })
  )
    return { at: "waiting", message: `stage ${config.name} waits for its tasks before it starts` };
  stage.startTime ??= timestamp(pass.nowMs);
  startClusters(at);
  if (stage.clusters.every(isFinal)) return stepAfter(at);
  return stuck(at) ?? { at: "progressing" };
}

/** First those that have the version already, and so need no write; then others, as many as may be updated at a time. */
function startClusters(at: At): void {
  const { pass, stage, config } = at;
  const waiting = stage.clusters.filter((it) => statusOf(it, "Started") !== "True");
  const max = concurrencyOf(config.maxConcurrency, stage.clusters.length);
  let slots = max - inFlight(at).length - failedNow(at);
  const [there, others] = [true, false].map((wanted) => waiting.filter((it) => isThere(at, it) === wanted));
  for (const it of there ?? []) {
    const isDone = isReady(bindingOf(pass, it));
    if (!isDone && slots <= 0) continue;
    start(at, it, "the cluster has the resources of the update run already");
    observe(at, it);
    if (!isDone) slots -= 1;
  }
  for (const it of (others ?? []).slice(0, Math.max(0, slots))) {
    const binding = bindingOf(pass, it);
    const version = versionFor(it, pass.resourceSnapshotName);
    pass.bind.push({
      binding,
      spec: { state: "Bound", ...version, applyStrategy: completeStrategy(pass.before.appliedStrategy) },
      previous: config.onFailure === "Rollback" ? previousOf(pass.run, binding) : null,
    });
    start(at, it, "the update of the cluster has started");
  }
}

/**
 * Clusters of which the status does not have the failure yet. Others are started in their place once it has: a pass after a crash would
 * find both in progress.
 */
function failedNow({ pass, stage }: At): number {
  const before = pass.before.stagesStatus?.find((it) => it.stageName === stage.stageName)?.clusters ?? [];
  const failures = new Set(before.filter(hasFailedToUpdate).map((it) => it.clusterName));
  return stage.clusters.filter((it) => hasFailedToUpdate(it) && !failures.has(it.clusterName)).length;
}

function start({ pass }: At, cluster: ClusterUpdatingStatus, message: string): void {
  mark(cluster, pass, ["Started", "True", "ClusterUpdatingStarted", message]);
}

function isThere({ pass }: At, cluster: ClusterUpdatingStatus): boolean {
  const binding = bindingOf(pass, cluster);
  return (
    isAt(binding, versionFor(cluster, pass.resourceSnapshotName)) &&
    sameStrategy(binding.spec.applyStrategy, pass.before.appliedStrategy)
  );
}

function bindingOf({ targets }: Pass, { clusterName }: ClusterUpdatingStatus) {
  const binding = targets.scheduled.get(clusterName);
  if (binding === undefined) throw new Abort(`cluster ${clusterName} is no longer scheduled`);
  return binding;
}

/** Ends the update of a cluster that is in flight, if there is a reason to. */
function observe({ pass, stage, config }: At, cluster: ClusterUpdatingStatus): void {
  const { clusterName } = cluster;
  const binding = bindingOf(pass, cluster);
  if (!isAt(binding, versionFor(cluster, pass.resourceSnapshotName))) {
    const message = `binding ${binding.metadata.name} of cluster ${clusterName} in stage ${stage.stageName} was changed, probably by another update run`;
    mark(cluster, pass, ["Succeeded", "False", "ClusterUpdatingFailed", message]);
    throw new Abort(`${message}; create another update run`);
  }
  if (isReady(binding)) {
    mark(cluster, pass, [
      "Succeeded",
      "True",
      "ClusterUpdatingSucceeded",
      "all resources are applied and available",
    ]);
    return;
  }
  const endMs = (changedMs(cluster, "Started") ?? pass.nowMs) + durationMs(config.progressDeadline);
  if (pass.nowMs >= endMs)
    mark(cluster, pass, [
      "Succeeded",
      "False",
      "ClusterUpdatingFailed",
      `the resources were not available within ${config.progressDeadline}`,
    ]);
  else if (!Number.isNaN(endMs)) pass.wakeMs.push(endMs);
}

function stuck(at: At): Step | undefined {
  const { pass, stage } = at;
  const stuckSince = (it: ClusterUpdatingStatus): number =>
    (changedMs(it, "Started") ?? pass.nowMs) + STUCK_AFTER_MS;
  const [late, early] = [true, false].map((wanted) =>
    inFlight(at).filter((it) => stuckSince(it) <= pass.nowMs === wanted),
  );
  pass.wakeMs.push(...(early ?? []).map(stuckSince));
  if (late === undefined || late.length === 0) return undefined;
  const names = listed(late.map((it) => it.clusterName));
  return {
    at: "stuck",
    message: `stage ${stage.stageName} has waited for more than 5 minutes for ${names}; see the status of the placement`,
  };
}

function stepAfter(at: At): Step {
  const { pass, stage, config } = at;
  if (pass.isStopped) return { at: "stopped" };
  const ends = stage.clusters.map((it) => changedMs(it, "Succeeded") ?? 0);
  const tasks = stage.afterStageTaskStatus ?? [];
  if (!areTasksDone(pass, { config, timing: "after", tasks, sinceMs: Math.max(...ends) }))
    return { at: "waiting", message: `stage ${config.name} waits for its tasks after the update` };
  finish(
    at,
    "True",
    "StageUpdatingSucceeded",
    "all clusters of the stage are updated and its tasks are done",
  );
  return { at: "done" };
}

function hasFailedToUpdate(cluster: ClusterUpdatingStatus): boolean {
  return statusOf(cluster, "Succeeded") === "False";
}

function hasFailed({ stage, config }: At): boolean {
  const failures = stage.clusters.filter(hasFailedToUpdate).length;
  return failures > tolerance(config.maxFailures, stage.clusters.length);
}

/** No cluster is started any more; those in flight come to their end. */
function fail(at: At): Step {
  const { pass, stage, config } = at;
  if (inFlight(at).length > 0) return { at: pass.isStopped ? "stopping" : "progressing" };
  const failed = stage.clusters.filter(hasFailedToUpdate).map((it) => it.clusterName);
  const message = `${failed.length} of ${stage.clusters.length} clusters of stage ${stage.stageName} failed: ${listed(failed)}`;
  if (config.onFailure === "Rollback") {
    // Only when the failure is in the status: a pass after a crash must know what these bindings are about.
    const before = pass.before.stagesStatus?.find((it) => it.stageName === stage.stageName);
    if (before === undefined || before.clusters.some(isInFlight)) return { at: "progressing" };
    rollBack(pass, stage);
  }
  finish(at, "False", "StageUpdatingFailed", message);
  return { at: "failed", message };
}

function finish(
  { pass, stage }: At,
  status: "True" | "False",
  reason: "StageUpdatingSucceeded" | "StageUpdatingFailed" | "StageUpdatingSkippedNoClusters",
  message: string,
): void {
  mark(stage, pass, ["Progressing", "False", reason, message]);
  mark(stage, pass, ["Succeeded", status, reason, message]);
  if (reason !== "StageUpdatingSkippedNoClusters") stage.endTime = timestamp(pass.nowMs);
}

function report({ pass, stage }: At, step: Step): void {
  const name = stage.stageName;
  switch (step.at) {
    case "progressing":
    case "stuck":
      return mark(stage, pass, ["Progressing", "True", "StageUpdatingStarted", `stage ${name} is updated`]);
    case "waiting":
      return mark(stage, pass, ["Progressing", "False", "StageUpdatingWaiting", step.message]);
    case "stopping":
      return mark(stage, pass, [
        "Progressing",
        "Unknown",
        "StageUpdatingStopping",
        `stage ${name} stops when the clusters that have started are updated`,
      ]);
    case "stopped":
      return mark(stage, pass, ["Progressing", "False", "StageUpdatingStopped", `stage ${name} is stopped`]);
    case "done":
    case "failed":
      return;
    default:
      step satisfies never;
  }
}
