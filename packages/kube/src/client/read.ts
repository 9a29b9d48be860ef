import type { Resource } from "#api/meta/resource.ts";
import type { KubeObject } from "#api/meta/types.ts";
import { parseExact } from "@fairlead/base/exact-json.ts";
import { isObject } from "@fairlead/base/json.ts";

/** A number that may lose digits. Texts of digits, such as resource versions, are in quotes. */
const LONG_NUMBER = /[:,[\s-][0-9]{16}/;

/**
 * Objects as our types describe them, of what servers send. Go writes a nil list, map or time of a field without
 * `omitempty` as null, also where an empty list was sent: protobuf, as which built-in kinds are stored, has none. To
 * Kubernetes null and absent are the same, and our types know absent only. Integers that a number would round are bigints: what is
 * read of one server may be written to another.
 */
export function parseResponse(text: string): unknown {
  const value: unknown = LONG_NUMBER.test(text) ? parseExact(text) : JSON.parse(text);
  // Few responses have one: all others are spared the walk.
  if (text.includes("null")) dropNulls(value);
  return value;
}

/** Sets the lists that the kind's type says are always there. In place: the object comes from the parser. */
export function readObject<T extends KubeObject>({ lists = [] }: Resource<T>, object: T): T {
  for (const field of lists) (object as Record<string, unknown>)[field] ??= [];
  return object;
}

/** Without recursion: API servers accept values that are nested 10,000 levels deep. */
function dropNulls(value: unknown): void {
  const open = [value];
  while (open.length > 0) {
    const it = open.pop();
    if (isObject(it)) dropNullFields(it);
    else if (!Array.isArray(it)) continue;
    for (const inner of Object.values(it) as unknown[]) if (typeof inner === "object") open.push(inner);
  }
}

function dropNullFields(object: Record<string, unknown>): void {
  for (const key of Object.keys(object)) if (object[key] === null) delete object[key];
}
