import { CelMap, type CelValue, isList, Opaque, sizeOf } from "../value.ts";

/**
 * The cost of calls with known arguments. Sources: k8s.io/apiserver, pkg/cel/library/cost.go; cel-go,
 * interpreter/runtimecost.go and extension lists.
 */

/** Cost of reading a character; of applying a character of a pattern. */
export const TRAVERSAL = 0.1;
export const PATTERN = 0.25;
const LIST_CREATE = 10;

type Args = readonly CelValue[];
type Cost = (args: Args, result: CelValue) => number;

const sizeAt = (args: Args, at: number): number => sizeOf(args[at] ?? null);
const traverse =
  (at: number, times = 1): Cost =>
  (args) =>
    Math.ceil(sizeAt(args, at) * times * TRAVERSAL);
const match: Cost = (args) =>
  Math.ceil((1 + sizeAt(args, 0)) * TRAVERSAL) * Math.ceil(sizeAt(args, 1) * PATTERN);
const smaller: Cost = (args) => Math.ceil(Math.min(sizeAt(args, 0), sizeAt(args, 1)) * TRAVERSAL);
const wholeList: Cost = (args) => traversalOf(args[0] ?? null);
const madeList: Cost = (_, result) => sizeOf(result) + 1 + LIST_CREATE;
const selector: Cost = (args) => {
  const length = sizeAt(args, 1);
  return LIST_CREATE + Math.ceil(length * TRAVERSAL) + Math.ceil(Math.ceil(length * 0.5) * 50);
};
const containing =
  (extra: (args: Args) => number): Cost =>
  (args) =>
    Math.ceil(2 * sizeAt(args, 0) * TRAVERSAL) + extra(args);

function compareAll(times: number): Cost {
  return (args) => 1 + sizeAt(args, 0) * sizeAt(args, 1) * times;
}

function selfCompare(at: number): Cost {
  return (args) => {
    const list = args[at] ?? null;
    const size = sizeOf(list);
    const first = isList(list) ? list[0] : undefined;
    const isText = typeof first === "string" || first instanceof Uint8Array;
    return Math.floor(size * size * (isText ? 2 + TRAVERSAL : 2)) + 1 + LIST_CREATE;
  };
}

function traversalOf(value: CelValue): number {
  if (typeof value === "string" || value instanceof Uint8Array) {
    return Math.floor(Buffer.byteLength(value) * TRAVERSAL);
  }
  if (isList(value)) return value.reduce((total: number, it) => total + traversalOf(it), 0);
  if (!(value instanceof CelMap)) return 1;
  return [...value.entries()].reduce((total, [key, it]) => total + traversalOf(key) + traversalOf(it), 0);
}

const sumOfSizes: Cost = (args) => Math.ceil((sizeAt(args, 0) + sizeAt(args, 1)) * TRAVERSAL);

/** By function. */
const BY_NAME: ReadonlyMap<string, Cost> = new Map<string, Cost>([
  ["check", () => 350_000],
  ["fieldSelector", selector],
  ["labelSelector", selector],
  ...["isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"].map((it) => [it, wholeList] as const),
  ...["url", "lowerAscii", "upperAscii", "substring", "trim"].map((it) => [it, traverse(0)] as const),
  ...["cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"].map(
    (it) => [it, traverse(0)] as const,
  ),
  ["ip", traverse(0)],
  ["ip.isCanonical", traverse(0, 2)],
  ["replace", traverse(0, 2)],
  ["split", traverse(0, 2)],
  ["join", (_, result) => Math.ceil(sizeOf(result) * 2 * TRAVERSAL)],
  ["find", match],
  ["findAll", match],
  ["matches", match],
  [
    "validate",
    (args) => Math.ceil((1 + sizeAt(args, 1)) * TRAVERSAL) * Math.ceil(formatSize(args[0] ?? null) * PATTERN),
  ],
  ...["sets.contains", "sets.intersects"].map((it) => [it, compareAll(1)] as const),
  ["sets.equivalent", compareAll(2)],
  ["slice", madeList],
  ["reverse", madeList],
  ["lists.range", madeList],
  ["flatten", (args) => Math.floor(sizeAt(args, 0) * Number(args[1] ?? 1n)) + 1 + LIST_CREATE],
  ["distinct", selfCompare(0)],
  ["sort", selfCompare(0)],
  ["@sortByAssociatedKeys", selfCompare(1)],
  ["_==_", (args) => (args[0] instanceof Opaque ? 1 : smaller(args, null))],
  ["_!=_", smaller],
]);

/** By overload, where a function has others that cost nothing of note. */
const BY_OVERLOAD: ReadonlyMap<string, Cost> = new Map<string, Cost>([
  ["cidr_ip", () => 1],
  ["cidr_contains_ip_ip", containing(() => 0)],
  ["cidr_contains_ip_string", containing((args) => Math.ceil(sizeAt(args, 1) * TRAVERSAL))],
  ["cidr_contains_cidr", containing((args) => Math.ceil(sizeAt(args, 0) * TRAVERSAL) + 1)],
  [
    "cidr_contains_cidr_string",
    containing((args) => Math.ceil(sizeAt(args, 0) * TRAVERSAL) + 1 + Math.ceil(sizeAt(args, 1) * TRAVERSAL)),
  ],
  ...["starts_with_string", "ends_with_string", "string_to_bytes", "bytes_to_string", "strings_quote"].map(
    (it) => [it, traverse(0)] as const,
  ),
  ["string_format", traverse(0)],
  ["in_list", (args) => sizeAt(args, 1)],
  ["add_string", sumOfSizes],
  ["add_bytes", sumOfSizes],
  [
    "contains_string",
    (args) => Math.ceil(sizeAt(args, 0) * TRAVERSAL) * Math.ceil(sizeAt(args, 1) * TRAVERSAL),
  ],
  ...["less", "less_equals", "greater", "greater_equals"].flatMap((it) => [
    [`${it}_string`, smaller] as const,
    [`${it}_bytes`, smaller] as const,
  ]),
]);

/** The length of a named format's pattern; formats are known by their size. */
function formatSize(format: CelValue): number {
  return format instanceof Opaque ? format.celSize : 1;
}

export function actualCost(name: string, overload: string, args: Args, result: CelValue): number {
  const cost = BY_OVERLOAD.get(overload) ?? BY_NAME.get(name);
  return cost === undefined ? 1 : cost(args, result);
}
