import { isObject, own, sameJson } from "@fairlead/base/json.ts";
import { isBuiltIn, isSet, itemsByKey, mergeKeysOf } from "./merge-keys.ts";

/**
 * The three-way merge of a client-side apply: what the last manifest had and this one lacks is removed, what this one has is
 * set, everything else stays as it is. Lists of built-in kinds are merged by the keys of their items; other lists are one
 * value, which stays where each of its items has what the manifest says, so that defaults of the server do not count as changes.
 */
export interface Merged {
  /** The last manifest; undefined if none is known. */
  readonly original: unknown;
  readonly modified: unknown;
  readonly current: unknown;
}

export function mergeThree(group: string, { original, modified, current }: Merged): unknown {
  return merge({ original, modified, current }, [], isBuiltIn(group));
}

function merge(values: Merged, path: readonly string[], isKeyed: boolean): unknown {
  const { modified, current } = values;
  if (isObject(modified)) return isObject(current) ? mergeMaps(values, path, isKeyed) : modified;
  if (Array.isArray(modified) && Array.isArray(current)) return mergeLists(values, path, isKeyed);
  return modified;
}

function mergeMaps(values: Merged, path: readonly string[], isKeyed: boolean): unknown {
  const [original, modified, current] = [values.original, values.modified, values.current].map((it) =>
    isObject(it) ? it : {},
  ) as [Record<string, unknown>, Record<string, unknown>, Record<string, unknown>];
  const result: Record<string, unknown> = { ...current };
  for (const key of Object.keys(original)) if (own(modified, key) === undefined) delete result[key];
  for (const [key, value] of Object.entries(modified)) {
    if (value === undefined) continue;
    const inner = { original: own(original, key), modified: value, current: own(current, key) };
    result[key] = merge(inner, [...path, key], isKeyed);
  }
  return result;
}

function mergeLists(values: Merged, path: readonly string[], isKeyed: boolean): unknown {
  const [original, modified, current] = [values.original, values.modified, values.current].map((it) =>
    Array.isArray(it) ? (it as unknown[]) : [],
  ) as [unknown[], unknown[], unknown[]];
  const lists = { original, modified, current };
  if (isSet(path.at(-1) ?? "")) return mergeSets(lists);
  const keyed = isKeyed ? mergeKeyed(lists, path) : undefined;
  return keyed ?? mergeWhole(lists, path, isKeyed);
}

interface Lists {
  readonly original: readonly unknown[];
  readonly modified: readonly unknown[];
  readonly current: readonly unknown[];
}

function mergeSets({ original, modified, current }: Lists): unknown[] {
  const kept = current.filter((it) => !original.includes(it) || modified.includes(it));
  return [...kept, ...modified.filter((it) => !kept.includes(it))];
}

function mergeKeyed({ original, modified, current }: Lists, path: readonly string[]): unknown[] | undefined {
  const keys = mergeKeysOf(path, modified.length === 0 ? current : modified);
  if (keys === undefined) return undefined;
  const [before, wanted, present] = [original, modified, current].map((it) => itemsByKey(it, keys));
  if (wanted === undefined || present === undefined) return undefined;
  const merged = new Map<string, unknown>();
  for (const [key, item] of wanted)
    merged.set(
      key,
      merge({ original: before?.get(key), modified: item, current: present.get(key) }, path, true),
    );
  const others = [...present.keys()].filter((key) => !wanted.has(key) && before?.has(key) !== true);
  const order = [...merged.keys()];
  const presentKeys = [...present.keys()];
  for (const key of others) {
    // What others added stays behind what it was behind.
    const previous = presentKeys[presentKeys.indexOf(key) - 1];
    order.splice(previous === undefined ? 0 : order.indexOf(previous) + 1, 0, key);
  }
  return order.map((key) => merged.get(key) ?? present.get(key));
}

function mergeWhole(
  { original, modified, current }: Lists,
  path: readonly string[],
  isKeyed: boolean,
): unknown[] {
  if (modified.length !== current.length) return [...modified];
  const candidate = modified.map((item, at) =>
    merge({ original: original[at], modified: item, current: current[at] }, path, isKeyed),
  );
  return sameJson(candidate, current) ? [...current] : [...modified];
}

/** The merge patch (RFC 7386) from one object to another; undefined if they say the same. */
export function mergePatchOf(from: unknown, to: unknown): Record<string, unknown> | undefined {
  const patch: Record<string, unknown> = {};
  const [before, after] = [isObject(from) ? from : {}, isObject(to) ? to : {}];
  for (const key of Object.keys(before)) if (own(after, key) === undefined) patch[key] = null;
  for (const [key, value] of Object.entries(after)) {
    const present = own(before, key);
    if (value === undefined || sameJson(present, value)) continue;
    patch[key] = isObject(value) && isObject(present) ? mergePatchOf(present, value) : value;
  }
  return Object.keys(patch).length === 0 ? undefined : patch;
}
