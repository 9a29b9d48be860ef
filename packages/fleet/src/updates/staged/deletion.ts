import type { StageUpdatingStatus } from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { timestamp } from "@fairlead/kube/objects/conditions.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { changedMs, isFinal, mark } from "./conditions.ts";
import { type Pass, type Step, STUCK_AFTER_MS } from "./pass.ts";
import { listed } from "./stages.ts";

/** The last stage: removes the bindings of clusters that the placement has left, all at the same time. */
export function stepDeletion(pass: Pass, stage: StageUpdatingStatus): Step {
  const open = stage.clusters.filter((it) => !isFinal(it));
  const rest = open.filter((cluster) => {
    const binding = pass.targets.leaving.get(cluster.clusterName);
    if (pass.isStopped && changedMs(cluster, "Started") === undefined) return true;
    mark(cluster, pass, [
      "Started",
      "True",
      "ClusterUpdatingStarted",
      "the resources are removed from the cluster",
    ]);
    if (binding !== undefined) {
      if (!isDeleting(binding)) pass.remove.push(binding);
      return true;
    }
    mark(cluster, pass, [
      "Succeeded",
      "True",
      "ClusterUpdatingSucceeded",
      "the resources are removed from the cluster",
    ]);
    return false;
  });
  if (!pass.isStopped || stage.clusters.some((it) => changedMs(it, "Started") !== undefined))
    stage.startTime ??= timestamp(pass.nowMs);
  if (rest.length === 0) {
    const message = "no cluster is left that the placement has left";
    mark(stage, pass, ["Progressing", "False", "StageUpdatingSucceeded", message]);
    mark(stage, pass, ["Succeeded", "True", "StageUpdatingSucceeded", message]);
    stage.endTime = timestamp(pass.nowMs);
    return { at: "done" };
  }
  if (pass.isStopped) return stop(pass, stage, rest);
  mark(stage, pass, [
    "Progressing",
    "True",
    "StageUpdatingStarted",
    "the resources are removed from clusters",
  ]);
  const startedMs = Math.min(...rest.map((it) => changedMs(it, "Started") ?? pass.nowMs));
  if (pass.nowMs < startedMs + STUCK_AFTER_MS) {
    pass.wakeMs.push(startedMs + STUCK_AFTER_MS);
    return { at: "progressing" };
  }
  const names = listed(rest.map((it) => it.clusterName));
  return { at: "stuck", message: `the resources are not removed after more than 5 minutes from ${names}` };
}

function stop(pass: Pass, stage: StageUpdatingStatus, rest: StageUpdatingStatus["clusters"]): Step {
  const isRunning = rest.some((it) => changedMs(it, "Started") !== undefined);
  mark(
    stage,
    pass,
    isRunning
      ? ["Progressing", "Unknown", "StageUpdatingStopping", "removals that have started come to their end"]
      : ["Progressing", "False", "StageUpdatingStopped", "the removal of resources is stopped"],
  );
  return { at: isRunning ? "stopping" : "stopped" };
}
