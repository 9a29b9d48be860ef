import type { Clock } from "@fairlead/base/clock.ts";
import { keyOf, type ObjectKey } from "#api/meta/key.ts";
import type { KubeObject } from "#api/meta/types.ts";
import { isDeleting } from "#objects/finalizers.ts";
import { timestamp } from "#objects/conditions.ts";
import type { Informer } from "#types.ts";

/** A watch that is open brings a change in less; one that is not ends in a new list. Unit: milliseconds. */
const KEPT_MS = 30_000;

interface Written<T> {
  readonly object: T;
  readonly atMs: number;
}

export interface OwnWritesOptions<T extends KubeObject> {
  readonly informer: Informer<T>;
  /** An index of the informer, and the one value that it has for an object. */
  readonly index: string;
  readonly valueOf: (object: T) => string;
  readonly clock: Clock;
}

/**
 * What an informer has, and what the server returned for later writes of this program to specs until the watch brings it: a pass
 * that runs in between must not decide from the state before its own writes.
 */
export class OwnWrites<T extends KubeObject> implements Disposable {
  readonly #options: OwnWritesOptions<T>;
  readonly #written = new Map<string, Map<ObjectKey, Written<T>>>();
  readonly #subscription: Disposable;

  constructor(options: OwnWritesOptions<T>) {
    this.#options = options;
    this.#subscription = options.informer.subscribe(({ key, before, after }) => {
      const object = after ?? before;
      if (object === undefined || this.#written.size === 0) return;
      const written = this.#written.get(options.valueOf(object))?.get(key);
      if (written !== undefined && (after === undefined || isAsNew(after, written.object)))
        this.#forget(options.valueOf(object), key);
    });
  }

  /** The objects for which the index has `value`, each in its newest version. */
  list(value: string): readonly T[] {
    const { informer, index, clock } = this.#options;
    const seen = [...informer.store.byIndex(index, value)];
    const written = this.#written.get(value);
    if (written === undefined) return seen;
    const objects = new Map(seen.map((it) => [keyOf(it), it]));
    for (const [key, { object, atMs }] of written) {
      if (clock.monotonic() - atMs < KEPT_MS) objects.set(key, object);
      else this.#forget(value, key);
    }
    return [...objects.values()];
  }

  /** @param object - As the server returned it; what `trim` of the informer removes is best left out. */
  note(object: T): void {
    const { informer, valueOf, clock } = this.#options;
    const key = keyOf(object);
    const seen = informer.store.get(key);
    if (seen !== undefined && isAsNew(seen, object)) return;
    const value = valueOf(object);
    const group = this.#written.get(value) ?? new Map<ObjectKey, Written<T>>();
    this.#written.set(value, group.set(key, { object, atMs: clock.monotonic() }));
  }

  /** The object was deleted by this program, or waits for its finalizers. */
  noteDeleted(object: T): void {
    const { informer, valueOf, clock } = this.#options;
    if (informer.store.get(keyOf(object)) === undefined) return this.#forget(valueOf(object), keyOf(object));
    if (isDeleting(object)) return;
    const deletionTimestamp = timestamp(clock.now());
    const generation = (object.metadata.generation ?? 0) + 1;
    this.note({ ...object, metadata: { ...object.metadata, deletionTimestamp, generation } });
  }

  #forget(value: string, key: ObjectKey): void {
    const group = this.#written.get(value);
    group?.delete(key);
    if (group?.size === 0) this.#written.delete(value);
  }

  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]();
  }
}

/** Each write to the spec, and a deletion that finalizers delay, count the generation up. */
function isAsNew(seen: KubeObject, written: KubeObject): boolean {
  if (seen.metadata.uid !== written.metadata.uid) return true;
  return (seen.metadata.generation ?? 0) >= (written.metadata.generation ?? 0);
}
