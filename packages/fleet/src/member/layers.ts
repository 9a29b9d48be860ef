import { type ObjectKey, keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import type { Change, Informer, Store } from "@fairlead/kube/types.ts";

interface Layer<T extends KubeObject> {
  readonly namespace: string;
  readonly informer: Informer<T>;
  readonly subscription: Disposable;
}

/**
 * Objects of one kind in several namespaces, one layer over the other: of objects with one name the uppermost counts, and
 * readers see one. Keys are names. Objects that are being deleted are not there. Layers may come and go; what another layer
 * has as well is then seen to change, never to vanish; and one object that two layers have, in one version, does not change
 * when one goes.
 *
 * The caller starts, syncs and stops the layers; this object is always synced, with what it has.
 */
export class Layers<T extends KubeObject> implements Informer<T>, Store<T> {
  readonly of: Resource<T>;
  readonly #layers: Layer<T>[] = [];
  readonly #subscribers = new Set<(change: Change<T>) => void>();

  constructor(of: Resource<T>) {
    this.of = of;
  }

  /** Adds a namespace below those that are there. Its informer has to be synced, and to watch that namespace alone. */
  add(namespace: string, informer: Informer<T>): void {
    const layer = {
      namespace,
      informer,
      subscription: informer.subscribe((change) => this.#pass(layer, change)),
    };
    this.#layers.push(layer);
    for (const after of informer.store.list())
      this.#pass(layer, { key: keyOf(after), before: undefined, after });
  }

  remove(informer: Informer<T>): void {
    const at = this.#layers.findIndex((it) => it.informer === informer);
    const [layer] = at === -1 ? [] : this.#layers.splice(at, 1);
    if (layer === undefined) return;
    layer.subscription[Symbol.dispose]();
    for (const before of layer.informer.store.list()) {
      const name = before.metadata.name;
      if (!isDeleting(before) && this.#find(name, 0, at) === undefined)
        this.#publish({ key: objectKey(undefined, name), before, after: this.#find(name, at) });
    }
  }

  #pass(layer: Layer<T>, { before, after }: Change<T>): void {
    const at = this.#layers.indexOf(layer);
    const name = (after ?? before)?.metadata.name ?? "";
    if (this.#find(name, 0, at) !== undefined) return;
    const under = this.#find(name, at + 1);
    this.#publish({
      key: objectKey(undefined, name),
      before: present(before) ?? under,
      after: present(after) ?? under,
    });
  }

  /** The uppermost object of a name in the layers from `from` up to, not including, `to`. */
  #find(name: string, from: number, to = this.#layers.length): T | undefined {
    for (let at = from; at < to; at += 1) {
      const layer = this.#layers[at];
      const found = present(layer?.informer.store.get(objectKey(layer.namespace, name)));
      if (found !== undefined) return found;
    }
    return undefined;
  }

  #publish(change: Change<T>): void {
    if (isSameVersion(change.before, change.after)) return;
    for (const subscriber of this.#subscribers) subscriber(change);
  }

  get(key: ObjectKey): T | undefined {
    return this.#find(key, 0);
  }

  *list(): Generator<T> {
    for (const [at, { informer }] of this.#layers.entries())
      yield* this.#uncovered(informer.store.list(), at);
  }

  *byIndex(index: string, value: string): Generator<T> {
    for (const [at, { informer }] of this.#layers.entries())
      yield* this.#uncovered(informer.store.byIndex(index, value), at);
  }

  *#uncovered(objects: Iterable<T>, at: number): Generator<T> {
    for (const it of objects)
      if (!isDeleting(it) && this.#find(it.metadata.name, 0, at) === undefined) yield it;
  }

  get size(): number {
    return [...this.list()].length;
  }

  get store(): Store<T> {
    return this;
  }
  get hasSynced(): boolean {
    return true;
  }
  get watchingSinceMs(): number | undefined {
    return this.#layers[0]?.informer.watchingSinceMs;
  }
  get version(): string | undefined {
    return this.#layers[0]?.informer.version;
  }
  start(): void {}
  synced(): Promise<void> {
    return Promise.resolve();
  }
  subscribe(onChange: (change: Change<T>) => void): Disposable {
    const subscriber = (change: Change<T>): void => onChange(change);
    this.#subscribers.add(subscriber);
    return { [Symbol.dispose]: () => void this.#subscribers.delete(subscriber) };
  }
  [Symbol.asyncDispose](): Promise<void> {
    for (const { subscription } of this.#layers.splice(0)) subscription[Symbol.dispose]();
    this.#subscribers.clear();
    return Promise.resolve();
  }
}

function present<T extends KubeObject>(object: T | undefined): T | undefined {
  return object === undefined || isDeleting(object) ? undefined : object;
}

function isSameVersion(a: KubeObject | undefined, b: KubeObject | undefined): boolean {
  if (a === b) return true;
  return (
    a !== undefined &&
    a.metadata.uid === b?.metadata.uid &&
    a.metadata.resourceVersion === b?.metadata.resourceVersion
  );
}
