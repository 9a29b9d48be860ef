import { keyOf, type ObjectKey } from "#api/meta/key.ts";
import type { KubeObject } from "#api/meta/types.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import type { Change, InformerOptions, Store } from "#types.ts";

type IndexFunctions<T extends KubeObject> = NonNullable<InformerOptions<T>["indexes"]>;

interface Index<T extends KubeObject> {
  readonly valuesOf: (object: T) => readonly string[];
  readonly byValue: Map<string, Map<ObjectKey, T>>;
}

/** Objects by key and by index. Each write returns its changes, so that indexes and readers follow step by step. */
export class IndexedStore<T extends KubeObject> implements Store<T> {
  readonly #objects = new Map<ObjectKey, T>();
  readonly #indexes: ReadonlyMap<string, Index<T>>;

  constructor(indexes: IndexFunctions<T> = {}) {
    this.#indexes = new Map(
      Object.entries(indexes).map(([name, valuesOf]) => [name, { valuesOf, byValue: new Map() }]),
    );
  }

  get size(): number {
    return this.#objects.size;
  }
  get(key: ObjectKey): T | undefined {
    return this.#objects.get(key);
  }
  list(): Iterable<T> {
    return this.#objects.values();
  }
  byIndex(index: string, value: string): Iterable<T> {
    const found = this.#indexes.get(index);
    if (found === undefined)
      throw new FleetError("OPTION_INVALID", `no index "${index}" was declared on this informer`);
    return found.byValue.get(value)?.values() ?? [];
  }

  /** Puts an object in. Undefined when the store already has this very version of it. */
  set(object: T): Change<T> | undefined {
    const key = keyOf(object);
    const before = this.#objects.get(key);
    if (before !== undefined && isSameVersion(before, object)) return undefined;
    return this.#change({ key, before, after: object });
  }

  delete(key: ObjectKey): Change<T> | undefined {
    const before = this.#objects.get(key);
    return before === undefined ? undefined : this.#change({ key, before, after: undefined });
  }

  /** A change of the index comes with the change of the object: readers never see one without the other. */
  #change(change: Change<T>): Change<T> {
    const { key, before, after } = change;
    for (const { valuesOf, byValue } of this.#indexes.values()) {
      const olds = before === undefined ? [] : valuesOf(before);
      const news = after === undefined ? [] : valuesOf(after);
      for (const value of olds) if (!news.includes(value)) removeFrom(byValue, value, key);
      if (after !== undefined) for (const value of news) addTo(byValue, value, { key, object: after });
    }
    if (after === undefined) this.#objects.delete(key);
    else this.#objects.set(key, after);
    return change;
  }
}

function isSameVersion(a: KubeObject, b: KubeObject): boolean {
  return a.metadata.resourceVersion === b.metadata.resourceVersion && a.metadata.uid === b.metadata.uid;
}

function addTo<T>(
  byValue: Map<string, Map<ObjectKey, T>>,
  value: string,
  entry: { readonly key: ObjectKey; readonly object: T },
): void {
  let entries = byValue.get(value);
  if (entries === undefined) {
    entries = new Map();
    byValue.set(value, entries);
  }
  entries.set(entry.key, entry.object);
}

function removeFrom<T>(byValue: Map<string, Map<ObjectKey, T>>, value: string, key: ObjectKey): void {
  const entries = byValue.get(value);
  entries?.delete(key);
  if (entries?.size === 0) byValue.delete(value);
}
