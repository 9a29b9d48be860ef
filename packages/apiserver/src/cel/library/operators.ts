import { concatenate, isEqual, compare } from "../eval/equality.ts";
import type { Declaration, Implementation } from "../function.ts";
import type { CelMap } from "../value.ts";
import { CelError, type CelValue, countCodePoints, Duration, Timestamp, Uint } from "../value.ts";

/** Arithmetic, order, membership and size. Source: cel-spec, "List of standard definitions". */

const MAX_INT = (1n << 63n) - 1n;
const MIN_INT = -(1n << 63n);
const MAX_UINT = (1n << 64n) - 1n;
/** Unit: seconds since 1970: the years 1 to 9999. */
export const MIN_SECONDS = -62_135_596_800n;
export const MAX_SECONDS = 253_402_300_799n;

/** @throws {CelError} if the value overflows int64. */
export function toInt(value: bigint): bigint {
  if (value > MAX_INT || value < MIN_INT) throw new CelError("integer overflow");
  return value;
}

/** @throws {CelError} if the value overflows uint64. */
export function toUint(value: bigint): Uint {
  if (value > MAX_UINT || value < 0n) throw new CelError("unsigned integer overflow");
  return new Uint(value);
}

/** @throws {CelError} where it is more than 292 years. */
export function toDuration(nanos: bigint, problem = "duration overflow"): Duration {
  if (nanos > MAX_INT || nanos < MIN_INT) throw new CelError(problem);
  return new Duration(nanos);
}

/** @throws {CelError} where it is not in the years 1 to 9999. */
export function toTimestamp(nanos: bigint, offset = 0): Timestamp {
  if (nanos < MIN_SECONDS * 1_000_000_000n || nanos >= (MAX_SECONDS + 1n) * 1_000_000_000n) {
    throw new CelError("timestamp overflow");
  }
  return new Timestamp(nanos, offset);
}

type Numeric<T> = (a: T, b: T) => T;

const int =
  (run: Numeric<bigint>): Implementation =>
  (a: bigint, b: bigint) =>
    toInt(run(a, b));
const uint =
  (run: Numeric<bigint>): Implementation =>
  (a: Uint, b: Uint) =>
    toUint(run(a.value, b.value));
const double = (run: Numeric<number>): Implementation => run;

function nonZero(value: bigint, problem: string): bigint {
  if (value === 0n) throw new CelError(problem);
  return value;
}

const divide = (a: bigint, b: bigint): bigint => a / nonZero(b, "division by zero");
const modulo = (a: bigint, b: bigint): bigint => a % nonZero(b, "modulus by zero");

const COMPARED = ["bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration"] as const;
const IDS: Readonly<Record<string, string>> = { int: "int64", uint: "uint64" };

/** Each type against itself, and numbers of each type against those of the others. */
function ordering(name: string, id: string, isTrue: (order: number) => boolean): Declaration {
  const run = ((a: CelValue, b: CelValue) => isTrue(compare(a, b))) as Implementation;
  const numbers = ["int", "uint", "double"];
  const overloads = COMPARED.flatMap((type): (readonly [string, Implementation])[] => {
    const own = `${id}_${IDS[type] ?? type}`;
    const others = numbers.includes(type) ? numbers.filter((it) => it !== type) : [];
    return [
      [`${own}(${type}, ${type}) -> bool`, run],
      ...others.map((it) => [`${own}_${IDS[it] ?? it}(${type}, ${it}) -> bool`, run] as const),
    ];
  });
  return [name, ...overloads];
}

const sizeOfList = (list: readonly CelValue[]): bigint => BigInt(list.length);
const sizeOfMap = (map: CelMap): bigint => BigInt(map.size);
const sizeOfString = (text: string): bigint => BigInt(countCodePoints(text));
const sizeOfBytes = (bytes: Uint8Array): bigint => BigInt(bytes.length);

const isInList = (item: CelValue, list: readonly CelValue[]): boolean => list.some((it) => isEqual(it, item));
const isInMap = (key: CelValue, map: CelMap): boolean => map.has(key);

const unreachable = (): never => {
  throw new CelError("no such overload");
};

