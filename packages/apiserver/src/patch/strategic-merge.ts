import { cloneJson, isObject, own } from "@fairlead/base/json.ts";
import { deref } from "#schema/definitions.ts";
import type { Schema, SchemaResolver } from "#schema/types.ts";
import { badRequest, type StatusError } from "#status.ts";
import { goTypeName, mergeFailure } from "./go-text.ts";
import {
  DELETE_FROM_LIST,
  DIRECTIVE,
  directiveOf,
  isDirected,
  RETAIN_KEYS,
  retainKeys,
  SET_ORDER,
  withoutDirectives,
} from "./strategic-directives.ts";
import { keyOfItem, keyText, mergeOrder, orderBefore, refuseOutOfOrder } from "./strategic-order.ts";

/**
 * Applies a strategic merge patch to an object of a built-in kind. The schema says which lists merge and by what key
 * (`x-kubernetes-patch-strategy`, `-merge-key`); the patch may hold directives: `$patch: replace | delete | merge`,
 * `$retainKeys`, `$deleteFromPrimitiveList/<field>`, `$setElementOrder/<field>`. Arguments are not changed.
 * Source: apimachinery, util/strategicpatch; the same results, order of list items included.
 *
 * @throws {StatusError} 400 for a patch that is not an object, 500 for invalid directives or items without their
 * merge key.
 */
export function applyStrategicMergePatch(
  target: Readonly<Record<string, unknown>>,
  patch: unknown,
  schema: Schema,
  resolve: SchemaResolver,
): Record<string, unknown> {
  return mergeStrategically(cloneJson(target), cloneJson(patch), schema, resolve);
}

/** As `applyStrategicMergePatch`, without a copy: both arguments may be changed. */
export function mergeStrategically(
  target: Record<string, unknown>,
  patch: unknown,
  schema: Schema,
  resolve: SchemaResolver,
): Record<string, unknown> {
  if (patch === null) return target;
  if (!isObject(patch)) {
    throw badRequest(
      `json: cannot unmarshal ${goTypeName(patch)} into Go value of type map[string]interface {}`,
    );
  }
  return new Merger(resolve).map(target, patch, schema);
}

type JsonMap = Record<string, unknown>;

/** The schema of one field. */
interface FieldRule {
  readonly schema: Schema;
  readonly strategies: readonly string[];
  readonly mergeKey: string | undefined;
}

const ANY: Schema = { "x-kubernetes-preserve-unknown-fields": true };

class Merger {
  readonly #resolve: SchemaResolver;

  constructor(resolve: SchemaResolver) {
    this.#resolve = resolve;
  }

  /** Merges `patch` into `original`; both may be changed, and the result may be either. */
  map(original: JsonMap, patch: JsonMap, schema: Schema): JsonMap {
    const directive = directiveOf(patch);
    if (directive === "delete") return {};
    if (directive === "replace") return withoutNulls(withoutDirectives(patch)) as JsonMap;
    const keep = retainKeys(patch);
    if (keep !== undefined) for (const key of Object.keys(original)) if (!keep.has(key)) delete original[key];
    const done = this.#orderedLists(original, patch, schema);
    for (const [key, value] of Object.entries(patch)) {
      if (key === DIRECTIVE || key === RETAIN_KEYS || key.startsWith(SET_ORDER) || done.has(key)) continue;
      if (key.startsWith(DELETE_FROM_LIST))
        deleteScalars(original, key.slice(DELETE_FROM_LIST.length), value);
      else this.#field(original, { key, value }, schema);
    }
    return original;
  }

