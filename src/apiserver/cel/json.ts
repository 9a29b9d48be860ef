import { isObject } from "#base/json.ts";
import { CelMap, type CelValue } from "./value.ts";

/** A JSON value of which no schema is known: whole numbers are ints. */
export function toCel(value: unknown): CelValue {
  switch (typeof value) {
    case "number":
      return Number.isInteger(value) ? BigInt(value) : value;
    case "string":
    case "boolean":
    case "bigint":
      return value;
    default:
      return isObject(value) || Array.isArray(value) ? toAggregate(value) : null;
  }
}

function toAggregate(value: Record<string, unknown> | readonly unknown[]): CelValue {
  if (Array.isArray(value)) return value.map(toCel);
  const map = new CelMap();
  for (const [key, item] of Object.entries(value)) if (item !== undefined) map.set(key, toCel(item));
  return map;
}
