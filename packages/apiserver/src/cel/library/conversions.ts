import { formatDouble, formatDuration, formatTimestamp } from "../eval/text.ts";
import type { Declaration } from "../function.ts";
import type { Timestamp } from "../value.ts";
import { CelError, type CelValue, Duration, typeOf, TypeValue, Uint } from "../value.ts";
import { MAX_SECONDS, MIN_SECONDS, toInt, toTimestamp, toUint } from "./operators.ts";
import { parseDuration, parseTimestamp } from "./time-text.ts";

/** From one type to another. Source: cel-spec, "List of standard definitions"; texts and limits as cel-go has them. */

function same<T extends CelValue>(value: T): T {
  return value;
}

function refuse(from: string, to: string): never {
  throw new CelError(`type conversion error from '${from}' to '${to}'`);
}

const TRUE = new Set(["1", "t", "T", "true", "TRUE", "True"]);
const FALSE = new Set(["0", "f", "F", "false", "FALSE", "False"]);

function parseBool(text: string): boolean {
  if (TRUE.has(text)) return true;
  return FALSE.has(text) ? false : refuse("string", "bool");
}

function parseInt64(text: string): bigint {
  if (!/^[+-]?\d+$/.test(text)) return refuse("string", "int");
  const value = BigInt(text.replace("+", ""));
  return BigInt.asIntN(64, value) === value ? value : refuse("string", "int");
}

function parseUint64(text: string): Uint {
  if (!/^\d+$/.test(text)) return refuse("string", "uint");
  const value = BigInt(text);
  return BigInt.asUintN(64, value) === value ? new Uint(value) : refuse("string", "uint");
}

const NAMED_DOUBLE = /^([+-]?)(?:(inf|infinity)|nan)$/i;
const DOUBLE = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?$/i;

function parseDouble(text: string): number {
  const [found, sign, infinite] = NAMED_DOUBLE.exec(text) ?? [];
  if (found !== undefined) {
    if (infinite !== undefined) return sign === "-" ? -Infinity : Infinity;
    return sign === "" ? Number.NaN : refuse("string", "double");
  }
  if (!DOUBLE.test(text)) return refuse("string", "double");
  const value = Number(text);
  return Number.isFinite(value) ? value : refuse("string", "double");
}

function doubleToInt(value: number): bigint {
  if (!Number.isFinite(value) || value <= -(2 ** 63) || value >= 2 ** 63)
    throw new CelError("integer overflow");
  return BigInt(Math.trunc(value));
}

function doubleToUint(value: number): Uint {
  if (!Number.isFinite(value) || value < 0 || value >= 2 ** 64) {
    throw new CelError("unsigned integer overflow");
  }
  return new Uint(BigInt(Math.trunc(value)));
}

function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new CelError("invalid UTF-8 in bytes, cannot convert to string");
  }
}

function floorSeconds({ nanos }: Timestamp): bigint {
  const second = 1_000_000_000n;
  return (nanos - (((nanos % second) + second) % second)) / second;
}

function intToTimestamp(seconds: bigint): Timestamp {
  if (seconds < MIN_SECONDS || seconds > MAX_SECONDS) throw new CelError("timestamp overflow");
  return toTimestamp(seconds * 1_000_000_000n);
}

export const CONVERSIONS: readonly Declaration[] = [
  ["type", ["type(A) -> type(A)", (value: CelValue) => new TypeValue(typeOf(value))]],
  ["dyn", ["to_dyn(A) -> dyn", same]],
  ["bool", ["bool_to_bool(bool) -> bool", same], ["string_to_bool(string) -> bool", parseBool]],
  [
    "bytes",
    ["bytes_to_bytes(bytes) -> bytes", same],
    ["string_to_bytes(string) -> bytes", (text: string) => new Uint8Array(Buffer.from(text))],
  ],
  [
    "double",
    ["double_to_double(double) -> double", same],
    ["int64_to_double(int) -> double", Number],
    ["string_to_double(string) -> double", parseDouble],
    ["uint64_to_double(uint) -> double", ({ value }: Uint) => Number(value)],
  ],
  [
    "duration",
    ["duration_to_duration(duration) -> duration", same],
    ["int64_to_duration(int) -> duration", (nanos: bigint) => new Duration(nanos)],
    [
      "string_to_duration(string) -> duration",
      (text: string) => parseDuration(text) ?? refuse("string", "google.protobuf.Duration"),
    ],
  ],
  [
    "int",
    ["int64_to_int64(int) -> int", same],
    ["double_to_int64(double) -> int", doubleToInt],
    ["duration_to_int64(duration) -> int", ({ nanos }: Duration) => nanos],
    ["string_to_int64(string) -> int", parseInt64],
    ["timestamp_to_int64(timestamp) -> int", floorSeconds],
    ["uint64_to_int64(uint) -> int", ({ value }: Uint) => toInt(value)],
  ],
  [
    "string",
    ["string_to_string(string) -> string", same],
    ["bool_to_string(bool) -> string", String],
    ["bytes_to_string(bytes) -> string", decode],
    ["double_to_string(double) -> string", formatDouble],
    ["duration_to_string(duration) -> string", formatDuration],
    ["int64_to_string(int) -> string", String],
    ["timestamp_to_string(timestamp) -> string", formatTimestamp],
    ["uint64_to_string(uint) -> string", ({ value }: Uint) => String(value)],
  ],
  [
    "timestamp",
    ["timestamp_to_timestamp(timestamp) -> timestamp", same],
    ["int64_to_timestamp(int) -> timestamp", intToTimestamp],
    [
      "string_to_timestamp(string) -> timestamp",
      (text: string) => parseTimestamp(text) ?? refuse("string", "google.protobuf.Timestamp"),
    ],
  ],
  [
    "uint",
    ["uint64_to_uint64(uint) -> uint", same],
    ["double_to_uint64(double) -> uint", doubleToUint],
    ["int64_to_uint64(int) -> uint", toUint],
    ["string_to_uint64(string) -> uint", parseUint64],
  ],
];
