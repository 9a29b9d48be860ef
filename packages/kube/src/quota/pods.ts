import { byText } from "@fairlead/base/text.ts";
import { type Fields, fieldsAt, itemsAt, numberAt, textAt } from "@fairlead/base/fields.ts";
import { qosClassOf } from "./qos.ts";
import { type Amount, type Amounts, amountsAt, count, largest, pick, sum } from "./amounts.ts";
import type { CountedObject, Evaluator } from "./types.ts";
import { type Scope, selects } from "./scopes.ts";

/** The usage of pods. Source: pkg/quota/v1/evaluator/core/pods.go, k8s.io/component-helpers/resource (KEP-753, KEP-2837). */

/** Resources that every container must request if a quota limits them; others are counted if requested. */
const REQUIRED = new Set(["cpu", "memory"].flatMap((it) => [it, `requests.${it}`, `limits.${it}`]));
const COMPUTE = ["cpu", "memory", "ephemeral-storage"];

export const podEvaluator: Evaluator = {
  handles({ operation, subresource, object, old }) {
    if (subresource === "resize") return operation === "UPDATE";
    if (subresource !== "") return false;
    if (operation === "CREATE") return true;
    return operation === "UPDATE" && isTerminating(object) !== isTerminating(old);
  },
  isInScope,
  problem(names, pod) {
    const spec = fieldsAt(pod, "spec");
    // Resources of the pod as a whole apply to all its containers.
    if (ofWholePod(spec, "requests").size + ofWholePod(spec, "limits").size > 0) return undefined;
    const needed = names.filter((it) => REQUIRED.has(it)).toSorted(byText);
    const containers = [...itemsAt(spec, "containers"), ...itemsAt(spec, "initContainers")];
    const missing = needed.flatMap((name) => {
      const lacking = containers.filter((it) => !namesAskedFor(it).has(name)).map((it) => textAt(it, "name"));
      return lacking.length === 0 ? [] : [`${name} for: ${[...new Set(lacking)].toSorted(byText).join(",")}`];
    });
    return missing.length === 0 ? undefined : `must specify ${missing.join("; ")}`;
  },
  usage(pod, nowMs) {
    const stored: Amounts = new Map([["count/pods", count(1)]]);
    if (!isRunning(pod, nowMs)) return stored;
    return sum(
      stored,
      new Map([["pods", count(1)], ...resourcesUsed(askedFor(pod, "requests"), askedFor(pod, "limits"))]),
    );
  },
};

function isInScope(scope: Scope, pod: CountedObject): boolean {
  const spec = fieldsAt(pod, "spec");
  switch (scope.name) {
    case "Terminating":
      return isTerminating(pod);
    case "NotTerminating":
      return !isTerminating(pod);
    case "BestEffort":
      return qosClassOf(spec) === "BestEffort";
    case "NotBestEffort":
      return qosClassOf(spec) !== "BestEffort";
    case "PriorityClass":
      return selects(scope, textAt(spec, "priorityClassName"));
    case "CrossNamespacePodAffinity":
      return affinityTerms(spec).some(
        (it) =>
          it["namespaceSelector"] !== undefined ||
          (Array.isArray(it["namespaces"]) && it["namespaces"].length > 0),
      );
    default:
      return false;
  }
}

/** It ends by itself, sooner or later. */
function isTerminating(pod: CountedObject | undefined): boolean {
  return (numberAt(fieldsAt(pod, "spec"), "activeDeadlineSeconds") ?? -1) >= 0;
}

function affinityTerms(spec: Fields | undefined): readonly Fields[] {
  return ["podAffinity", "podAntiAffinity"].flatMap((kind) => {
    const affinity = fieldsAt(fieldsAt(spec, "affinity"), kind);
    const preferred = itemsAt(affinity, "preferredDuringSchedulingIgnoredDuringExecution");
    return [
      ...itemsAt(affinity, "requiredDuringSchedulingIgnoredDuringExecution"),
      ...preferred.map((it) => fieldsAt(it, "podAffinityTerm") ?? {}),
    ];
  });
}

/**
 * When a pod that is being deleted uses nothing more, although it is still there: its node may be lost. Unit:
 * milliseconds since the epoch.
 */
