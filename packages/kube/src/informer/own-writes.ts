import type { Clock } from "@fairlead/base/clock.ts";
import { keyOf, type ObjectKey } from "#api/meta/key.ts";
import type { KubeObject } from "#api/meta/types.ts";
import { timestamp } from "#objects/conditions.ts";
import { isDeleting } from "#objects/finalizers.ts";
import type { Informer } from "#types.ts";

/** A watch that is open brings a change in less; one that is not ends in a new list. Unit: milliseconds. */
const KEPT_MS = 30_000;

interface Written<T> {
  readonly object: T;
  /** Of the index. */
  readonly value: string;
  readonly atMs: number;
}

export interface OwnWritesOptions<T extends KubeObject> {
  readonly informer: Informer<T>;
  /** An index of the informer, and the one value that it has for an object. */
  readonly index: string;
  readonly valueOf: (object: T) => string;
  /** Whether this program creates such objects. Otherwise one that the informer lacks is gone, whenever it was written. Default: false. */
  readonly isCreator?: boolean;
  readonly clock: Clock;
}

/**
 * What an informer has, and what the server returned for later writes of this program until the watch brings it: a pass that
 * runs in between must not decide from the state before its own writes.
 */
export class OwnWrites<T extends KubeObject> implements Disposable {
  readonly #options: OwnWritesOptions<T>;
  readonly #written = new Map<ObjectKey, Written<T>>();
  readonly #keys = new Map<string, Set<ObjectKey>>();
  readonly #subscription: Disposable;

  constructor(options: OwnWritesOptions<T>) {
    this.#options = options;
    this.#subscription = options.informer.subscribe(({ key, after }) => {
      const written = this.#written.get(key);
      if (written !== undefined && (after === undefined || isAsNew(after, written.object))) this.#forget(key);
    });
  }

  /** The object in its newest version; undefined if it is gone. */
  get(key: ObjectKey): T | undefined {
    return this.#newest(key) ?? this.#options.informer.store.get(key);
  }

  /** The objects for which the index has `value`, each in its newest version. */
  list(value: string): readonly T[] {
    const { informer, index } = this.#options;
    const seen = [...informer.store.byIndex(index, value)];
    const keys = this.#keys.get(value);
    if (keys === undefined) return seen;
    const objects = new Map(seen.map((it) => [keyOf(it), it]));
    for (const key of keys) {
      const newest = this.#newest(key);
      if (newest !== undefined) objects.set(key, newest);
    }
    return [...objects.values()];
  }

  /** @param object - As the server returned it, or what `trim` of the informer leaves of that. */
  note(object: T): void {
    const { informer, isCreator = false } = this.#options;
    if (isCreator || informer.store.get(keyOf(object)) !== undefined) this.noteCreated(object);
    else this.#forget(keyOf(object));
  }

  /** As `note`, of an object that the informer cannot have yet. */
  noteCreated(object: T): void {
    const { informer, valueOf, clock } = this.#options;
    const key = keyOf(object);
    this.#forget(key);
    const seen = informer.store.get(key);
    if (seen !== undefined && isAsNew(seen, object)) return;
    const value = valueOf(object);
    this.#written.set(key, { object, value, atMs: clock.monotonic() });
    this.#keys.set(value, (this.#keys.get(value) ?? new Set()).add(key));
  }

  /** The object was deleted by this program: it is gone, or waits for its finalizers. */
  noteDeleted(object: T): void {
    const { informer, clock } = this.#options;
    this.#forget(keyOf(object));
    if (isDeleting(object) || informer.store.get(keyOf(object)) === undefined) return;
    this.note({ ...object, metadata: { ...object.metadata, deletionTimestamp: timestamp(clock.now()) } });
  }

  #newest(key: ObjectKey): T | undefined {
    const written = this.#written.get(key);
    if (written === undefined) return undefined;
    if (this.#options.clock.monotonic() - written.atMs < KEPT_MS) return written.object;
    this.#forget(key);
    return undefined;
  }

  #forget(key: ObjectKey): void {
    const written = this.#written.get(key);
    if (written === undefined) return;
    this.#written.delete(key);
    const keys = this.#keys.get(written.value);
    keys?.delete(key);
    if (keys?.size === 0) this.#keys.delete(written.value);
  }

  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]();
  }
}

const NUMBER = /^\d+$/;

/** Versions are numbers that grow, or compare by equality only: then the generation says whether the spec is as new. */
function isAsNew(seen: KubeObject, written: KubeObject): boolean {
  const [a, b] = [seen.metadata, written.metadata];
  if (a.uid !== b.uid || isDeleting(seen)) return true;
  if (isDeleting(written)) return false;
  const [was, is] = [a.resourceVersion ?? "", b.resourceVersion ?? ""];
  if (NUMBER.test(was) && NUMBER.test(is)) return BigInt(was) >= BigInt(is);
  return was === is || (a.generation ?? 0) > (b.generation ?? 0);
}
