import { isObject } from "@fairlead/base/json.ts";
import { goText, mergeFailure } from "./go-text.ts";
import { DIRECTIVE, SET_ORDER } from "./strategic-directives.ts";

/** The text by which an item is found: its merge key's value, or itself for scalars. */
export function keyOfItem(item: unknown, mergeKey: string | undefined): string {
  if (mergeKey === undefined || !isObject(item)) return JSON.stringify(item);
  const key = item[mergeKey];
  if (key === undefined) {
    throw mergeFailure(`map: ${goText(item)} does not contain declared merge key: ${mergeKey}`);
  }
  return keyText(key);
}

/** Merge keys are compared as Go prints them: 80 and "80" are one key. */
export function keyText(key: unknown): string {
  return typeof key === "string" ? key : JSON.stringify(key);
}

export interface Orders {
  /** Items that the patch names, in the order it wants. */
  readonly order: readonly unknown[];
  /** The list as it was. */
  readonly before: readonly unknown[];
  readonly mergeKey: string | undefined;
}

/**
 * The order of a merged list: items in the patch follow the patch; the others keep their relative order, and precede an
 * item of the patch only if they preceded it in the list before.
 */
export function mergeOrder(merged: readonly unknown[], { order, before, mergeKey }: Orders): unknown[] {
  const wanted = positionsOf(order, mergeKey);
  const old = positionsOf(before, mergeKey);
  const keyed = merged.map((item) => ({ item, key: keyOfItem(item, mergeKey) }));
  const named = keyed
    .filter((it) => wanted.has(it.key))
    .toSorted((a, b) => (wanted.get(a.key) ?? 0) - (wanted.get(b.key) ?? 0));
  const others = keyed
    .filter((it) => !wanted.has(it.key))
    .toSorted((a, b) => (old.get(a.key) ?? old.size) - (old.get(b.key) ?? old.size));
  const result: unknown[] = [];
  let at = 0;
  for (const next of named) {
    const position = old.get(next.key);
    for (
      let other = others[at];
      other !== undefined && comesFirst(old.get(other.key), position);
      other = others[at]
    ) {
      result.push(other.item);
      at++;
    }
    result.push(next.item);
  }
  return [...result, ...others.slice(at).map((it) => it.item)];
}

/**
 * The order of a list before a patch, as upstream knows it. Where the patch deletes items, new ones count as having
 * stood at the end: upstream puts them where the deleted ones were in memory, and clients have come to see that order.
 */
export function orderBefore(
  before: readonly unknown[],
  patch: readonly unknown[],
  mergeKey: string | undefined,
): readonly unknown[] {
  if (mergeKey === undefined) return before;
  const isDeletion = (item: unknown): boolean => isObject(item) && item[DIRECTIVE] === "delete";
  const deleted = new Set(patch.filter(isDeletion).map((item) => keyOfItem(item, mergeKey)));
  const kept = before.filter((item) => !deleted.has(keyOfItem(item, mergeKey)));
  if (kept.length === before.length) return before;
  const known = positionsOf(before, mergeKey);
  const added = patch.filter(
    (item) => isObject(item) && item[DIRECTIVE] === undefined && !known.has(keyOfItem(item, mergeKey)),
  );
  return [...kept, ...added].slice(0, before.length);
}

function comesFirst(other: number | undefined, named: number | undefined): boolean {
  return other !== undefined && named !== undefined && other < named;
}

function positionsOf(items: readonly unknown[], mergeKey: string | undefined): Map<string, number> {
  const positions = new Map<string, number>();
  for (const item of items) {
    const key = keyOfItem(item, mergeKey);
    if (!positions.has(key)) positions.set(key, positions.size);
  }
  return positions;
}

/** Rejects a patch whose items are not in the order that the patch itself sets. */
export function refuseOutOfOrder(
  patch: readonly unknown[],
  order: readonly unknown[],
  mergeKey: string | undefined,
): void {
  const wanted = positionsOf(order, mergeKey);
  let last = -1;
  for (const item of patch) {
    if (isObject(item) && item[DIRECTIVE] !== undefined) continue;
    const position = wanted.get(keyOfItem(item, mergeKey)) ?? -1;
    if (position <= last && patch.length > 0) {
      throw mergeFailure(
        `The order in patch list:\n${goText(patch)}\n doesn't match ${SET_ORDER.slice(0, -1)} list:\n${goText(order)}\n`,
      );
    }
    last = position;
  }
}
