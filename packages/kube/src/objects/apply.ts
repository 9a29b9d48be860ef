import { defined } from "@fairlead/base/defined.ts";
import type { Resource } from "#api/meta/resource.ts";
import type { KubeObject } from "#api/meta/types.ts";
import { isObject, sameJson } from "@fairlead/base/json.ts";
import type { Applied, CallOptions, KubeClient } from "#types.ts";
import { ItemsByKey, keyIn, valueIn } from "./list-items.ts";
import { type ChangeRecorder, recordReverted, takenFields } from "./reverted.ts";

export interface ApplyIfChanged<T extends KubeObject> extends CallOptions {
  /** The object as an informer with the same `fieldManager` has it; undefined if it does not exist. */
  readonly current: T | undefined;
  /** All that this manager wants to own. Values that the server would default are best written out. */
  readonly desired: Applied<T>;
  readonly fieldManager: string;
  readonly subresource?: "status";
  /** See `ApplyOptions`. */
  readonly returns?: "metadata";
  /** Records on the object that other managers had changed fields, and that the apply overwrote them. Default: nothing is recorded. */
  readonly events?: ChangeRecorder | undefined;
}

/**
 * Server-side apply, left out when it would change nothing: when `current` already says all of `desired`, and this
 * manager owns nothing that `desired` leaves out. Only what it owns is compared; others' fields do not matter.
 *
 * @returns The object as the server has it now, or what `returns` names of it; or `current`.
 */
export async function applyIfChanged<T extends KubeObject>(
  client: KubeClient,
  of: Resource<T>,
  request: ApplyIfChanged<T>,
): Promise<T> {
  const { current, fieldManager, subresource, returns, signal, events } = request;
  const desired = withoutEmptyMaps(request.desired) as Applied<T>;
  if (current !== undefined && isApplied(current, desired, { fieldManager, subresource })) return current;
  const after = await client.apply(of, desired, {
    fieldManager,
    ...defined({ subresource, returns, signal }),
  });
  if (events !== undefined && current !== undefined)
    recordReverted(events, of, current, {
      taken: takenFields(current, desired, fieldManager),
      by: fieldManager,
    });
  return after;
}

/**
 * A map that an applier had entries in and applies empty becomes null, which schemas refuse (structured-merge-diff drops the
 * entries and keeps the owned key); one that is left out goes.
 */
function withoutEmptyMaps(value: object): object {
  if (!hasEmptyMap(value)) return value;
  const kept = Object.entries(value)
    .map(
      ([key, inner]: [string, unknown]) => [key, isObject(inner) ? withoutEmptyMaps(inner) : inner] as const,
    )
    .filter(([, inner]) => !(isObject(inner) && Object.keys(inner).length === 0));
  return Object.fromEntries(kept);
}

/** Not within lists, as above. Most objects have none, and need no copy. */
function hasEmptyMap(value: object): boolean {
  for (const inner of Object.values(value) as unknown[])
    if (isObject(inner) && (Object.keys(inner).length === 0 || hasEmptyMap(inner))) return true;
  return false;
}

/**
 * Whether applying `desired` would be a no-op. If this is unknown, because `current` does not contain what the manager
 * owns, the answer is no: the server then finds that nothing changes.
 */
export function isApplied(
  current: KubeObject,
  desired: object,
  by: { readonly fieldManager: string; readonly subresource?: string | undefined },
): boolean {
  const entry = current.metadata.managedFields?.find(
    (it) => it.manager === by.fieldManager && it.operation === "Apply" && it.subresource === by.subresource,
  );
  if (entry?.fieldsV1 === undefined) return false;
  return covers({ current, desired, owned: entry.fieldsV1 }, true);
}

interface Compared {
  readonly current: unknown;
  readonly desired: unknown;
  /** `fieldsV1` at this place; undefined or empty for a value that is owned as a whole. */
  readonly owned: unknown;
}

