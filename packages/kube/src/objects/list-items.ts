import { isObject } from "@fairlead/base/json.ts";

/** Items of merged lists, as `fieldsV1` of `metadata.managedFields` names them. Any client that may write an object may write these. Pure. */

/** The key of a list's item in `fieldsV1`, `k:{"port":80}`; undefined: what a client wrote there is none. */
export function keyIn(part: string): Readonly<Record<string, unknown>> | undefined {
  const key = part.startsWith("k:") ? valueIn(part) : undefined;
  return isObject(key) ? key : undefined;
}

/** The value after `k:` or `v:`; undefined: what a client wrote there is not JSON. */
export function valueIn(part: string): unknown {
  try {
    return JSON.parse(part.slice(2));
  } catch {
    return undefined;
  }
}

/** A list has one set of key fields; clients may write others. */
const MAX_KEY_KINDS = 2;

/** The items of a list by the values of their key fields: clients may own as many items as fit into an object. */
export class ItemsByKey {
  readonly #items: unknown;
  /** By the names of the fields, and by their values. */
  readonly #kinds = new Map<string, ReadonlyMap<string, unknown>>();

  constructor(items: unknown) {
    this.#items = items;
  }

  find(key: Readonly<Record<string, unknown>>): unknown {
    const names = Object.keys(key).toSorted();
    return this.#kindOf(names)?.get(valuesOf(key, names));
  }

  #kindOf(names: readonly string[]): ReadonlyMap<string, unknown> | undefined {
    const kind = JSON.stringify(names);
    const known = this.#kinds.get(kind);
    if (known !== undefined || this.#kinds.size >= MAX_KEY_KINDS) return known;
    const items: readonly unknown[] = Array.isArray(this.#items) ? this.#items : [];
    const made = new Map(items.flatMap((it) => (isObject(it) ? [[valuesOf(it, names), it] as const] : [])));
    this.#kinds.set(kind, made);
    return made;
  }
}

function valuesOf(item: Readonly<Record<string, unknown>>, names: readonly string[]): string {
  return JSON.stringify(names.map((it) => item[it]));
}