export function countedUntilMs({ metadata }: CountedObject): number | undefined {
  const { deletionTimestamp, deletionGracePeriodSeconds } = metadata;
  if (deletionTimestamp === undefined || deletionGracePeriodSeconds === undefined) return undefined;
  return Date.parse(deletionTimestamp) + deletionGracePeriodSeconds * 1000;
}

function isRunning(pod: CountedObject, nowMs: number): boolean {
  const phase = textAt(fieldsAt(pod, "status"), "phase");
  if (phase === "Failed" || phase === "Succeeded") return false;
  return nowMs <= (countedUntilMs(pod) ?? nowMs);
}

function resourcesUsed(requests: Amounts, limits: Amounts): Amounts {
  const used = new Map<string, Amount>();
  for (const [name, amount] of requests) {
    const isCompute = COMPUTE.includes(name) || name.startsWith("hugepages-");
    if (isCompute) used.set(name, amount);
    if (isCompute || isExtended(name)) used.set(`requests.${name}`, amount);
  }
  for (const name of COMPUTE) {
    const amount = limits.get(name);
    if (amount !== undefined) used.set(`limits.${name}`, amount);
  }
  return used;
}

function isExtended(name: string): boolean {
  return (
    name.startsWith("deviceclass.resource.kubernetes.io/") ||
    (name.includes("/") && !name.includes("kubernetes.io/") && !name.startsWith("requests."))
  );
}

function namesAskedFor(container: Fields): ReadonlySet<string> {
  const resources = fieldsAt(container, "resources");
  return new Set(resourcesUsed(amountsAt(resources, "requests"), amountsAt(resources, "limits")).keys());
}

type Kind = "requests" | "limits";

/** All regular containers, or an init container together with the sidecars that started before it; plus the overhead. */
function askedFor(pod: CountedObject, kind: Kind): Amounts {
  const spec = fieldsAt(pod, "spec");
  const of = effective(pod, kind);
  let sidecars: Amounts = new Map();
  let peak: Amounts = new Map();
  for (const it of itemsAt(spec, "initContainers")) {
    const isSidecar = textAt(it, "restartPolicy") === "Always";
    const during = sum(sidecars, isSidecar ? of(it) : amountsAt(fieldsAt(it, "resources"), kind));
    if (isSidecar) sidecars = during;
    peak = largest(peak, during);
  }
  const running = itemsAt(spec, "containers").reduce((total, it) => sum(total, of(it)), sidecars);
  const together = new Map([...largest(running, peak), ...ofWholePod(spec, kind)]);
  return withOverhead(together, amountsAt(spec, "overhead"), kind);
}

function ofWholePod(spec: Fields | undefined, kind: Kind): Amounts {
  return pick(
    amountsAt(fieldsAt(spec, "resources"), kind),
    (name) => name === "cpu" || name === "memory" || name.startsWith("hugepages-"),
  );
}

/** Overhead does not add a limit to an unlimited resource. */
function withOverhead(amounts: Amounts, overhead: Amounts, kind: Kind): Amounts {
  if (kind === "requests") return sum(amounts, overhead);
  return sum(
    amounts,
    pick(overhead, (name) => (amounts.get(name)?.nanos ?? 0n) !== 0n),
  );
}

/** While a container is being resized it has the larger of what it is to have and what it has (KEP-1287). */
function effective(pod: CountedObject, kind: Kind): (container: Fields) => Amounts {
  const status = fieldsAt(pod, "status");
  const statuses = new Map(
    [...itemsAt(status, "containerStatuses"), ...itemsAt(status, "initContainerStatuses")].map((it) => [
      textAt(it, "name"),
      it,
    ]),
  );
  const isInfeasible = itemsAt(status, "conditions").some(
    (it) => textAt(it, "type") === "PodResizePending" && textAt(it, "reason") === "Infeasible",
  );
  return (container) => {
    const wanted = amountsAt(fieldsAt(container, "resources"), kind);
    const own = statuses.get(textAt(container, "name"));
    const actual = fieldsAt(own, "resources");
    if (actual === undefined) return wanted;
    const allocated = kind === "requests" ? amountsAt(own, "allocatedResources") : new Map<string, Amount>();
    const has = largest(amountsAt(actual, kind), allocated);
    return isInfeasible ? has : largest(wanted, has);
  };
}
