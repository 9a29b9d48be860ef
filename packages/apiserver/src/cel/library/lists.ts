import { describe } from "../eval/describe.ts";
import { compare, isEqual } from "../eval/equality.ts";
import type { Declaration, Implementation } from "../function.ts";
import { isSameType } from "../type.ts";
import type { CelMap } from "../value.ts";
import { CelError, type CelValue, Duration, isList, Optional, typeOf, Uint } from "../value.ts";
import { toDuration, toInt, toUint } from "./operators.ts";

/**
 * Lists, and sets as lists. Sources: k8s.io/apiserver, pkg/cel/library/lists.go; cel-go, extensions lists (version 3),
 * sets and two-variable comprehensions.
 */

type List = readonly CelValue[];

const ORDERED = ["int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"] as const;
const LONG: Readonly<Record<string, string>> = {
  duration: "google.protobuf.Duration",
  timestamp: "google.protobuf.Timestamp",
};

function forOrdered(
  signature: (type: string, name: string) => string,
  run: Implementation,
): [string, Implementation][] {
  return ORDERED.map((type) => [signature(type, LONG[type] ?? type), run]);
}

function isSorted(list: List): boolean {
  return list.every((it, at) => at === 0 || compare(list[at - 1] ?? null, it) <= 0);
}

function extreme(name: string, sign: 1 | -1): (list: List) => CelValue {
  return ([first, ...rest]) => {
    if (first === undefined) throw new CelError(`${name} called on empty list`);
    let best = first;
    for (const it of rest) if (compare(it, best) * sign > 0) best = it;
    return best;
  };
}

function sum<T extends CelValue>(zero: T, add: (total: T, item: T) => T): Implementation {
  return (list: readonly T[]) => {
    let total = zero;
    for (const it of list) {
      if (typeof it !== typeof zero) throw new CelError("no such overload");
      total = add(total, it);
    }
    return total;
  };
}

function indexOf(list: List, item: CelValue): bigint {
  return BigInt(list.findIndex((it) => isEqual(it, item)));
}

function lastIndexOf(list: List, item: CelValue): bigint {
  return BigInt(list.findLastIndex((it) => isEqual(it, item)));
}

function slice(list: List, start: bigint, end: bigint): List {
  const refuse = (why: string): never => {
    throw new CelError(`cannot slice(${start}, ${end}), ${why}`);
  };
  if (start < 0n || end < 0n) refuse("negative indexes not supported");
  if (start > end) refuse("start index must be less than or equal to end index");
  if (end > BigInt(list.length)) refuse(`list is length ${list.length}`);
  return list.slice(Number(start), Number(end));
}

function flatten(list: List, depth = 1n): List {
  if (depth < 0n) throw new CelError("level must be non-negative");
  if (depth === 0n) return list;
  const flat: CelValue[] = [];
  for (const it of list) {
    if (!isList(it)) flat.push(it);
    else for (const inner of flatten(it, depth - 1n)) flat.push(inner);
  }
  return flat;
}

function distinct(list: List): List {
  const kept: CelValue[] = [];
  for (const it of list) if (!kept.some((other) => isEqual(it, other))) kept.push(it);
  return kept;
}

function sortByKeys(list: List, keys: List): List {
  const [first] = keys;
  if (first === undefined) return list;
  const type = typeOf(first);
  if (!ORDERED.some((it) => type.kind === it)) throw new CelError("list elements must be comparable");
  if (keys.length > 1 && keys.some((it) => !isSameType(typeOf(it), type))) {
    throw new CelError("list elements must have the same type");
  }
  const order = keys.map((key, at) => ({ key, at })).toSorted((a, b) => compare(a.key, b.key));
  return order.map(({ at }) => list[at] ?? null);
}

/** More than any budget allows, and no more than memory does. */
const MAX_RANGE = 10_000_000n;

