import { type Amounts, amountsAt, pick, sameAmounts, sum, textsOf } from "@fairlead/kube/quota/amounts.ts";
import { evaluatorOf, usersOf } from "@fairlead/kube/quota/evaluators.ts";
import { countedUntilMs } from "@fairlead/kube/quota/pods.ts";
import { scopesOf } from "@fairlead/kube/quota/scopes.ts";
import type { CountedObject, GroupResource } from "@fairlead/kube/quota/types.ts";
import { fieldsAt } from "@fairlead/base/fields.ts";

/** What is used of a quota. Source: k8s.io/kubernetes, pkg/controller/resourcequota. */

export interface QuotaView {
  readonly quota: CountedObject;
  /** By `resourceId`: the objects of the quota's namespace; what is not known is left as it was counted before. */
  readonly objects: ReadonlyMap<string, readonly CountedObject[]>;
  /** Unit: milliseconds since the epoch. */
  readonly nowMs: number;
}

export interface QuotaPlan {
  /** Absent where the present one holds. */
  readonly status: QuotaStatus | undefined;
  /** When something counts no longer although nothing changes. Unit: milliseconds from now. */
  readonly checkInMs: number | undefined;
}

interface QuotaStatus {
  readonly hard: Readonly<Record<string, string>>;
  readonly used: Readonly<Record<string, string>>;
}

/** "deployments.apps": what `count/` is followed by, and what a CustomResourceDefinition is called. */
export function resourceId({ group, plural }: GroupResource): string {
  return group === "" ? plural : `${plural}.${group}`;
}

/** The resources whose objects must be counted. */
export function resourcesOf(quota: CountedObject): readonly GroupResource[] {
  const users = [...hardOf(quota).keys()].flatMap((name) => usersOf(name) ?? []);
  return [...new Map(users.map((it) => [resourceId(it), it])).values()];
}

function hardOf(quota: CountedObject): Amounts {
  return amountsAt(fieldsAt(quota, "spec"), "hard");
}

export function planQuota({ quota, objects, nowMs }: QuotaView): QuotaPlan {
  const hard = hardOf(quota);
  const status = fieldsAt(quota, "status");
  const present = amountsAt(status, "used");
  let used = pick(present, (name) => hard.has(name));
  for (const resource of resourcesOf(quota)) {
    const counted = objects.get(resourceId(resource));
    if (counted === undefined) continue;
    const usage = usageOf(quota, resource, { counted, nowMs });
    used = new Map([...used, ...usage]);
  }
  const isSame = sameAmounts(hard, amountsAt(status, "hard")) && sameAmounts(used, present);
  return {
    status: isSame ? undefined : { hard: textsOf(hard), used: textsOf(used) },
    checkInMs: nextCheck(objects.get("pods") ?? [], nowMs),
  };
}

function usageOf(
  quota: CountedObject,
  resource: GroupResource,
  { counted, nowMs }: { readonly counted: readonly CountedObject[]; readonly nowMs: number },
): Amounts {
  const names = [...hardOf(quota).keys()].filter((name) => {
    const users = usersOf(name);
    return users !== undefined && resourceId(users) === resourceId(resource);
  });
  const zero: Amounts = new Map(names.map((name) => [name, { nanos: 0n, suffix: "" }]));
  return counted.reduce((total, object) => sum(total, chargeOf(quota, resource, { object, nowMs })), zero);
}

/** What one object uses of a quota. */
export function chargeOf(
  quota: CountedObject,
  resource: GroupResource,
  { object, nowMs }: { readonly object: CountedObject | undefined; readonly nowMs: number },
): Amounts {
  const nothing: Amounts = new Map();
  if (object === undefined) return nothing;
  const evaluator = evaluatorOf(resource);
  const isCounted = scopesOf(fieldsAt(quota, "spec")).every((it) => evaluator.isInScope(it, object));
  const hard = hardOf(quota);
  return isCounted ? pick(evaluator.usage(object, nowMs), (name) => hard.has(name)) : nothing;
}

function nextCheck(pods: readonly CountedObject[], nowMs: number): number | undefined {
  const ends = pods.flatMap((pod) => countedUntilMs(pod) ?? []).filter((it) => it >= nowMs);
  return ends.length === 0 ? undefined : Math.min(...ends) - nowMs + 1;
}