/** Identify the object; never in `fieldsV1`. */
const UNTRACKED = new Set(["apiVersion", "kind"]);
const UNTRACKED_METADATA = new Set([
  "name",
  "namespace",
  "uid",
  "resourceVersion",
  "generation",
  "creationTimestamp",
]);

/**
 * Walks the three side by side. Owning differs from wanting as soon as one has a field that the other lacks; values are
 * compared only where both end.
 *
 * `fieldsV1` keys: `f:name` a field, `k:{...}` an item of a list by its key, `v:value` a member of a set, `.` the node
 * itself (structured-merge-diff, value format of FieldsV1).
 */
function covers(at: Compared, isRoot = false): boolean {
  const { current, desired, owned } = at;
  if (!isObject(owned) || Object.keys(owned).every((key) => key === "."))
    return isLeafApplied(current, desired, isRoot);
  const parts = Object.keys(owned).filter((key) => key !== ".");
  if (isObject(desired)) return isObject(current) && mapCovers({ current, desired, owned }, parts, isRoot);
  if (!Array.isArray(desired) || !Array.isArray(current)) return false;
  return parts.every((part) => part.startsWith("v:"))
    ? setCovers(current, desired, parts)
    : listCovers({ current, desired, owned }, parts);
}

function isLeafApplied(current: unknown, desired: unknown, isRoot: boolean): boolean {
  // An empty map that is applied owns itself and says nothing of what others put into it.
  if (isObject(desired) && Object.keys(desired).length === 0) return isObject(current);
  return !isRoot && sameJson(current, desired);
}

interface ComparedMaps {
  readonly current: Record<string, unknown>;
  readonly desired: Record<string, unknown>;
  readonly owned: Record<string, unknown>;
}

function mapCovers(at: ComparedMaps, parts: readonly string[], isRoot: boolean): boolean {
  const wanted = Object.keys(at.desired).filter(
    (key) => at.desired[key] !== undefined && !(isRoot && UNTRACKED.has(key)),
  );
  if (parts.some((part) => !wanted.includes(part.slice(2)))) return false;
  return wanted.every((key) => {
    const owned = at.owned[`f:${key}`];
    const inner = { current: at.current[key], desired: at.desired[key], owned };
    if (isRoot && key === "metadata") return metadataCovers(inner);
    return owned !== undefined && covers(inner);
  });
}

function metadataCovers(at: Compared): boolean {
  if (!isObject(at.desired) || !isObject(at.current)) return false;
  const desired = Object.fromEntries(
    Object.entries(at.desired).filter(([key]) => !UNTRACKED_METADATA.has(key)),
  );
  const owned = isObject(at.owned) ? at.owned : {};
  return mapCovers(
    { current: at.current, desired, owned },
    Object.keys(owned).filter((key) => key !== "."),
    false,
  );
}

function setCovers(
  current: readonly unknown[],
  desired: readonly unknown[],
  parts: readonly string[],
): boolean {
  const present = new Set(current.map((item) => JSON.stringify(item)));
  const wanted = new Set(desired.map((item) => JSON.stringify(item)));
  const isWanted = parts.every((part) => wanted.has(JSON.stringify(valueIn(part))));
  return isWanted && wanted.size === parts.length && [...wanted].every((item) => present.has(item));
}

function listCovers(
  at: {
    readonly current: readonly unknown[];
    readonly desired: readonly unknown[];
    readonly owned: Record<string, unknown>;
  },
  parts: readonly string[],
): boolean {
  if (parts.length !== at.desired.length) return false;
  const [wanted, found] = [new ItemsByKey(at.desired), new ItemsByKey(at.current)];
  return parts.every((part) => {
    const key = keyIn(part);
    if (key === undefined) return false;
    const [desired, current] = [wanted.find(key), found.find(key)];
    return (
      desired !== undefined && current !== undefined && covers({ current, desired, owned: at.owned[part] })
    );
  });
}
