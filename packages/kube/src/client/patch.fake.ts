import type { KubeObject } from "#api/meta/types.ts";
import { isObject, sameJson } from "@fairlead/base/json.ts";
import { refuse } from "./server.fake.ts";

/** RFC 7386. */
export function mergePatched(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch;
  const result: Record<string, unknown> = isObject(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else if (value !== undefined) result[key] = mergePatched(result[key], value);
  }
  return result;
}

/** RFC 6902, cut to add, replace, remove and test. */
export function jsonPatched<T extends KubeObject>(target: T, patch: readonly object[]): T {
  for (const op of patch as readonly { op: string; path: string; value?: unknown }[]) {
    const parts = op.path.split("/").slice(1);
    const last = (parts.pop() ?? "").replaceAll("~1", "/").replaceAll("~0", "~");
    let at: unknown = target;
    for (const part of parts)
      at = (at as Record<string, unknown>)[part.replaceAll("~1", "/").replaceAll("~0", "~")];
    if (Array.isArray(at)) patchArray(at, last, op);
    else if (isObject(at)) patchMap(at, last, op);
    else throw refuse("Invalid", 422, `${op.op} ${op.path}: no such place`);
  }
  return target;
}

function patchArray(list: unknown[], at: string, op: { op: string; value?: unknown }): void {
  const index = at === "-" ? list.length : Number(at);
  if (op.op === "add") list.splice(index, 0, op.value);
  else if (op.op === "remove") list.splice(index, 1);
  else if (op.op === "replace") list[index] = op.value;
  else if (!sameJson(list[index], op.value)) throw refuse("Invalid", 422, "the test failed");
}

function patchMap(map: Record<string, unknown>, key: string, op: { op: string; value?: unknown }): void {
  if (op.op === "add" || op.op === "replace") map[key] = op.value;
  else if (op.op === "remove") delete map[key];
  else if (!sameJson(map[key], op.value)) throw refuse("Invalid", 422, "the test failed");
}
