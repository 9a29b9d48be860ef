import { isSameType } from "../type.ts";
import {
  CelError,
  CelMap,
  type CelValue,
  Duration,
  isList,
  KeyedList,
  Opaque,
  Optional,
  Timestamp,
  TypeValue,
  Uint,
} from "../value.ts";

/** Whether two values are the same one; numbers are by what they amount to, whatever their types. */
export function isEqual(a: CelValue, b: CelValue): boolean {
  if (a === b) return true;
  const order = compareNumbers(a, b);
  if (order !== undefined) return order === 0;
  return typeof a === "object" && a !== null && typeof b === "object" && areObjectsEqual(a, b);
}

function areObjectsEqual(
  a: Exclude<CelValue, null | string | number | bigint | boolean>,
  b: CelValue,
): boolean {
  if (isList(a)) return isList(b) && areListsEqual(a, b);
  if (a instanceof CelMap) return b instanceof CelMap && areMapsEqual(a, b);
  if (a instanceof Opaque) return a.isSame(b);
  if (a instanceof Optional) return b instanceof Optional && areOptionalsEqual(a, b);
  if (a instanceof TypeValue) return b instanceof TypeValue && areTypesEqual(a, b);
  return orderOfPlain(a, b) === 0;
}

/** Types are values by name alone: `type([1]) == list`. */
function areTypesEqual({ type: a }: TypeValue, { type: b }: TypeValue): boolean {
  return a.name === b.name || isSameType(a, b);
}

function areOptionalsEqual(a: Optional, b: Optional): boolean {
  if (a.hasValue !== b.hasValue) return false;
  return !a.hasValue || isEqual(a.value, b.value);
}

function areMapsEqual(a: CelMap, b: CelMap): boolean {
  if (a.size !== b.size) return false;
  for (const [key, value] of a.entries()) {
    const other = b.get(key);
    if (other === undefined || !isEqual(value, other)) return false;
  }
  return true;
}

function areListsEqual(a: readonly CelValue[], b: readonly CelValue[]): boolean {
  if (a.length !== b.length) return false;
  if (a instanceof KeyedList) return areKeyedListsEqual(a, b);
  if (b instanceof KeyedList) return areKeyedListsEqual(b, a);
  return a.every((it, at) => isEqual(it, b[at] ?? null));
}

function areKeyedListsEqual(a: KeyedList, b: readonly CelValue[]): boolean {
  const others = new Map(b.map((it) => [identityOf(it, a.itemKeys), it]));
  return a.every((it) => {
    const other = others.get(identityOf(it, a.itemKeys));
    return other !== undefined && isEqual(it, other);
  });
}

/** The key that identifies an item in its list. */
function identityOf(item: CelValue, keys: readonly string[] | undefined): string {
  if (keys === undefined || !(item instanceof CelMap)) return describeKey(item);
  return keys.map((key) => describeKey(item.get(key) ?? null)).join(",");
}

function describeKey(value: CelValue): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (value instanceof Uint || typeof value === "number") return String(Number(numeric(value)));
  if (value instanceof CelMap) {
    const parts = [...value.entries()].map(([key, it]) => `${describeKey(key)}:${describeKey(it)}`);
    return `{${parts.toSorted().join(",")}}`;
  }
  if (isList(value)) return `[${value.map(describeKey).join(",")}]`;
  if (value instanceof Timestamp || value instanceof Duration) return `${value.nanos}ns`;
  if (value instanceof Uint8Array) return `0x${Buffer.from(value).toString("hex")}`;
  return typeof value === "object" ? "" : String(value);
}

/** Lists of keyed items are merged, those of `b` last; others are put one after the other. */
export function concatenate(a: readonly CelValue[], b: readonly CelValue[]): readonly CelValue[] {
  if (!(a instanceof KeyedList)) return [...a, ...b];
  const { itemKeys: keys } = a;
  const added = new Map(b.map((it) => [identityOf(it, keys), it]));
  const merged = new KeyedList();
  merged.itemKeys = keys;
  for (const it of a) {
    const id = identityOf(it, keys);
    merged.push(added.get(id) ?? it);
    added.delete(id);
  }
  for (const it of added.values()) merged.push(it);
  return merged;
}

function numeric(value: CelValue): bigint | number | undefined {
  if (value instanceof Uint) return value.value;
  return typeof value === "bigint" || typeof value === "number" ? value : undefined;
}

/** The order of two numbers of any types: NaN if unordered; undefined if one is not a number. */
function compareNumbers(a: CelValue, b: CelValue): number | undefined {
  const left = numeric(a);
  const right = numeric(b);
  if (left === undefined || right === undefined) return undefined;
  if (Number.isNaN(left) || Number.isNaN(right)) return Number.NaN;
  return left < right ? -1 : left > right ? 1 : 0;
}

/**
 * The order of two values: below, at, or above 0.
 *
 * @throws {CelError} where they have none.
 */
export function compare(a: CelValue, b: CelValue): number {
  const order = compareNumbers(a, b);
  if (order !== undefined) {
    if (Number.isNaN(order)) throw new CelError("NaN values cannot be ordered");
    return order;
  }
  if (typeof a === "string" && typeof b === "string") return compareText(a, b);
  if (typeof a === "boolean" && typeof b === "boolean") return Number(a) - Number(b);
  const plain = orderOfPlain(a, b);
  if (plain === undefined) throw new CelError("no such overload");
  return plain;
}

/** Of bytes and of times; undefined for anything else. */
function orderOfPlain(a: CelValue, b: CelValue): number | undefined {
  if (a instanceof Uint8Array && b instanceof Uint8Array) return Buffer.compare(a, b);
  if (a instanceof Timestamp && b instanceof Timestamp) return Number(a.nanos - b.nanos);
  return a instanceof Duration && b instanceof Duration ? Number(a.nanos - b.nanos) : undefined;
}

/** By code points, as bytes of UTF-8 are ordered. */
export function compareText(a: string, b: string): number {
  if (a === b) return 0;
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}
