import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { Change, Informer, KubeClient } from "@fairlead/kube/types.ts";
import { contentOf, type Selectable } from "#placement/selection/content.ts";
import { kindKey } from "#placement/selection/kinds.ts";
import { isNamespace, type PlacementRules } from "#placement/selection/rules.ts";
import type { KindObjects } from "#placement/selection/select.ts";

/** A kind that is not read after this time is taken as broken, until it is. Unit: milliseconds. */
const OVERDUE_MS = 10_000;
const BY_NAMESPACE = "namespace";

export interface WatchesParts {
  readonly client: KubeClient;
  readonly rules: PlacementRules;
  readonly deps: RuntimeDeps;
}
export interface WatchListener {
  /** All kinds that the placement needs have been listed. */
  onReady(placement: ObjectKey): void;
  onChange(of: Resource, change: Change<Selectable>): void;
}

interface Watch {
  readonly of: Resource;
  readonly informer: Informer<Selectable>;
  readonly startedMs: number;
  readonly owners: Set<ObjectKey>;
}

/** Watches the kinds that some placement selects, each once, and no others. */
export class KindWatches implements AsyncDisposable {
  readonly #parts: WatchesParts;
  readonly #listener: WatchListener;
  readonly #watches = new Map<string, Watch>();
  readonly #wanted = new Map<ObjectKey, ReadonlySet<string>>();
  readonly #closing = new Set<Promise<void>>();
  readonly #stop = new AbortController();

  constructor(parts: WatchesParts, listener: WatchListener) {
    this.#parts = parts;
    this.#listener = listener;
  }

  /** All kinds that `owner` needs from now on. */
  want(owner: ObjectKey, kinds: readonly Resource[]): void {
    const next = new Set(kinds.map(kindKey));
    for (const of of kinds) this.#open(of).owners.add(owner);
    for (const key of this.#wanted.get(owner) ?? []) if (!next.has(key)) this.#leave(owner, key);
    if (next.size === 0) this.#wanted.delete(owner);
    else this.#wanted.set(owner, next);
  }

  /** Undefined until the first list of the kind is there. */
  objects(of: Resource): KindObjects | undefined {
    const { store, hasSynced } = this.#watches.get(kindKey(of))?.informer ?? {};
    if (store === undefined || hasSynced !== true) return undefined;
    return {
      get: (key) => store.get(key),
      list: () => store.list(),
      in: (namespace) => store.byIndex(BY_NAMESPACE, namespace),
    };
  }

  /** How much longer to wait for the first list of a kind before it counts as broken. Unit: milliseconds. */
  patienceMs(of: Pick<Resource, "group" | "version" | "kind">): number {
    const watch = this.#watches.get(kindKey(of));
    if (watch === undefined || this.#stop.signal.aborted) return 0;
    return Math.max(0, watch.startedMs + OVERDUE_MS - this.#parts.deps.clock.monotonic());
  }

  /** The kinds that are watched: for tests and for reports. */
  get kinds(): string[] {
    return [...this.#watches.keys()];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    for (const { informer } of this.#watches.values()) this.#close(informer);
    this.#watches.clear();
    await Promise.all(this.#closing);
  }

  #open(of: Resource): Watch {
    const key = kindKey(of);
    const present = this.#watches.get(key);
    if (present !== undefined) return present;
    const { client, rules, deps } = this.#parts;
    // A kind that cannot be read holds back what selects it, not the program.
    const { health: _, ...own } = deps;
    const informer = createInformer<Selectable>(
      client,
      of,
      {
        trim: (object) => selectable(object, rules),
        indexes: {
          [BY_NAMESPACE]: ({ metadata: { namespace } }) => (namespace === undefined ? [] : [namespace]),
        },
      },
      own,
    );
    informer.subscribe((change) => {
      if (informer.hasSynced && isContentChanged(change)) this.#listener.onChange(of, change);
    });
    const watch: Watch = { of, informer, startedMs: deps.clock.monotonic(), owners: new Set() };
    this.#watches.set(key, watch);
    informer.start(this.#stop.signal);
    informer.synced(this.#stop.signal).then(
      () => this.#onListed(watch),
      () => {},
    );
    return watch;
  }

  #onListed({ owners }: Watch): void {
    const isListed = (key: string): boolean => this.#watches.get(key)?.informer.hasSynced === true;
    for (const owner of owners)
      if ([...(this.#wanted.get(owner) ?? [])].every(isListed)) this.#listener.onReady(owner);
  }

  #leave(owner: ObjectKey, key: string): void {
    const watch = this.#watches.get(key);
    if (watch === undefined) return;
    watch.owners.delete(owner);
    if (watch.owners.size > 0) return;
    this.#watches.delete(key);
    this.#close(watch.informer);
  }

  #close(informer: Informer<Selectable>): void {
    const closed = Promise.resolve(informer[Symbol.asyncDispose]());
    this.#closing.add(closed);
    void closed.then(() => this.#closing.delete(closed));
  }
}

/** Of an object what a placement needs: its content as text, and what selectors match. */
function selectable(object: KubeObject, rules: PlacementRules): Selectable {
  const { name, namespace, uid, resourceVersion, labels } = object.metadata;
  const within = isNamespace({ group: "", kind: object.kind ?? "" }) ? name : namespace;
  const isPlaced = (within === undefined || rules.isNamespacePlaced(within)) && rules.isObjectPlaced(object);
  return {
    ...(object.apiVersion === undefined ? {} : { apiVersion: object.apiVersion }),
    ...(object.kind === undefined ? {} : { kind: object.kind }),
    metadata: {
      name,
      ...(namespace === undefined ? {} : { namespace }),
      ...(uid === undefined ? {} : { uid }),
      ...(resourceVersion === undefined ? {} : { resourceVersion }),
      ...(labels === undefined ? {} : { labels }),
    },
    ...(isPlaced ? { content: contentOf(object) } : {}),
  };
}

/** Not for a change of the status alone. Labels are part of the content. */
function isContentChanged({ before, after }: Change<Selectable>): boolean {
  return before?.content?.digest !== after?.content?.digest;
}
