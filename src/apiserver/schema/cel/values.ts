import { Duration } from "@marcbachmann/cel-js/evaluator";
import { isObject } from "#base/json.ts";
import type { Schema } from "../types.ts";

/** Words of CEL: a field of such a name is written `__name__`. */
const RESERVED = new Set(
  "true false null in as break const continue else for function if import let loop package namespace return var void while".split(
    " ",
  ),
);
const ESCAPES: readonly (readonly [string, string])[] = [
  ["__", "__underscores__"],
  [".", "__dot__"],
  ["-", "__dash__"],
  ["/", "__slash__"],
];

/** The name by which a rule writes a field; undefined for fields that no rule can name. */
export function escapeField(name: string): string | undefined {
  if (RESERVED.has(name)) return `__${name}__`;
  const escaped = name.replaceAll(
    /__|[.\-/]/g,
    (found) => ESCAPES.find(([it]) => it === found)?.[1] ?? found,
  );
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(escaped) ? escaped : undefined;
}

const TEXT: Schema = { type: "string" };

/** The schema as rules at the root of an object see it: of the metadata, only the names. */
export function rootSchema(schema: Schema): Schema {
  const metadata: Schema = { type: "object", properties: { name: TEXT, generateName: TEXT } };
  return { ...schema, properties: { ...schema.properties, apiVersion: TEXT, kind: TEXT, metadata } };
}

/** A value as CEL has it: integers as int64, times and durations as such, fields by their escaped names. */
export function toCel(value: unknown, schema: Schema | undefined): unknown {
  if (typeof value === "number") return toNumber(value, schema);
  if (typeof value === "string") return toText(value, schema);
  if (Array.isArray(value)) return value.map((item: unknown) => toCel(item, schema?.items));
  return isObject(value) ? toMap(value, schema) : value;
}

function toNumber(value: number, schema: Schema | undefined): number | bigint {
  const isDouble = schema?.type === "number" || !Number.isInteger(value);
  return isDouble ? value : BigInt(value);
}

function toText(value: string, schema: Schema | undefined): unknown {
  switch (schema?.format) {
    case "date":
    case "date-time": {
      const date = new Date(value);
      return Number.isNaN(date.getTime()) ? value : date;
    }
    case "duration":
      return toDuration(value) ?? value;
    case "byte":
      return Uint8Array.from(Buffer.from(value, "base64"));
    default:
      return value;
  }
}

/** Unit: nanoseconds. */
const UNITS: Readonly<Record<string, number>> = {
  ns: 1,
  us: 1e3,
  µs: 1e3,
  ms: 1e6,
  s: 1e9,
  m: 60e9,
  h: 3600e9,
};

function toDuration(text: string): Duration | undefined {
  if (!/^[-+]?([\d.]+(ns|us|µs|ms|s|m|h))+$/.test(text)) return undefined;
  let nanos = 0;
  for (const [, amount, unit = ""] of text.matchAll(/([\d.]+)(ns|us|µs|ms|s|m|h)/g))
    nanos += Number(amount) * (UNITS[unit] ?? 0);
  const signed = text.startsWith("-") ? -nanos : nanos;
  const seconds = Math.trunc(signed / 1e9);
  return new Duration(BigInt(seconds), Math.round(signed - seconds * 1e9));
}

function toMap(value: Record<string, unknown>, schema: Schema | undefined): Record<string, unknown> {
  const { properties, additionalProperties: additional } = schema ?? {};
  const map: Record<string, unknown> = {};
  for (const [name, item] of Object.entries(value)) {
    const field = properties !== undefined && Object.hasOwn(properties, name) ? properties[name] : undefined;
    if (field !== undefined) {
      const escaped = escapeField(name);
      if (escaped !== undefined) map[escaped] = toCel(item, field);
    } else if (properties === undefined) {
      map[name] = toCel(item, typeof additional === "object" ? additional : undefined);
    }
  }
  return map;
}
