import type { Node, Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { type Amounts, amountsAt, excess, pick, sum, textsOf } from "@fairlead/kube/quota/amounts.ts";
import { podEvaluator } from "@fairlead/kube/quota/pods.ts";

/** What a cluster's nodes have, and what of it no pod has requested. */

export interface ResourceUsage {
  readonly capacity: Readonly<Record<string, string>>;
  readonly allocatable: Readonly<Record<string, string>>;
  readonly available: Readonly<Record<string, string>>;
}

const REPORTED = new Set(["cpu", "memory"]);
const NONE: Amounts = new Map();
/** Of a cluster without nodes, as KubeFleet reports it: property selectors compare with it. */
const ZERO = amountsAt({ status: { cpu: "0", memory: "0" } }, "status");

export function resourceUsageOf(nodes: Iterable<Node>, pods: Iterable<Pod>, nowMs: number): ResourceUsage {
  let [capacity, allocatable, requested] = [ZERO, ZERO, NONE];
  for (const { status = {} } of nodes) {
    capacity = sum(capacity, reported(amountsAt({ ...status }, "capacity")));
    allocatable = sum(allocatable, reported(amountsAt({ ...status }, "allocatable")));
  }
  for (const pod of pods) {
    // What waits for a node uses none of them.
    if (pod.spec?.nodeName === undefined || pod.spec.nodeName === "") continue;
    requested = sum(
      requested,
      reported(podEvaluator.usage({ apiVersion: "v1", kind: "Pod", ...pod }, nowMs)),
    );
  }
  return {
    capacity: textsOf(capacity),
    allocatable: textsOf(allocatable),
    available: textsOf(excess(allocatable, requested)),
  };
}

function reported(amounts: Amounts): Amounts {
  return pick(amounts, (name) => REPORTED.has(name));
}
