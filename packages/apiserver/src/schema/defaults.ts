import { cloneJson, isObject } from "@fairlead/base/json.ts";
import type { Schema } from "./types.ts";

/**
 * Fills in what the schema of a custom resource defaults. Changes the object in place; doing it twice changes nothing.
 *
 * A default takes the place of a null where the schema is not nullable; a null that is allowed stays. Defaults reach into objects that are there, never create the way to them.
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
    if (field.default !== undefined && (!Object.hasOwn(value, name) || isStrayNull(value[name], field)))
      value[name] = cloneJson(field.default);
    applyDefaults(value[name], field);
  }
  if (typeof additional !== "object") return;
  for (const name of Object.keys(value)) {
    if (!Object.hasOwn(properties, name)) applyDefaults(value[name], additional);
  }
}

function isStrayNull(value: unknown, schema: Schema): boolean {
  return value === null && schema.nullable !== true;
}

/** Drops nulls that the schema of a custom resource neither allows nor replaces, but for those of lists. Changes the object in place. */
export function dropNulls(value: unknown, schema: Schema): void {
  const { items, properties = {}, additionalProperties: additional } = schema;
  if (Array.isArray(value)) {
    if (items !== undefined) for (const item of value) dropNulls(item, items);
    return;
  }
  if (!isObject(value)) return;
  for (const name of Object.keys(value)) {
    const item = value[name];
    const field = Object.hasOwn(properties, name) ? properties[name] : additional;
    if (typeof field !== "object") continue;
    if (field.default === undefined && isStrayNull(item, field)) delete value[name];
    else dropNulls(item, field);
  }
}
