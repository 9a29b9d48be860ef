import { isObject } from "@fairlead/base/json.ts";
import type { ApiObject } from "#values/object.ts";
import { StatusError } from "#status.ts";
import { matchesLabels } from "./selectors.ts";

/**
 * Whether PodDisruptionBudgets let a pod be evicted now, and what that costs them.
 * Source: k8s.io/kubernetes, pkg/registry/core/pod/storage/eviction.go, as of 1.36.
 */

interface BudgetCondition {
  readonly type?: string;
  readonly status?: string;
  readonly reason?: string;
  readonly message?: string;
}

interface BudgetStatus {
  readonly observedGeneration?: number;
  readonly disruptionsAllowed?: number;
  readonly currentHealthy?: number;
  readonly desiredHealthy?: number;
  readonly disruptedPods?: Readonly<Record<string, string>>;
  readonly conditions?: readonly BudgetCondition[];
}

/** The limit of unconfirmed evictions; above it, no controller is updating the budget. */
const MAX_DISRUPTED = 2000;

/** Those that the pod falls under; none for a pod whose end disrupts nothing. */
export function budgetsOf(pod: ApiObject, budgets: Iterable<ApiObject>): ApiObject[] {
  const { phase } = statusOf(pod) as { readonly phase?: string };
  const isIgnored = phase === "Succeeded" || phase === "Failed" || phase === "Pending";
  if (isIgnored || pod.metadata.deletionTimestamp !== undefined) return [];
  return [...budgets].filter((budget) => {
    const selector = specOf(budget)["selector"];
    return isObject(selector) && matchesLabels(selector, pod.metadata.labels ?? {});
  });
}

/**
 * The status of the budget after the eviction; undefined where the eviction costs nothing.
 *
 * @throws {StatusError} 429 while it must not be, 500 for more than one budget: an eviction cannot count in two.
 */
export function spendBudget(
  pod: ApiObject,
  budgets: readonly ApiObject[],
  now: string,
): { readonly budget: ApiObject; readonly status: BudgetStatus } | undefined {
  const [budget, second] = budgets;
  if (second !== undefined) throw tooManyBudgets();
  if (budget === undefined || mayGoUnhealthy(pod, budget)) return undefined;
  const status: BudgetStatus = statusOf(budget);
  const { disruptionsAllowed = 0, disruptedPods = {} } = status;
  const { name, generation = 0 } = budget.metadata;
  if ((status.observedGeneration ?? 0) < generation)
    throw refused(10, `The disruption budget ${name} is still being processed by the server.`);
  if (Object.keys(disruptedPods).length > MAX_DISRUPTED)
    throw forbiddenBudget(
      name,
      "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
    );
  if (disruptionsAllowed <= 0) throw refused(0, whyNot(budget));
  const left = disruptionsAllowed - 1;
  return {
    budget,
    status: {
      ...status,
      disruptionsAllowed: left,
      disruptedPods: { ...disruptedPods, [pod.metadata.name]: now },
      ...(left === 0 ? { conditions: exhausted(budget, now) } : {}),
    },
  };
}

/** An unhealthy pod may be evicted if the budget allows it always, or while enough other pods are healthy (KEP-3017). */
function mayGoUnhealthy(pod: ApiObject, budget: ApiObject): boolean {
  if (conditionOf(pod, "Ready")?.status === "True") return false;
  const { currentHealthy = 0, desiredHealthy = 0 }: BudgetStatus = statusOf(budget);
  return (
    specOf(budget)["unhealthyPodEvictionPolicy"] === "AlwaysAllow" ||
    (desiredHealthy > 0 && currentHealthy >= desiredHealthy)
  );
}

function exhausted(budget: ApiObject, now: string): readonly object[] {
  const { conditions = [] }: BudgetStatus = statusOf(budget);
  const next = {
    type: "DisruptionAllowed",
    status: "False",
    observedGeneration: budget.metadata.generation ?? 0,
    lastTransitionTime: now,
    reason: "InsufficientPods",
    message: "",
  };
  const others = conditions.filter((it) => it.type !== next.type);
  return [...others, next];
}

function whyNot(budget: ApiObject): string {
  const { currentHealthy = 0, desiredHealthy = 0 }: BudgetStatus = statusOf(budget);
  const { name } = budget.metadata;
  const { status, reason, message = "" } = conditionOf(budget, "DisruptionAllowed") ?? {};
  const isReported = status === "False" && message !== "";
  const subject = `The disruption budget ${name}`;
  if (isReported && reason === "SyncFailed")
    return `${subject} does not allow evicting pods currently because it failed sync: ${message}`;
  if (currentHealthy <= desiredHealthy)
    return `${subject} needs ${desiredHealthy} healthy pods and has ${currentHealthy} currently`;
  const detail = isReported ? ` (${reason}): ${message}` : "";
  return `${subject} does not allow evicting pods currently${detail}`;
}

function refused(retryAfterSeconds: number, cause: string): StatusError {
  const causes = [{ reason: "DisruptionBudget", message: cause }];
  const details = retryAfterSeconds === 0 ? { causes } : { causes, retryAfterSeconds };
  const message = "Cannot evict pod as it would violate the pod's disruption budget.";
  return new StatusError({ code: 429, reason: "TooManyRequests", message, details });
}

function tooManyBudgets(): StatusError {
  const message =
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
  return new StatusError({ code: 500, message });
}

function forbiddenBudget(name: string, why: string): StatusError {
  return new StatusError({
    code: 403,
    reason: "Forbidden",
    message: `poddisruptionbudget.policy "${name}" is forbidden: ${why}`,
    details: { name, group: "policy", kind: "poddisruptionbudget" },
  });
}

function specOf(object: ApiObject): Record<string, unknown> {
  return isObject(object["spec"]) ? object["spec"] : {};
}

function statusOf(object: ApiObject): object {
  return isObject(object["status"]) ? object["status"] : {};
}

function conditionOf(object: ApiObject, type: string): BudgetCondition | undefined {
  const { conditions = [] }: BudgetStatus = statusOf(object);
  return conditions.find((it) => it.type === type);
}

/** The pod with the condition that reports the cause of its deletion (KEP-3329). */
export function withDisruptionTarget(pod: ApiObject, now: string): ApiObject {
  const { conditions = [], ...status } = statusOf(pod) as {
    readonly conditions?: readonly BudgetCondition[];
  };
  const next = {
    type: "DisruptionTarget",
    status: "True",
    observedGeneration: pod.metadata.generation ?? 0,
    lastTransitionTime: now,
    reason: "EvictionByEvictionAPI",
    message: "Eviction API: evicting",
  };
  const others = conditions.filter((it) => it.type !== next.type);
  return { ...pod, status: { ...status, conditions: [...others, next] } };
}
