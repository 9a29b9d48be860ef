import { cloneJson, isObject, own } from "@fairlead/base/json.ts";

/** Applies a JSON merge patch (RFC 7386). Neither argument is changed. */
export function applyMergePatch(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return cloneJson(patch);
  const merged: Record<string, unknown> = isObject(target) ? { ...target } : {};
  for (const key of Object.keys(patch)) {
    const value = patch[key];
    if (value === null) delete merged[key];
    else merged[key] = applyMergePatch(own(merged, key), value);
  }
  return merged;
}
