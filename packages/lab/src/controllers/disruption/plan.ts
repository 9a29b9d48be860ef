import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import type { PodDisruptionBudget } from "@fairlead/kube/api/policy/v1/types.ts";
import type { Clock } from "@fairlead/base/clock.ts";
import { setCondition } from "@fairlead/kube/objects/conditions.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { countOf } from "../percent.ts";
import { isReady } from "../pods.ts";

/** How many pods may be evicted now. Source: k8s.io/kubernetes, pkg/controller/disruption. */

export type BudgetStatus = NonNullable<PodDisruptionBudget["status"]>;

export interface BudgetView {
  readonly budget: PodDisruptionBudget;
  /** Those that the selector matches. */
  readonly pods: readonly Pod[];
  /** The number of desired pods of all workloads; a text if it is unknown, with the reason. */
  readonly expected: number | string;
  readonly clock: Clock;
}

export interface BudgetPlan {
  readonly status: BudgetStatus;
  /** Pods that were to be evicted and have not gone. */
  readonly late: readonly Pod[];
  /** When an eviction that was granted counts no longer. Unit: milliseconds from now. */
  readonly checkInMs: number | undefined;
}

/** A pod whose eviction was granted counts as gone; if it is not deleted within this time it counts again. */
const GRANTED_MS = 120_000;
const CONDITION = "DisruptionAllowed";

export function planBudget(view: BudgetView): BudgetPlan {
  const { budget, clock } = view;
  if (typeof view.expected === "string") return failed(budget, view.expected, clock);
  const { generation = 0 } = budget.metadata;
  const { granted, late, checkInMs } = grantedIn(view);
  const { expectedPods, desiredHealthy } = needs(view, view.expected);
  const healthy = view.pods.filter(
    (pod) => isReady(pod) && !isDeleting(pod) && !Object.hasOwn(granted, pod.metadata.name),
  );
  const spare = healthy.length - desiredHealthy;
  const disruptionsAllowed = expectedPods <= 0 ? 0 : Math.max(0, spare);
  const condition = {
    type: CONDITION,
    status: disruptionsAllowed > 0 ? ("True" as const) : ("False" as const),
    reason: disruptionsAllowed > 0 ? "SufficientPods" : "InsufficientPods",
    message: "",
    observedGeneration: generation,
  };
  return {
    status: {
      ...(Object.keys(granted).length === 0 ? {} : { disruptedPods: granted }),
      observedGeneration: generation,
      disruptionsAllowed,
      currentHealthy: healthy.length,
      desiredHealthy,
      expectedPods,
      conditions: setCondition<Condition>(budget.status?.conditions, condition, clock),
    },
    late,
    checkInMs,
  };
}

/** What cannot be counted allows nothing. */
function failed(budget: PodDisruptionBudget, message: string, clock: Clock): BudgetPlan {
  const zero = { currentHealthy: 0, desiredHealthy: 0, expectedPods: 0 };
  const { observedGeneration = 0, conditions } = budget.status ?? {};
  const next = {
    type: CONDITION,
    status: "False",
    reason: "SyncFailed",
    message,
    observedGeneration,
  } as const;
  return {
    status: {
      ...zero,
      ...budget.status,
      disruptionsAllowed: 0,
      conditions: setCondition<Condition>(conditions, next, clock),
    },
    late: [],
    checkInMs: undefined,
  };
}

/** `maxUnavailable` and percentages apply to the desired pods, a whole `minAvailable` applies to the existing ones. */
function needs(
  { budget, pods }: BudgetView,
  expected: number,
): { readonly expectedPods: number; readonly desiredHealthy: number } {
  const { maxUnavailable, minAvailable } = budget.spec ?? {};
  if (maxUnavailable !== undefined)
    return {
      expectedPods: expected,
      desiredHealthy: Math.max(0, expected - countOf(maxUnavailable, expected, Math.ceil)),
    };
  if (typeof minAvailable !== "string")
    return { expectedPods: pods.length, desiredHealthy: minAvailable ?? 0 };
  return { expectedPods: expected, desiredHealthy: countOf(minAvailable, expected, Math.ceil) };
}

/** Whether the number of pods that workloads ask for matters. */
export function needsScale({ spec }: PodDisruptionBudget): boolean {
  return spec?.maxUnavailable !== undefined || typeof spec?.minAvailable === "string";
}

function grantedIn({ budget, pods, clock }: BudgetView) {
  const granted: Record<string, string> = {};
  const late: Pod[] = [];
  let checkInMs: number | undefined;
  for (const pod of pods) {
    const since = budget.status?.disruptedPods?.[pod.metadata.name];
    if (since === undefined || isDeleting(pod)) continue;
    const leftMs = Date.parse(since) + GRANTED_MS - clock.now();
    if (leftMs <= 0) {
      late.push(pod);
      continue;
    }
    granted[pod.metadata.name] = since;
    checkInMs = Math.min(leftMs, checkInMs ?? leftMs);
  }
  return { granted, late, checkInMs };
}
