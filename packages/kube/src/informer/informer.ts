import { keyOf, type ObjectKey } from "#api/meta/key.ts";
import type { Resource } from "#api/meta/resource.ts";
import type { KubeObject, ManagedFieldsEntry } from "#api/meta/types.ts";
import { abortable, abortWith } from "@fairlead/base/abortable.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { isDeleting } from "#objects/finalizers.ts";
import { Reflector, type Sink } from "./reflector.ts";
import { IndexedStore } from "./store.ts";
import type { Change, Informer, InformerOptions, KubeClient } from "#types.ts";

/** Lists and watches one kind into a store. Begins with `start`. */
export function createInformer<T extends KubeObject>(
  client: KubeClient,
  of: Resource<T>,
  options: InformerOptions<T>,
  deps: RuntimeDeps,
): Informer<T> {
  return new WatchingInformer(client, of, options, deps);
}

class WatchingInformer<T extends KubeObject> implements Informer<T>, Sink<T> {
  readonly of: Resource<T>;
  readonly store: IndexedStore<T>;
  readonly #options: InformerOptions<T>;
  readonly #deps: RuntimeDeps;
  readonly #reflector: Reflector<T>;
  readonly #subscribers = new Set<(change: Change<T>) => void>();
  /** Objects that are gone and not yet for the readers. */
  readonly #lingering = new Map<ObjectKey, Disposable>();
  readonly #stop = new AbortController();
  readonly #firstList = Promise.withResolvers<void>();
  #running: Promise<void> | undefined;
  #check: Disposable | undefined;
  #hasSynced = false;

  constructor(client: KubeClient, of: Resource<T>, options: InformerOptions<T>, deps: RuntimeDeps) {
    this.of = of;
    this.store = new IndexedStore(options.indexes);
    this.#options = options;
    this.#deps = deps;
    this.#reflector = new Reflector(client, of, options, { sink: this, deps });
  }

  get hasSynced(): boolean {
    return this.#hasSynced;
  }

  get watchingSinceMs(): number | undefined {
    return this.#reflector.watchingSinceMs;
  }

  get version(): string | undefined {
    return this.#reflector.version;
  }

  start(signal: AbortSignal): void {
    if (this.#running !== undefined) return;
    const { group, plural } = this.of;
    const name = `informer/${group === "" ? plural : `${plural}.${group}`}`;
    const problem = (): string | undefined => (this.#hasSynced ? undefined : "not synced yet");
    this.#check = this.#deps.health?.register({ name, kind: "ready", problem });
    abortWith(this.#stop, signal);
    this.#running = this.#reflector.run(this.#stop.signal);
  }

  synced(signal: AbortSignal): Promise<void> {
    if (this.#hasSynced) return Promise.resolve();
    return abortable(this.#firstList.promise, AbortSignal.any([signal, this.#stop.signal]));
  }

  subscribe(onChange: (change: Change<T>) => void): Disposable {
    // Wrapped, so that one function subscribed twice is two subscriptions.
    const subscriber = (change: Change<T>): void => onChange(change);
    this.#subscribers.add(subscriber);
    return { [Symbol.dispose]: () => void this.#subscribers.delete(subscriber) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    this.#check?.[Symbol.dispose]();
    await this.#running;
    for (const key of this.#lingering.keys()) this.#keep(key);
    this.#subscribers.clear();
  }

  get(key: ObjectKey): T | undefined {
    return this.store.get(key);
  }

  replace(objects: readonly T[]): void {
    const present = new Set<ObjectKey>(objects.map((object) => keyOf(object)));
    const gone = [...this.store.list()].map((object) => keyOf(object)).filter((key) => !present.has(key));
    for (const key of gone) this.#remove(key);
    for (const object of objects) this.set(object);
    this.#hasSynced = true;
    this.#firstList.resolve();
  }

  set(object: T): void {
    const key = keyOf(object);
    const before = this.store.get(key);
    this.#keep(key);
    // Another object under the same name: for readers the old one went before this one came.
    if (before !== undefined && before.metadata.uid !== object.metadata.uid && !this.#lingers(before))
      this.#publish(this.store.delete(key));
    this.#publish(this.store.set(object));
  }

  delete(object: T): void {
    this.#options.onDeleted?.(object);
    this.#remove(keyOf(object));
  }

  #lingers(object: T): boolean {
    return (this.#options.lingerMs ?? 0) > 0 && !isDeleting(object);
  }

  #remove(key: ObjectKey): void {
    const object = this.store.get(key);
    if (object === undefined || this.#lingering.has(key)) return;
    const remove = (): void => {
      this.#lingering.delete(key);
      this.#publish(this.store.delete(key));
    };
    if (this.#lingers(object))
      this.#lingering.set(key, this.#deps.clock.after(this.#options.lingerMs ?? 0, remove));
    else remove();
  }

  #keep(key: ObjectKey): void {
    this.#lingering.get(key)?.[Symbol.dispose]();
    this.#lingering.delete(key);
  }

  trim(object: T): T {
    // Objects come fresh from the parser: no one else refers to them yet.
    const { managedFields } = object.metadata;
    if (managedFields !== undefined) setManagedFields(object, this.#usedEntries(managedFields));
    return this.#options.trim?.(object) ?? object;
  }

  #usedEntries(entries: readonly ManagedFieldsEntry[]): ManagedFieldsEntry[] {
    const { fieldManager } = this.#options;
    if (fieldManager === undefined) return [];
    const isApplied = entries.some(
      (it) => it.manager === fieldManager && it.operation === "Apply" && it.subresource === undefined,
    );
    return entries.filter((it) => it.manager === fieldManager || (isApplied && it.subresource === undefined));
  }

  #publish(change: Change<T> | undefined): void {
    if (change === undefined) return;
    for (const subscriber of this.#subscribers) {
      try {
        subscriber(change);
      } catch (error) {
        // One reader's fault must not cost the others their change.
        const fields = { resource: this.of.plural, key: change.key, error: messageOf(error) };
        this.#deps.log.error("a subscriber of an informer failed", fields);
      }
    }
  }
}

/** An absent list and an empty one say different things to `applyIfChanged`: "unknown" and "we own nothing". */
function setManagedFields(object: KubeObject, entries: ManagedFieldsEntry[]): void {
  if (entries.length > 0) object.metadata.managedFields = entries;
  else delete object.metadata.managedFields;
}
