import { isObject } from "@fairlead/base/json.ts";
import { CelMap, type CelValue } from "./value.ts";

/** A JSON value of which no schema is known: whole numbers are ints. What objects hold is converted when it is read. */
export function toCel(value: unknown): CelValue {
  switch (typeof value) {
    case "number":
      return Number.isInteger(value) ? BigInt(value) : value;
    case "string":
    case "boolean":
    case "bigint":
      return value;
    default:
      if (Array.isArray(value)) return value.map(toCel);
      return isObject(value) ? new JsonMap(value) : null;
  }
}

/** Most rules read a few fields of an object that has many. */
class JsonMap extends CelMap {
  readonly #source: Readonly<Record<string, unknown>>;
  readonly #read = new Map<string, CelValue>();

  constructor(source: Readonly<Record<string, unknown>>) {
    super();
    this.#source = source;
  }

  override get size(): number {
    let size = 0;
    for (const key in this.#source) if (this.has(key)) size += 1;
    return size;
  }

  override get(key: CelValue): CelValue | undefined {
    if (typeof key !== "string" || !this.has(key)) return undefined;
    let value = this.#read.get(key);
    if (value === undefined) {
      value = toCel(this.#source[key]);
      this.#read.set(key, value);
    }
    return value;
  }

  override has(key: CelValue): boolean {
    return typeof key === "string" && Object.hasOwn(this.#source, key) && this.#source[key] !== undefined;
  }

  override *entries(): IterableIterator<readonly [key: CelValue, value: CelValue]> {
    for (const key in this.#source) {
      const value = this.get(key);
      if (value !== undefined) yield [key, value];
    }
  }
}