export const OPERATORS: readonly Declaration[] = [
  ["!_", ["logical_not(bool) -> bool", (value: boolean) => !value]],
  [
    "-_",
    ["negate_double(double) -> double", (value: number) => -value],
    ["negate_int64(int) -> int", (value: bigint) => toInt(-value)],
  ],
  [
    "_+_",
    [
      "add_bytes(bytes, bytes) -> bytes",
      (a: Uint8Array, b: Uint8Array) => new Uint8Array(Buffer.concat([a, b])),
    ],
    ["add_double(double, double) -> double", double((a, b) => a + b)],
    [
      "add_duration_duration(duration, duration) -> duration",
      (a: Duration, b: Duration) => toDuration(a.nanos + b.nanos),
    ],
    [
      "add_duration_timestamp(duration, timestamp) -> timestamp",
      (a: Duration, b: Timestamp) => toTimestamp(a.nanos + b.nanos, b.offset),
    ],
    [
      "add_timestamp_duration(timestamp, duration) -> timestamp",
      (a: Timestamp, b: Duration) => toTimestamp(a.nanos + b.nanos, a.offset),
    ],
    ["add_int64(int, int) -> int", int((a, b) => a + b)],
    ["add_list(list(A), list(A)) -> list(A)", concatenate],
    ["add_string(string, string) -> string", (a: string, b: string) => a + b],
    ["add_uint64(uint, uint) -> uint", uint((a, b) => a + b)],
  ],
  [
    "_-_",
    ["subtract_double(double, double) -> double", double((a, b) => a - b)],
    [
      "subtract_duration_duration(duration, duration) -> duration",
      (a: Duration, b: Duration) => toDuration(a.nanos - b.nanos),
    ],
    ["subtract_int64(int, int) -> int", int((a, b) => a - b)],
    [
      "subtract_timestamp_duration(timestamp, duration) -> timestamp",
      (a: Timestamp, b: Duration) => toTimestamp(a.nanos - b.nanos, a.offset),
    ],
    [
      "subtract_timestamp_timestamp(timestamp, timestamp) -> duration",
      (a: Timestamp, b: Timestamp) => toDuration(a.nanos - b.nanos, "integer overflow"),
    ],
    ["subtract_uint64(uint, uint) -> uint", uint((a, b) => a - b)],
  ],
  [
    "_*_",
    ["multiply_double(double, double) -> double", double((a, b) => a * b)],
    ["multiply_int64(int, int) -> int", int((a, b) => a * b)],
    ["multiply_uint64(uint, uint) -> uint", uint((a, b) => a * b)],
  ],
  [
    "_/_",
    ["divide_double(double, double) -> double", double((a, b) => a / b)],
    ["divide_int64(int, int) -> int", int(divide)],
    ["divide_uint64(uint, uint) -> uint", uint(divide)],
  ],
  [
    "_%_",
    ["modulo_int64(int, int) -> int", int(modulo)],
    ["modulo_uint64(uint, uint) -> uint", uint(modulo)],
  ],
  ordering("_<_", "less", (order) => order < 0),
  ordering("_<=_", "less_equals", (order) => order <= 0),
  ordering("_>_", "greater", (order) => order > 0),
  ordering("_>=_", "greater_equals", (order) => order >= 0),
  ["@in", ["in_list(A, list(A)) -> bool", isInList], ["in_map(A, map(A, B)) -> bool", isInMap]],
  [
    "size",
    ["size_bytes(bytes) -> int", sizeOfBytes],
    [".bytes_size(bytes) -> int", sizeOfBytes],
    ["size_list(list(A)) -> int", sizeOfList],
    [".list_size(list(A)) -> int", sizeOfList],
    ["size_map(map(A, B)) -> int", sizeOfMap],
    [".map_size(map(A, B)) -> int", sizeOfMap],
    ["size_string(string) -> int", sizeOfString],
    [".string_size(string) -> int", sizeOfString],
  ],
  // The evaluator implements the rest: it needs the operands before they are evaluated.
  ["_==_", ["equals(A, A) -> bool", unreachable]],
  ["_!=_", ["not_equals(A, A) -> bool", unreachable]],
  ["_&&_", ["logical_and(bool, bool) -> bool", unreachable]],
  ["_||_", ["logical_or(bool, bool) -> bool", unreachable]],
  ["_?_:_", ["conditional(bool, A, A) -> A", unreachable]],
  ["@not_strictly_false", ["not_strictly_false(bool) -> bool", unreachable]],
  [
    "_[_]",
    ["index_list(list(A), int) -> A", unreachable],
    ["index_map(map(A, B), A) -> B", unreachable],
    ["optional_list_index_int(optional_type(list(V)), int) -> optional_type(V)", unreachable],
    ["optional_map_index_value(optional_type(map(K, V)), K) -> optional_type(V)", unreachable],
  ],
  [
    "_[?_]",
    ["list_optindex_optional_int(list(V), int) -> optional_type(V)", unreachable],
    ["optional_list_optindex_optional_int(optional_type(list(V)), int) -> optional_type(V)", unreachable],
    ["map_optindex_optional_value(map(K, V), K) -> optional_type(V)", unreachable],
    ["optional_map_optindex_optional_value(optional_type(map(K, V)), K) -> optional_type(V)", unreachable],
  ],
  ["_?._", ["select_optional_field(dyn, string) -> optional_type(V)", unreachable]],
];
