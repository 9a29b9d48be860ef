import type { CelMap } from "../value.ts";
import { type CelValue, Duration, isList, Opaque, Optional, Timestamp, TypeValue, Uint } from "../value.ts";
import { formatDouble, formatDuration, formatTimestamp } from "./text.ts";

/** A value as problems show it. */
export function describe(value: CelValue): string {
  if (typeof value === "string") return value;
  return describeNested(value);
}

function describeNested(value: CelValue): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "number") return formatDouble(value);
  if (value === null || typeof value !== "object") return String(value);
  if (value instanceof Uint) return `${value.value}u`;
  if (value instanceof Duration) return `duration("${formatDuration(value)}")`;
  if (value instanceof Timestamp) return `timestamp("${formatTimestamp(value)}")`;
  if (value instanceof TypeValue) return value.type.name;
  if (value instanceof Uint8Array) return `b"${Buffer.from(value).toString("latin1")}"`;
  if (value instanceof Optional)
    return value.hasValue ? `optional(${describeNested(value.value)})` : "optional.none()";
  return describeAggregate(value);
}

function describeAggregate(value: CelMap | Opaque | readonly CelValue[]): string {
  if (isList(value)) return `[${value.map(describeNested).join(", ")}]`;
  if (value instanceof Opaque) return value.celType.name;
  const parts = [...value.entries()].map(([key, it]) => `${describeNested(key)}: ${describeNested(it)}`);
  return `{${parts.join(", ")}}`;
}
