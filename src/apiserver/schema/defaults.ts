import { cloneJson, isObject } from "#base/json.ts";
import type { Schema } from "./types.ts";

/**
 * Fills in what the schema of a custom resource defaults. Changes the object in place; doing it twice changes nothing.
 *
 * A null where the schema is not nullable is dropped, and a default takes its place; a null that is allowed stays, and
 * so do the nulls of lists. Defaults reach into objects that are there, never create the way to them.
 * Source: apiextensions-apiserver, pkg/apiserver/schema/defaulting.
 */
export function applyDefaults(value: unknown, schema: Schema): void {
  if (Array.isArray(value)) {
    const { items } = schema;
    if (items !== undefined) for (const item of value) applyDefaults(item, items);
  } else if (isObject(value)) applyToMap(value, schema);
}

function applyToMap(value: Record<string, unknown>, schema: Schema): void {
  const { properties = {}, additionalProperties: additional } = schema;
  for (const [name, field] of Object.entries(properties)) {
    if (isStrayNull(value[name], field)) delete value[name];
    if (field.default !== undefined && !Object.hasOwn(value, name)) value[name] = cloneJson(field.default);
    applyDefaults(value[name], field);
  }
  if (typeof additional !== "object") return;
  for (const [name, item] of Object.entries(value)) {
    if (Object.hasOwn(properties, name)) continue;
    if (isStrayNull(item, additional)) delete value[name];
    else applyDefaults(item, additional);
  }
}

function isStrayNull(value: unknown, schema: Schema): boolean {
  return value === null && schema.nullable !== true;
}
