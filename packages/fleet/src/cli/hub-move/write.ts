import { isObject, jsonKey, sameJson } from "@fairlead/base/json.ts";
import { delay } from "@fairlead/base/clock.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { defined } from "@fairlead/base/defined.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { KubeObject, ManagedFieldsEntry } from "@fairlead/kube/api/meta/types.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import type { Item } from "./collect.ts";

/** Writes one object to the hub that gets the fleet, as it is to be there. Each write is left out if it would change nothing. */

export interface Target {
  readonly client: KubeClient;
  readonly deps: RuntimeDeps;
  readonly signal: AbortSignal;
}

export interface Wanted {
  readonly of: Item["of"];
  readonly key: Item["key"];
  readonly object: KubeObject;
  /** As `object` is, of an object that is there: to compare the two. */
  readonly asWanted: (present: KubeObject) => KubeObject;
  readonly isDeleting: boolean;
}

/** A kind whose definition is new is served a moment later. Unit: milliseconds. */
const NOT_SERVED_MS = 500;
const NOT_SERVED_TRIES = 20;

/** @returns The object as it is there now, and whether it was written. */
export async function writeObject(
  target: Target,
  wanted: Wanted,
  present: KubeObject | undefined,
): Promise<{ readonly object: KubeObject; readonly isWritten: boolean }> {
  const { of, object } = wanted;
  if (present !== undefined && isDeleting(present) && !wanted.isDeleting)
    await removeObject(target, { ...wanted, object: present });
  else if (present !== undefined) {
    if (sameJson(wanted.asWanted(present), object)) return { object: present, isWritten: false };
    try {
      return {
        object: await target.client.update(of, over(present, object), { signal: target.signal }),
        isWritten: true,
      };
    } catch (error) {
      // A field that cannot be changed: it was deleted and made again on the other hub.
      if (!hasCode(error, "API_INVALID")) throw error;
      await removeObject(target, { ...wanted, object: present });
    }
  }
  return { object: await createObject(target, wanted), isWritten: true };
}

async function createObject({ client, deps, signal }: Target, { of, object }: Wanted): Promise<KubeObject> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await client.create(of, object, { signal });
    } catch (error) {
      const isSoon = hasCode(error, "API_NOT_FOUND", "API_ALREADY_EXISTS") && tries < NOT_SERVED_TRIES;
      if (!isSoon) throw error;
      await delay(deps.clock, NOT_SERVED_MS, signal);
    }
  }
}

/** What the API server allocated stays. */
const ALLOCATED = new Set(["clusterIP", "clusterIPs", "healthCheckNodePort"]);

function over(present: KubeObject, object: KubeObject): KubeObject {
  const { uid, resourceVersion, ownerReferences } = present.metadata;
  const metadata = {
    ...defined({ ownerReferences }),
    ...object.metadata,
    ...defined({ uid, resourceVersion }),
  };
  const after = { ...object, metadata };
  if (object.kind !== "Service" || !("spec" in object) || !("spec" in present)) return after;
  const { spec } = present;
  const kept = isObject(spec) ? Object.entries(spec).filter(([name]) => ALLOCATED.has(name)) : [];
  return { ...after, spec: { ...Object.fromEntries(kept), ...(object.spec as object) } } as KubeObject;
}

/** The owners of fields, as a write of its own: any other write gives fields to its writer. */
export async function writeManagers(
  { client, signal }: Target,
  of: Item["of"],
  present: KubeObject,
  managers: readonly ManagedFieldsEntry[],
): Promise<void> {
  if (sameJson(withoutTimes(present.metadata.managedFields ?? []), withoutTimes(managers))) return;
  const metadata = { ...present.metadata, managedFields: [...managers] };
  await client.update(of, { ...present, metadata }, { signal });
}

function withoutTimes(entries: readonly ManagedFieldsEntry[]): readonly string[] {
  return entries.map(({ time: _time, ...rest }) => jsonKey(rest)).toSorted();
}

export async function writeStatus(
  { client, signal }: Target,
  of: Item["of"],
  present: KubeObject & { status?: unknown },
  status: unknown,
): Promise<KubeObject> {
  if (status === undefined || sameJson(present.status ?? {}, status)) return present;
  return client.update(of, { ...present, status } as KubeObject, { subresource: "status", signal });
}

/** At once, with its finalizers: no program acts on the objects of a hub that is paused. */
export async function removeObject(
  { client, signal }: Target,
  item: Pick<Item, "of" | "key" | "object">,
): Promise<void> {
  const { of, key, object } = item;
  const { uid, finalizers = [] } = object.metadata;
  try {
    if (finalizers.length > 0)
      await client.mergePatch(of, key, { metadata: { finalizers: null, ...defined({ uid }) } }, { signal });
  } catch (error) {
    if (!hasCode(error, "API_NOT_FOUND")) throw error;
  }
  await client.delete(of, key, { signal, ...defined({ uid }) });
}
