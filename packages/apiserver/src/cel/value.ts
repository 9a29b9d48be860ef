import {
  BOOL,
  BYTES,
  type CelType,
  DOUBLE,
  DURATION,
  DYN,
  INT,
  listOf,
  mapOf,
  NULL,
  optionalOf,
  STRING,
  TIMESTAMP,
  TYPE,
  UINT,
} from "./type.ts";

/**
 * Values: an int is a `bigint`, a double a `number`, a list an array. What JavaScript has no type for has a class
 * here or, with the functions for it, in `library/`.
 */
export type CelValue =
  | null
  | boolean
  | bigint
  | number
  | string
  | Uint8Array
  | Uint
  | Duration
  | Timestamp
  | TypeValue
  | Optional
  | CelMap
  | Opaque
  | readonly CelValue[];

/** The result of an expression without a value: absorbed by `||`, `&&` and macros made of them. */
export class CelError extends Error {
  static {
    this.prototype.name = "CelError";
  }
}

/** The evaluation took more than it may; nothing absorbs that. */
export class CostExceeded extends Error {
  static {
    this.prototype.name = "CostExceeded";
  }
}

export class Uint {
  readonly value: bigint;
  constructor(value: bigint) {
    this.value = value;
  }
}

/** Unit: nanoseconds. */
export class Duration {
  readonly nanos: bigint;
  constructor(nanos: bigint) {
    this.nanos = nanos;
  }
}

/** Unit: nanoseconds since 1970 began, in UTC. */
export class Timestamp {
  readonly nanos: bigint;
  /** Offset of the original zone, used only to format the time. Unit: minutes east of UTC. */
  readonly offset: number;
  constructor(nanos: bigint, offset = 0) {
    this.nanos = nanos;
    this.offset = offset;
  }
}

export class TypeValue {
  readonly type: CelType;
  constructor(type: CelType) {
    this.type = type;
  }
}

export class Optional {
  static readonly NONE: Optional = new Optional(undefined);
  readonly #value: CelValue | undefined;
  private constructor(value: CelValue | undefined) {
    this.#value = value;
  }
  static of(value: CelValue): Optional {
    return new Optional(value);
  }
  get hasValue(): boolean {
    return this.#value !== undefined;
  }
  /** @throws {CelError} if the optional is empty. */
  get value(): CelValue {
    if (this.#value === undefined) throw new CelError("optional.none() dereference");
    return this.#value;
  }
}

/** A value of which the language knows the type and nothing else. */
export abstract class Opaque {
  abstract readonly celType: CelType;
  abstract isSame(other: CelValue): boolean;
  /** Unit: what cost is counted by; 1 where a value has no size. */
  get celSize(): number {
    return 1;
  }
}

type Key = string | boolean | bigint | number | null;

/** Keys that are numerically equal are the same key. */
function keyOf(key: CelValue): Key | undefined {
  if (key instanceof Uint) return key.value;
  if (typeof key === "number") return Number.isInteger(key) ? BigInt(key) : key;
  if (key === null) return key;
  return typeof key === "string" || typeof key === "boolean" || typeof key === "bigint" ? key : undefined;
}

export class CelMap {
  readonly #entries = new Map<Key, readonly [key: CelValue, value: CelValue]>();
  /** Of an object, whose fields the schema names. */
  readonly type: CelType | undefined;

  constructor(type?: CelType) {
    this.type = type;
  }

  get size(): number {
    return this.#entries.size;
  }

  get(key: CelValue): CelValue | undefined {
    const known = keyOf(key);
    return known === undefined ? undefined : this.#entries.get(known)?.[1];
  }

  has(key: CelValue): boolean {
    const known = keyOf(key);
    return known !== undefined && this.#entries.has(known);
  }

  /** @throws {CelError} where a map has no such keys. */
  set(key: CelValue, value: CelValue): void {
    const known = keyOf(key);
    if (known === undefined) throw new CelError(`unsupported key type: ${typeOf(key).name}`);
    this.#entries.set(known, [key, value]);
  }

  entries(): IterableIterator<readonly [key: CelValue, value: CelValue]> {
    return this.#entries.values();
  }
}

/** A list whose items are unordered (`x-kubernetes-list-type: set`), or identified by keys (`map`). */
export class KeyedList extends Array<CelValue> {
  /** The keys that identify an item; undefined: the whole item. */
  itemKeys: readonly string[] | undefined;
  static override get [Symbol.species](): ArrayConstructor {
    return Array;
  }
}

/** An object whose fields are worked out when they are first read. */
export class LazyFields extends CelMap {
  readonly #read: (field: string) => CelValue | undefined;
  readonly #names: () => readonly string[];

  /** @param names - Which fields there are, asked only where all are wanted. */
  constructor(
    type: CelType,
    read: (field: string) => CelValue | undefined,
    names: () => readonly string[] = () => [],
  ) {
    super(type);
    this.#read = read;
    this.#names = names;
  }

  override get(key: CelValue): CelValue | undefined {
    const known = super.get(key);
    if (known !== undefined || typeof key !== "string") return known;
    const value = this.#read(key);
    if (value !== undefined) this.set(key, value);
    return value;
  }

  override has(key: CelValue): boolean {
    return this.get(key) !== undefined;
  }

  override get size(): number {
    this.#readAll();
    return super.size;
  }

  override entries(): IterableIterator<readonly [key: CelValue, value: CelValue]> {
    this.#readAll();
    return super.entries();
  }

  #readAll(): void {
    for (const name of this.#names()) this.get(name);
  }
}

export function isList(value: CelValue): value is readonly CelValue[] {
  return Array.isArray(value);
}

const LIST = listOf(DYN);
const MAP = mapOf(DYN, DYN);
const OPTIONAL = optionalOf(DYN);

/** The type of a value, as `type()` gives it. */
export function typeOf(value: CelValue): CelType {
  switch (typeof value) {
    case "boolean":
      return BOOL;
    case "bigint":
      return INT;
    case "number":
      return DOUBLE;
    case "string":
      return STRING;
    default:
      return value === null ? NULL : typeOfObject(value);
  }
}

function typeOfObject(value: Exclude<CelValue, null | boolean | bigint | number | string>): CelType {
  if (Array.isArray(value)) return LIST;
  if (value instanceof CelMap) return value.type ?? MAP;
  if (value instanceof Opaque) return value.celType;
  if (value instanceof Uint) return UINT;
  if (value instanceof Duration) return DURATION;
  if (value instanceof Timestamp) return TIMESTAMP;
  if (value instanceof Optional) return OPTIONAL;
  return value instanceof Uint8Array ? BYTES : TYPE;
}

/** The size of a value for cost accounting. */
export function sizeOf(value: CelValue): number {
  if (typeof value === "string") return countCodePoints(value);
  if (value instanceof Uint8Array) return value.length;
  if (isList(value)) return value.length;
  if (value instanceof CelMap) return value.size;
  if (value instanceof Opaque) return value.celSize;
  return value instanceof Optional && value.hasValue ? sizeOf(value.value) : 1;
}

/** Unit: code points. */
export function countCodePoints(text: string): number {
  let count = text.length;
  for (let at = 0; at < text.length - 1; at++) {
    if ((text.charCodeAt(at) & 0xfc00) === 0xd800 && (text.charCodeAt(at + 1) & 0xfc00) === 0xdc00) count--;
  }
  return count;
}

/** The characters of a text as CEL counts them. */
export function codePoints(text: string): string[] {
  return Array.from(text);
}
