/** Deeper than any schema of a CRD, and far from where recursion over a value would exhaust the stack. */
export const MAX_NESTING = 512;

/** A JSON value. */
export type JsonValue = string | number | boolean | null | JsonValue[] | JsonObject;
export interface JsonObject {
  [key: string]: JsonValue;
}

/** True for a plain object, neither null nor an array. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The object's own property `key`; inherited ones such as `constructor` do not count. */
export function own<T>(object: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

/** Whether two JSON values say the same. Keys in any order; a key with `undefined` counts as absent. */
export function sameJson(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (Array.isArray(a)) {
    return Array.isArray(b) && a.length === b.length && a.every((item, at) => sameJson(item, b[at]));
  }
  if (!isObject(a) || !isObject(b)) return false;
  for (const key of Object.keys(a)) if (!sameJson(a[key], own(b, key))) return false;
  for (const key of Object.keys(b)) if (b[key] !== undefined && own(a, key) === undefined) return false;
  return true;
}

/** A text that two JSON values share exactly when they say the same (`sameJson`). */
export function jsonKey(value: unknown): string {
  return JSON.stringify(sortedJson(value));
}

function sortedJson(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortedJson);
  if (!isObject(value)) return value;
  const entries = Object.keys(value)
    .toSorted()
    .map((key): [string, unknown] => [key, sortedJson(value[key])]);
  return Object.fromEntries(entries);
}

/** A deep copy of a JSON value. */
export function cloneJson<T>(value: T): T {
  if (Array.isArray(value)) return value.map((item: unknown) => cloneJson(item)) as T;
  if (!isObject(value)) return value;
  const copy: Record<string, unknown> = {};
  for (const key of Object.keys(value)) copy[key] = cloneJson(value[key]);
  return copy as T;
}

/** Whether objects and lists are nested more than `levels` deep. Looks no deeper than that. */
export function nestsDeeperThan(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (levels <= 0) return true;
  return Object.values(value).some((item) => nestsDeeperThan(item, levels - 1));
}
