import { keyOf, type ObjectKey } from "#api/meta/key.ts";
import type { KubeObject } from "#api/meta/types.ts";
import type { Change, Informer, Source } from "#types.ts";

/**
 * Makes keys due when an object changes, and once for every object that is there already.
 *
 * @param keysFor - The keys for a change; when an object moves from one to another (a label, an owner), those of both
 *   its states. Default: the object's own key.
 */
export function watching<T extends KubeObject>(informer: Informer<T>): Source;
export function watching<T extends KubeObject, K extends ObjectKey>(
  informer: Informer<T>,
  keysFor: (change: Change<T>) => Iterable<K>,
): Source<K>;
export function watching<T extends KubeObject>(
  informer: Informer<T>,
  keysFor: (change: Change<T>) => Iterable<ObjectKey> = (change) => [change.key],
): Source {
  return {
    informer,
    subscribe(enqueue) {
      const onChange = (change: Change<T>): void => {
        for (const key of keysFor(change)) enqueue(key);
      };
      for (const object of informer.store.list())
        onChange({ key: keyOf(object), before: undefined, after: object });
      return informer.subscribe(onChange);
    },
  };
}

/**
 * As `watching`, but nothing is due for objects that are there already: for kinds of which one object makes many keys
 * due. Another source has to make all of them due at the start.
 */
export function watchingChanges<T extends KubeObject, K extends ObjectKey>(
  informer: Informer<T>,
  keysFor: (change: Change<T>) => Iterable<K>,
): Source<K> {
  return {
    informer,
    subscribe: (enqueue) =>
      informer.subscribe((change) => {
        for (const key of keysFor(change)) enqueue(key);
      }),
  };
}

/** The keys of an object before and after a change. */
export function both<T extends KubeObject, K extends ObjectKey>(
  keysOf: (object: T) => readonly K[],
): (change: Change<T>) => K[] {
  return ({ before, after }) => [
    ...new Set([
      ...(before === undefined ? [] : keysOf(before)),
      ...(after === undefined ? [] : keysOf(after)),
    ]),
  ];
}
