import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { objectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { Informer, KubeClient } from "@fairlead/kube/types.ts";

interface Source {
  readonly namespace: string;
  readonly informers: ReadonlyMap<string, Informer<KubeObject>>;
  readonly stop: AbortController;
}

interface Listener {
  /** An object of the view changed. */
  readonly onChange: (of: Resource, name: string) => void;
  /** All of it is known: what is here and no longer there can be found. */
  readonly onSynced: () => void;
}

/** Objects of some kinds in a namespace of the hub, which is read while it is named. */
export class ViewSource implements AsyncDisposable {
  readonly #hub: KubeClient;
  readonly #kinds: readonly Resource[];
  readonly #listener: Listener;
  readonly #deps: RuntimeDeps;
  #source: Source | undefined;

  constructor(
    parts: { readonly hub: KubeClient; readonly deps: RuntimeDeps },
    kinds: readonly Resource[],
    listener: Listener,
  ) {
    this.#hub = parts.hub;
    this.#deps = parts.deps;
    this.#kinds = kinds;
    this.#listener = listener;
  }

  /** Reads another namespace from now on; undefined: none. */
  async follow(namespace: string | undefined): Promise<void> {
    if (namespace === this.#source?.namespace) return;
    const before = this.#source;
    this.#source = namespace === undefined ? undefined : this.#begin(namespace);
    await end(before);
  }

  /** False while it is not known what the namespace holds. */
  get isKnown(): boolean {
    return this.#source === undefined || [...this.#source.informers.values()].every((it) => it.hasSynced);
  }

  find<T extends KubeObject>(of: Resource<T>, name: string): T | undefined {
    const store = this.#source?.informers.get(of.plural)?.store;
    return store?.get(objectKey(this.#source?.namespace, name)) as T | undefined;
  }

  names(of: Resource): string[] {
    const store = this.#source?.informers.get(of.plural)?.store;
    return [...(store?.list() ?? [])].map((it) => it.metadata.name);
  }

  #begin(namespace: string): Source {
    const stop = new AbortController();
    const informers = new Map(
      this.#kinds.map((of) => {
        const informer = createInformer(this.#hub, of, { namespace }, this.#deps);
        informer.subscribe(({ key }) => this.#listener.onChange(of, splitKey(key).name));
        informer.start(stop.signal);
        return [of.plural, informer] as const;
      }),
    );
    void Promise.all([...informers.values()].map((it) => it.synced(stop.signal))).then(
      () => this.#listener.onSynced(),
      () => {},
    );
    return { namespace, informers, stop };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const source = this.#source;
    this.#source = undefined;
    await end(source);
  }
}

async function end(it: Source | undefined): Promise<void> {
  it?.stop.abort();
  for (const informer of it?.informers.values() ?? []) await informer[Symbol.asyncDispose]();
}
