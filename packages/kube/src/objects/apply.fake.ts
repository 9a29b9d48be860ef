import type { KubeObject, ManagedFieldsEntry } from "#api/meta/types.ts";
import { cloneJson, isObject, sameJson } from "@fairlead/base/json.ts";

/**
 * Server-side apply, cut to what tests of controllers need: no schemas, so a list is one value, except those below;
 * only appliers own fields, plain writes take none; the last applier wins, as `force` has it.
 */

/** Lists that Kubernetes merges: by the keys of their items, or as a set. */
const MERGED_LISTS: Readonly<Record<string, readonly string[] | "set">> = {
  "metadata.finalizers": "set",
  "metadata.ownerReferences": ["uid"],
  "status.conditions": ["type"],
  "spec.targets": ["name"],
};
/** Paths that no manager owns. */
const UNTRACKED = new Set(
  ["apiVersion", "kind"].concat(
    ["name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"].map(
      (field) => `metadata.${field}`,
    ),
  ),
);

type Fields = Record<string, unknown>;

export interface Applier {
  readonly manager: string;
  readonly subresource: string | undefined;
  readonly apiVersion: string;
  readonly time: string;
}

/** The live object after `applied` was merged into it. */
export function applyTo<T extends KubeObject>(live: T, applied: object, by: Applier): T {
  const result = cloneJson(live);
  const entries = [...(result.metadata.managedFields ?? [])];
  const at = entries.findIndex(
    (entry) => entry.manager === by.manager && entry.subresource === by.subresource,
  );
  const owned = ownedBy(applied, "") as Fields;
  const before = entries[at]?.fieldsV1;
  if (before !== undefined) removeAbandoned(result, before, owned);
  mergeInto(result, applied, "");
  const { time, ...who } = by;
  const isSame = before !== undefined && sameJson(before, owned);
  const entry: ManagedFieldsEntry = {
    manager: who.manager,
    operation: "Apply",
    apiVersion: who.apiVersion,
    time: isSame ? (entries[at]?.time ?? time) : time,
    fieldsType: "FieldsV1",
    fieldsV1: owned,
    ...(by.subresource === undefined ? {} : { subresource: by.subresource }),
  };
  if (at >= 0) entries[at] = entry;
  else entries.push(entry);
  result.metadata.managedFields = entries;
  return result;
}

function childPath(path: string, field: string): string {
  return path === "" ? field : `${path}.${field}`;
}

function ownedBy(value: unknown, path: string): unknown {
  if (isObject(value) && Object.keys(value).length > 0) {
    const fields = Object.keys(value).filter(
      (key) => value[key] !== undefined && !UNTRACKED.has(childPath(path, key)),
    );
    return Object.fromEntries(fields.map((key) => [`f:${key}`, ownedBy(value[key], childPath(path, key))]));
  }
  const merged = MERGED_LISTS[path];
  if (!Array.isArray(value) || merged === undefined) return {};
  return Object.fromEntries(
    value.map((item: unknown) => {
      if (merged === "set" || !isObject(item)) return [`v:${JSON.stringify(item)}`, {}];
      const key = JSON.stringify(Object.fromEntries(merged.map((name) => [name, item[name]])));
      return [`k:${key}`, { ".": {}, ...(ownedBy(item, `${path}[]`) as Fields) }];
    }),
  );
}

/** Removes the fields that the manager owned and no longer applies. */
function removeAbandoned(live: unknown, before: Fields, now: Fields): void {
  for (const [part, inner] of Object.entries(before)) {
    if (part === ".") continue;
    const next = now[part];
    if (next === undefined) remove(live, part);
    else if (isObject(inner) && isObject(next)) removeAbandoned(childOf(live, part), inner, next);
  }
}

function remove(live: unknown, part: string): void {
  if (Array.isArray(live)) {
    const at = live.indexOf(childOf(live, part));
    if (at >= 0) live.splice(at, 1);
  } else if (isObject(live)) delete live[part.slice(2)];
}

function childOf(live: unknown, part: string): unknown {
  if (isObject(live)) return live[part.slice(2)];
  if (!Array.isArray(live)) return undefined;
  const key: unknown = JSON.parse(part.slice(2));
  return live.find((item: unknown) =>
    isObject(key)
      ? isObject(item) && Object.keys(key).every((name) => sameJson(item[name], key[name]))
      : item === key,
  );
}

function mergeInto(live: Fields | KubeObject, applied: object, path: string): void {
  const target = live as Fields;
  for (const [key, value] of Object.entries(applied)) {
    if (value === undefined) continue;
    const inner = childPath(path, key);
    const present = target[key];
    const merged = MERGED_LISTS[inner];
    if (isObject(value) && isObject(present)) mergeInto(present, value, inner);
    else if (Array.isArray(value) && Array.isArray(present) && merged !== undefined)
      target[key] = mergeList(present, value, merged);
    else target[key] = cloneJson(value as unknown);
  }
}

function mergeList(
  present: readonly unknown[],
  applied: readonly unknown[],
  by: readonly string[] | "set",
): unknown[] {
  const result = [...present];
  for (const item of applied) {
    const at = result.findIndex((it) =>
      by === "set" || !isObject(it) || !isObject(item)
        ? it === item
        : by.every((name) => sameJson(it[name], item[name])),
    );
    const there = result[at];
    if (at < 0) result.push(cloneJson(item));
    else if (isObject(there) && isObject(item)) mergeInto(there, item, "");
  }
  return result;
}
