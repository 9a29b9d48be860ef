import { keyOf, objectKey, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { sameAmounts } from "@fairlead/kube/quota/amounts.ts";
import type { CountedObject, GroupResource } from "@fairlead/kube/quota/types.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { Change, Controller, KubeClient, ReconcileResult } from "@fairlead/kube/types.ts";
import { untilEnding } from "../ending.ts";
import { type LabInformers, RESOURCE_QUOTAS } from "../informers.ts";
import { type CountedKind, CountedKinds } from "./kinds.ts";
import { chargeOf, planQuota, type QuotaPlan, resourceId, resourcesOf } from "./plan.ts";

type Needs = Pick<LabInformers, "quotas" | "definitions">;

interface Parts {
  readonly client: KubeClient;
  readonly informers: Needs;
  readonly kinds: CountedKinds;
  readonly nowMs: () => number;
}

/**
 * Says what quotas limit and how much of it is used. The API server adds to that with each write that it admits; this takes
 * away what is gone, and counts what was there before.
 */
export function resourceQuotaController(client: KubeClient, informers: Needs, deps: RuntimeDeps): Controller {
  const nowMs = (): number => deps.clock.now();
  const kinds = new CountedKinds(
    {
      client,
      definitionOf: (resource) => servedDefinition(informers, resource),
      onChange(resource, change) {
        for (const key of quotasCounting(informers, resource, { change, nowMs: nowMs() }))
          controller.enqueue(key);
      },
    },
    deps,
  );
  const parts = { client, informers, kinds, nowMs };
  const controller = createController(
    {
      name: "resource-quota",
      reconcile: untilEnding((key, signal) => reconcile(parts, key, signal)),
      sources: [
        watching(informers.quotas),
        watching(informers.definitions, ({ key }) => quotasNaming(informers, key)),
      ],
    },
    deps,
  );
  return {
    name: controller.name,
    start: (signal) => controller.start(signal),
    enqueue: (key) => controller.enqueue(key),
    idle: (signal) => controller.idle(signal),
    async [Symbol.asyncDispose]() {
      await Promise.all([kinds[Symbol.asyncDispose](), controller[Symbol.asyncDispose]()]);
    },
  };
}

async function reconcile(parts: Parts, key: ObjectKey, signal: AbortSignal): Promise<ReconcileResult> {
  const { client, informers } = parts;
  const quota = informers.quotas.store.get(key);
  if (quota === undefined || isDeleting(quota)) return {};
  const { namespace = "" } = quota.metadata;
  const seen: Objects = ({ informer }) => [...informer.store.byIndex("namespace", namespace)];
  const plan = await planOf(parts, quota, seen);
  if (plan.status === undefined) return resultOf(plan);
  // The API server may have counted already what was just seen to come.
  const latest = await client.get(RESOURCE_QUOTAS, key, { signal });
  if ((await planOf(parts, latest, seen)).status === undefined) return resultOf(plan);
  // And may have admitted what is not seen yet. Whatever it admits after `latest` was read makes the update a conflict, so that
  // no room is granted twice.
  const present: Objects = async ({ informer }) =>
    (await client.list(informer.of, { namespace, signal })).items;
  const { status, ...rest } = await planOf(parts, latest, present);
  if (status !== undefined)
    await client.update(RESOURCE_QUOTAS, { ...latest, status }, { subresource: "status", signal });
  return resultOf(rest);
}

/** The objects of a kind in the quota's namespace. */
type Objects = (kind: CountedKind) => readonly CountedObject[] | Promise<readonly CountedObject[]>;

function resultOf({ checkInMs }: Pick<QuotaPlan, "checkInMs">): ReconcileResult {
  return checkInMs === undefined ? {} : { requeueAfterMs: checkInMs };
}

async function planOf({ kinds, nowMs }: Parts, quota: CountedObject, read: Objects): Promise<QuotaPlan> {
  const objects = new Map<string, readonly CountedObject[]>();
  for (const resource of resourcesOf(quota)) {
    const kind = await kinds.get(resource);
    if (kind !== undefined) objects.set(resourceId(resource), await read(kind));
  }
  return planQuota({ quota, objects, nowMs: nowMs() });
}

/** The quotas for which the change makes a difference. */
function quotasCounting(
  { quotas }: Needs,
  resource: GroupResource,
  { change, nowMs }: { readonly change: Change<CountedObject>; readonly nowMs: number },
): readonly ObjectKey[] {
  const { before, after } = change;
  const { namespace = "" } = (after ?? before)?.metadata ?? {};
  return [...quotas.store.byIndex("namespace", namespace)]
    .filter((quota) => {
      const [less, more] = [before, after].map((object) => chargeOf(quota, resource, { object, nowMs }));
      const isSameEnd = sameJson(before?.metadata.deletionTimestamp, after?.metadata.deletionTimestamp);
      return !isSameEnd || less === undefined || more === undefined || !sameAmounts(less, more);
    })
    .map((quota) => keyOf(quota));
}

function quotasNaming({ quotas }: Needs, definition: ObjectKey): readonly ObjectKey[] {
  return [...quotas.store.list()]
    .filter((quota) => resourcesOf(quota).some((it) => resourceId(it) === definition))
    .map((quota) => keyOf(quota));
}

/** Other versions may be served when it changes. */
function servedDefinition({ definitions }: Needs, resource: GroupResource): string | undefined {
  const found = definitions.store.get(objectKey(undefined, resourceId(resource)));
  const isServed = (found?.status?.conditions ?? []).some(
    (it) => it.type === "Established" && it.status === "True",
  );
  return isServed ? `${found?.metadata.uid}/${found?.metadata.generation}` : undefined;
}
