import { isObject, jsonKey } from "@fairlead/base/json.ts";
import { duplicate, invalid } from "#values/field-errors.ts";
import type { FieldError } from "#status.ts";
import type { Schema } from "./types.ts";

/** Errors beyond this many say nothing more. */
const MAX_ERRORS = 100;

/**
 * Items of sets and of keyed lists that occur more than once, and items of keyed lists that are not objects.
 * Source: apiextensions-apiserver, pkg/apiserver/schema/listtype.
 */
export function validateListTypes(value: unknown, schema: Schema): FieldError[] {
  const errors: FieldError[] = [];
  walk(value, schema, { path: "", errors });
  return errors;
}

interface At {
  readonly path: string;
  readonly errors: FieldError[];
}

function walk(value: unknown, schema: Schema, { path, errors }: At): void {
  if (typeof value !== "object" || value === null || !hasListTypes(schema)) return;
  if (errors.length >= MAX_ERRORS) return;
  if (Array.isArray(value)) walkList(value, schema, { path, errors });
  else walkMap(value, schema, { path, errors });
}

function walkList(list: readonly unknown[], schema: Schema, { path, errors }: At): void {
  errors.push(...problemsOf(list, schema, path));
  const { items } = schema;
  if (items === undefined || !hasListTypes(items)) return;
  for (const [index, it] of list.entries()) walk(it, items, { path: `${path}[${index}]`, errors });
}

function walkMap(value: object, schema: Schema, { path, errors }: At): void {
  const { properties = {}, additionalProperties: additional } = schema;
  for (const [name, it] of Object.entries(value)) {
    if (typeof additional === "object") walk(it, additional, { path: `${path}[${name}]`, errors });
    const field = Object.hasOwn(properties, name) ? properties[name] : undefined;
    if (field !== undefined) walk(it, field, { path: path === "" ? name : `${path}.${name}`, errors });
  }
}

function problemsOf(list: readonly unknown[], schema: Schema, path: string): FieldError[] {
  const type = schema["x-kubernetes-list-type"];
  if (type === "set") return duplicatesOf(list, path);
  if (type !== "map") return [];
  const stray = list.findIndex((it) => it !== null && !isObject(it));
  if (stray >= 0)
    return [invalid(`${path}[${stray}]`, list[stray], "must be an object for an array of list-type map")];
  const names = schema["x-kubernetes-list-map-keys"] ?? [];
  return duplicatesOf(
    list.map((it) => keyOf(it, names)),
    path,
  );
}

function keyOf(item: unknown, names: readonly string[]): Record<string, unknown> {
  if (!isObject(item)) return {};
  return Object.fromEntries(names.filter((it) => item[it] !== undefined).map((it) => [it, item[it]]));
}

/** Each value that occurs more than once, however often, at its second place. */
function duplicatesOf(values: readonly unknown[], path: string): FieldError[] {
  const errors: FieldError[] = [];
  const seen = new Map<string, number>();
  for (const [at, value] of values.entries()) {
    const key = jsonKey(value);
    const count = seen.get(key) ?? 0;
    if (count === 1) errors.push(duplicate(`${path}[${at}]`, value));
    if (errors.length >= MAX_ERRORS) break;
    seen.set(key, count + 1);
  }
  return errors;
}

/** A memo: a schema is never changed once it is stored. */
const LISTED = new WeakMap<Schema, boolean>();

/** Whether there is a set or a keyed list at any depth. */
function hasListTypes(schema: Schema): boolean {
  const known = LISTED.get(schema);
  if (known !== undefined) return known;
  const { properties = {}, items, additionalProperties: additional } = schema;
  const type = schema["x-kubernetes-list-type"];
  const found =
    type === "set" ||
    type === "map" ||
    [...Object.values(properties), items, additional].some(
      (it) => typeof it === "object" && hasListTypes(it),
    );
  LISTED.set(schema, found);
  return found;
}
