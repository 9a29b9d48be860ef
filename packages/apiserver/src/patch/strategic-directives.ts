import { isObject } from "@fairlead/base/json.ts";
import { badRequest } from "#status.ts";
import { goText, mergeFailure } from "./go-text.ts";

export const DIRECTIVE = "$patch";
export const RETAIN_KEYS = "$retainKeys";
export const DELETE_FROM_LIST = "$deleteFromPrimitiveList/";
export const SET_ORDER = "$setElementOrder/";

/** The values of `$patch`. "merge" is the default. */
export function directiveOf(
  patch: Readonly<Record<string, unknown>>,
): "replace" | "delete" | "merge" | undefined {
  const directive = patch[DIRECTIVE];
  if (directive === undefined || directive === "replace" || directive === "delete" || directive === "merge") {
    return directive;
  }
  throw mergeFailure(`unknown patch type: ${goText(directive)} in map: ${goText(patch)}`);
}

/** The only keys that the object may have afterwards; undefined when the patch does not say. */
export function retainKeys(patch: Readonly<Record<string, unknown>>): Set<unknown> | undefined {
  const keys = patch[RETAIN_KEYS];
  if (keys === undefined) return undefined;
  if (!Array.isArray(keys)) throw badRequest("invalid patch format of retainKeys");
  const retained = new Set<unknown>(keys);
  for (const [key, value] of Object.entries(patch)) {
    if (value === null || isDirective(key)) continue;
    if (!retained.has(key)) throw badRequest("invalid patch format of retainKeys");
  }
  return retained;
}

function isDirective(key: string): boolean {
  return (
    key === DIRECTIVE || key === RETAIN_KEYS || key.startsWith(DELETE_FROM_LIST) || key.startsWith(SET_ORDER)
  );
}

/** A value of a patch that has nothing to merge with: directives gone, and objects that have a `$patch`. */
export function withoutDirectives(value: unknown): unknown {
  if (Array.isArray(value)) return value.filter((item) => !isDirected(item)).map(withoutDirectives);
  if (!isObject(value)) return value;
  const entries = Object.entries(value).filter(([key, item]) => !isDirective(key) && !isDirected(item));
  return Object.fromEntries(entries.map(([key, item]) => [key, withoutDirectives(item)]));
}

/** Whether an object says itself what is to be done with it; with nothing to merge with, it is left out. */
export function isDirected(value: unknown): boolean {
  return isObject(value) && Object.hasOwn(value, DIRECTIVE);
}
