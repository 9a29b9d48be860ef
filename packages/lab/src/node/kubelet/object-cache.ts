import { objectKey, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { Informer, KubeClient } from "@fairlead/kube/types.ts";

/**
 * Single objects that pods refer to, each watched for as long as someone holds it: a node reads no Secret that none of
 * its pods uses.
 */
export class ObjectCache<T extends KubeObject> implements AsyncDisposable {
  readonly #client: KubeClient;
  readonly #of: Resource<T>;
  readonly #deps: RuntimeDeps;
  readonly #watched = new Map<
    ObjectKey,
    { readonly informer: Informer<T>; readonly holders: Map<string, () => void> }
  >();
  readonly #stop = new AbortController();

  constructor(client: KubeClient, of: Resource<T>, deps: RuntimeDeps) {
    this.#client = client;
    this.#of = of;
    this.#deps = deps;
  }

  /** Watches the object until `release`. `onChange` is called when it changes, comes or goes. */
  hold(key: ObjectKey, holder: string, onChange: () => void): void {
    let entry = this.#watched.get(key);
    if (entry === undefined) {
      const { namespace, name } = splitNamespaced(key);
      const options = { namespace, fieldSelector: `metadata.name=${name}` };
      const informer = createInformer(this.#client, this.#of, options, this.#deps);
      const holders = new Map<string, () => void>();
      informer.subscribe(() => {
        for (const notify of holders.values()) notify();
      });
      informer.start(this.#stop.signal);
      entry = { informer, holders };
      this.#watched.set(key, entry);
    }
    entry.holders.set(holder, onChange);
  }

  async release(key: ObjectKey, holder: string): Promise<void> {
    const entry = this.#watched.get(key);
    if (entry?.holders.delete(holder) !== true || entry.holders.size > 0) return;
    this.#watched.delete(key);
    await entry.informer[Symbol.asyncDispose]();
  }

  /** Resolves once it is known whether the object exists. Someone holds it. */
  async synced(key: ObjectKey, signal: AbortSignal): Promise<void> {
    await this.#watched.get(key)?.informer.synced(signal);
  }

  get(key: ObjectKey): T | undefined {
    return this.#watched.get(key)?.informer.store.get(key);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await Promise.all([...this.#watched.values()].map((it) => it.informer[Symbol.asyncDispose]()));
    this.#watched.clear();
  }
}

function splitNamespaced(key: ObjectKey): { readonly namespace: string; readonly name: string } {
  const slash = key.indexOf("/");
  return { namespace: key.slice(0, slash), name: key.slice(slash + 1) };
}

/** The ConfigMaps and Secrets that one pod holds. */
export class HeldObjects<T extends KubeObject> {
  readonly #cache: ObjectCache<T>;
  readonly #namespace: string;
  readonly #holder: string;
  readonly #onChange: () => void;
  readonly #keys = new Set<ObjectKey>();

  constructor(
    cache: ObjectCache<T>,
    pod: { readonly namespace: string; readonly uid: string; readonly onChange: () => void },
  ) {
    this.#cache = cache;
    this.#namespace = pod.namespace;
    this.#holder = pod.uid;
    this.#onChange = pod.onChange;
  }

  /** Holds these names, and resolves once all of them are known. */
  async hold(names: Iterable<string>, signal: AbortSignal): Promise<void> {
    for (const name of names) {
      const key = objectKey(this.#namespace, name);
      if (!this.#keys.has(key)) this.#cache.hold(key, this.#holder, this.#onChange);
      this.#keys.add(key);
    }
    await Promise.all([...this.#keys].map((key) => this.#cache.synced(key, signal)));
  }

  get(name: string): T | undefined {
    return this.#cache.get(objectKey(this.#namespace, name));
  }

  async release(): Promise<void> {
    const keys = [...this.#keys];
    this.#keys.clear();
    await Promise.all(keys.map((key) => this.#cache.release(key, this.#holder)));
  }
}