function range(end: bigint): List {
  if (end > MAX_RANGE) throw new CelError("range is too large");
  return Array.from({ length: Math.max(0, Number(end)) }, (_, at) => BigInt(at));
}

const contains = (list: List, other: List): boolean =>
  other.every((it) => list.some((own) => isEqual(own, it)));

function insert(map: CelMap, key: CelValue, value: CelValue): CelMap {
  if (map.has(key)) throw new CelError(`insert failed: key ${describe(key)} already exists`);
  map.set(key, value);
  return map;
}

function insertAll(map: CelMap, other: CelMap): CelMap {
  for (const [key, value] of other.entries()) insert(map, key, value);
  return map;
}

export const LISTS: readonly Declaration[] = [
  ["isSorted", ...forOrdered((type) => `.list_${type}_is_sorted_bool(list(${type})) -> bool`, isSorted)],
  ["max", ...forOrdered((type) => `.list_${type}_max_${type}(list(${type})) -> ${type}`, extreme("max", 1))],
  ["min", ...forOrdered((type) => `.list_${type}_min_${type}(list(${type})) -> ${type}`, extreme("min", -1))],
  [
    "sum",
    [".list_int_sum_int(list(int)) -> int", sum<bigint>(0n, (a, b) => toInt(a + b))],
    [".list_uint_sum_uint(list(uint)) -> uint", sum(new Uint(0n), (a, b) => toUint(a.value + b.value))],
    [".list_double_sum_double(list(double)) -> double", sum<number>(0, (a, b) => a + b)],
    [
      ".list_duration_sum_duration(list(duration)) -> duration",
      sum(new Duration(0n), (a, b) => toDuration(a.nanos + b.nanos)),
    ],
  ],
  ["indexOf", [".list_a_index_of_int(list(A), A) -> int", indexOf]],
  ["lastIndexOf", [".list_a_last_index_of_int(list(A), A) -> int", lastIndexOf]],
  ["slice", [".list_slice(list(T), int, int) -> list(T)", slice]],
  [
    "flatten",
    [".list_flatten(list(list(T))) -> list(T)", flatten],
    [".list_flatten_int(list(dyn), int) -> list(dyn)", flatten],
  ],
  ["distinct", [".list_distinct(list(T)) -> list(T)", distinct]],
  ["reverse", [".list_reverse(list(T)) -> list(T)", (list: List) => list.toReversed()]],
  [
    "sort",
    ...forOrdered(
      (type, name) => `.list_${name}_sort(list(${type})) -> list(${type})`,
      (list: List) => sortByKeys(list, list),
    ),
  ],
  [
    "@sortByAssociatedKeys",
    ...forOrdered(
      (type, name) => `.list_${name}_sortByAssociatedKeys(list(T), list(${type})) -> list(T)`,
      sortByKeys,
    ),
  ],
  ["lists.range", ["lists_range(int) -> list(int)", range]],
  ["first", [".list_first(list(V)) -> optional_type(V)", ([first]: List) => optional(first)]],
  ["last", [".list_last(list(V)) -> optional_type(V)", (list: List) => optional(list.at(-1))]],
  ["sets.contains", ["list_sets_contains_list(list(T), list(T)) -> bool", contains]],
  [
    "sets.equivalent",
    [
      "list_sets_equivalent_list(list(T), list(T)) -> bool",
      (a: List, b: List) => contains(a, b) && contains(b, a),
    ],
  ],
  [
    "sets.intersects",
    [
      "list_sets_intersects_list(list(T), list(T)) -> bool",
      (a: List, b: List) => a.some((it) => b.some((other) => isEqual(it, other))),
    ],
  ],
  [
    "cel.@mapInsert",
    ["@mapInsert_map_key_value(map(K, V), K, V) -> map(K, V)", insert],
    ["@mapInsert_map_map(map(K, V), map(K, V)) -> map(K, V)", insertAll],
  ],
];

function optional(value: CelValue | undefined): Optional {
  return value === undefined ? Optional.NONE : Optional.of(value);
}