  #field(original: JsonMap, { key, value }: { key: string; value: unknown }, schema: Schema): void {
    const existing = own(original, key);
    if (value === null) delete original[key];
    else if (isObject(existing) && isObject(value)) {
      const rule = this.#ruleOf(schema, key);
      original[key] = rule.strategies.includes("replace")
        ? withoutNulls(withoutDirectives(value))
        : this.map(existing, value, rule.schema);
    } else if (Array.isArray(existing) && Array.isArray(value)) {
      original[key] = this.#list(existing, value, this.#ruleOf(schema, key));
    } else if (isDirected(value)) delete original[key];
    else original[key] = withoutNulls(withoutDirectives(value));
  }

  /** Merges the lists whose order the patch sets. Returns the names of those fields. */
  #orderedLists(original: JsonMap, patch: JsonMap, schema: Schema): Set<string> {
    const done = new Set<string>();
    for (const [directive, order] of Object.entries(patch)) {
      if (!directive.startsWith(SET_ORDER)) continue;
      const key = directive.slice(SET_ORDER.length);
      done.add(key);
      const [before, change] = [own(original, key), own(patch, key)];
      if (!Array.isArray(order)) throw notAList(order);
      if (before === undefined && change === undefined) continue;
      if (change === null) {
        delete original[key];
        continue;
      }
      const rule = this.#ruleOf(schema, key);
      const live = asList(before);
      const patched = asList(change);
      refuseOutOfOrder(patched, order, rule.mergeKey);
      const was = orderBefore(live, patched, rule.mergeKey);
      const merged =
        change === undefined ? live : this.#mergeOrTake(live, patched, before === undefined, rule);
      original[key] = mergeOrder(merged, { order, before: was, mergeKey: rule.mergeKey });
    }
    return done;
  }

  #mergeOrTake(live: unknown[], patched: unknown[], isNew: boolean, rule: FieldRule): unknown[] {
    if (isNew) return withoutNulls(withoutDirectives(patched)) as unknown[];
    return this.#list(live, patched, rule);
  }

  #list(original: unknown[], patch: unknown[], rule: FieldRule): unknown[] {
    if (!rule.strategies.includes("merge")) return withoutNulls(withoutDirectives(patch)) as unknown[];
    if (original.length === 0 && patch.length === 0) return original;
    const before = [...original];
    if (![...original, ...patch].some(isObject)) {
      const merged = [...new Set([...original, ...patch])];
      return mergeOrder(merged, { order: patch, before, mergeKey: undefined });
    }
    const { mergeKey } = rule;
    if (mergeKey === undefined) throw mergeFailure("cannot merge lists without merge key");
    const { kept, items, isReplaced } = takeDirectives(original, patch.map(asMap), mergeKey);
    if (isReplaced) return items;
    const merged = this.#items(kept, items, rule, mergeKey);
    return mergeOrder(merged, { order: items, before: kept, mergeKey });
  }

  #items(
    original: readonly unknown[],
    patch: readonly JsonMap[],
    rule: FieldRule,
    mergeKey: string,
  ): unknown[] {
    const merged = original.map(asMap);
    const positions = new Map(merged.map((item, at) => [keyText(item[mergeKey]), at] as const).toReversed());
    for (const item of patch) {
      const key = keyOfItem(item, mergeKey);
      const at = positions.get(key);
      const existing = at === undefined ? undefined : merged[at];
      if (at === undefined || existing === undefined) {
        positions.set(key, merged.length);
        merged.push(withoutNulls(withoutDirectives(item)) as JsonMap);
      } else merged[at] = this.map(existing, item, rule.schema);
    }
    return merged;
  }

  #ruleOf(schema: Schema, key: string): FieldRule {
    const outer = deref(schema, this.#resolve);
    const additional = typeof outer.additionalProperties === "object" ? outer.additionalProperties : ANY;
    const field = own(outer.properties ?? {}, key) ?? additional;
    const target = deref(field, this.#resolve);
    const strategies = field["x-kubernetes-patch-strategy"] ?? target["x-kubernetes-patch-strategy"] ?? "";
    return {
      schema: target.items ?? target,
      strategies: strategies.split(","),
      mergeKey: field["x-kubernetes-patch-merge-key"] ?? target["x-kubernetes-patch-merge-key"],
    };
  }
}

function asList(value: unknown): unknown[] {
  if (value === undefined) return [];
  if (!Array.isArray(value)) throw notAList(value);
  return value;
}

function notAList(value: unknown): StatusError {
  return mergeFailure(`expected a []interface {}, but received a ${goTypeName(value)}`);
}

function asMap(item: unknown): JsonMap {
  if (!isObject(item)) throw mergeFailure("list element types are not identical");
  return item;
}

/** Does what `$patch` in items says, and returns what is left to merge. */
function takeDirectives(
  original: readonly unknown[],
  patch: readonly JsonMap[],
  mergeKey: string,
): { kept: unknown[]; items: JsonMap[]; isReplaced: boolean } {
  const deleted = new Set<string>();
  const items: JsonMap[] = [];
  let isReplaced = false;
  for (const item of patch) {
    const directive = directiveOf(item);
    if (directive === "delete") deleted.add(keyOfItem(item, mergeKey));
    else if (directive === "replace") isReplaced = true;
    else items.push(item);
  }
  const kept = original.filter((item) => !deleted.has(keyText(asMap(item)[mergeKey])));
  return { kept, items: isReplaced ? (withoutNulls(items) as JsonMap[]) : items, isReplaced };
}

function deleteScalars(original: JsonMap, key: string, values: unknown): void {
  const list = original[key];
  if (!Array.isArray(values) || !Array.isArray(list)) return;
  const gone = new Set<unknown>(values);
  original[key] = list.filter((item) => !gone.has(item));
}

/** A null means "remove": in what is taken whole there is nothing to remove. */
function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (!isObject(value)) return value;
  const entries = Object.entries(value).filter(([, item]) => item !== null);
  return Object.fromEntries(entries.map(([key, item]) => [key, withoutNulls(item)]));
}
