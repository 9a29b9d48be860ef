import { isObject } from "@fairlead/base/json.ts";
import type { Schema } from "#schema/types.ts";
import { toCel } from "../json.ts";
import { parseDuration, parseTimestamp } from "../library/time-text.ts";
import { type CelType, structOf } from "../type.ts";
import { CelMap, type CelValue, KeyedList, LazyFields } from "../value.ts";
import { rootSchema } from "./declared-type.ts";
import { escapeField } from "./escape.ts";

const OBJECT: CelType = structOf("object");

/** A value as rules have it that are written for its schema. The value is known to be valid. */
export function toTypedCel(value: unknown, schema: Schema): CelValue {
  if (value === null || value === undefined) return null;
  if (schema["x-kubernetes-int-or-string"] === true) return toCel(value);
  switch (typeof value) {
    case "number":
      return schema.type === "integer" ? BigInt(Math.trunc(value)) : value;
    case "string":
      return toText(value, schema.format);
    case "object":
      return Array.isArray(value) ? toList(value, schema) : toMap(value as Record<string, unknown>, schema);
    default:
      return toCel(value);
  }
}

function toText(value: string, format: string | undefined): CelValue {
  switch (format) {
    case "date":
      return parseTimestamp(`${value}T00:00:00Z`) ?? value;
    case "date-time":
      return parseTimestamp(value.toUpperCase()) ?? value;
    case "duration":
      return parseDuration(value) ?? value;
    case "byte":
      return new Uint8Array(Buffer.from(value, "base64"));
    default:
      return value;
  }
}

function toList(list: readonly unknown[], schema: Schema): CelValue {
  const { items = {} } = schema;
  const values = list.map((it) => toTypedCel(it, items));
  const kind = schema["x-kubernetes-list-type"];
  if (kind !== "set" && kind !== "map") return values;
  const keyed = new KeyedList();
  if (kind === "map") {
    const keys = schema["x-kubernetes-list-map-keys"] ?? [];
    keyed.itemKeys = keys.map((it) => escapeField(it) ?? it);
  }
  for (const it of values) keyed.push(it);
  return keyed;
}

function toMap(map: Record<string, unknown>, schema: Schema): CelValue {
  const isEmbedded = schema["x-kubernetes-embedded-resource"] === true;
  const { properties, additionalProperties: additional } = isEmbedded ? rootSchema(schema) : schema;
  if (properties !== undefined) return toStruct(map, properties);
  const result = new CelMap(typeof additional === "object" ? undefined : OBJECT);
  if (typeof additional !== "object") return result;
  for (const [key, item] of Object.entries(map)) {
    if (item !== undefined) result.set(key, toTypedCel(item, additional));
  }
  return result;
}

/** Fields are worked out as they are read: rules look at few of them. */
function toStruct(map: Record<string, unknown>, properties: Readonly<Record<string, Schema>>): CelValue {
  const read = (escaped: string): CelValue | undefined => {
    const name = unescape(escaped, properties);
    const schema = name === undefined ? undefined : properties[name];
    if (name === undefined || schema === undefined || !isPresent(map, name)) return undefined;
    return toTypedCel(map[name], schema);
  };
  const names = (): readonly string[] =>
    Object.keys(properties).flatMap((name) => (isPresent(map, name) ? (escapeField(name) ?? []) : []));
  return new LazyFields(OBJECT, read, names);
}

function isPresent(map: Record<string, unknown>, name: string): boolean {
  return isObject(map) && Object.hasOwn(map, name) && map[name] !== undefined;
}

function unescape(escaped: string, properties: Readonly<Record<string, Schema>>): string | undefined {
  if (Object.hasOwn(properties, escaped) && escapeField(escaped) === escaped) return escaped;
  if (!escaped.includes("__")) return undefined;
  return Object.keys(properties).find((name) => escapeField(name) === escaped);
}
