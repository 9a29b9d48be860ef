import type { ObjectKey } from "#api/meta/key.ts";
import type { Resource } from "#api/meta/resource.ts";
import type { KubeObject, ObjectList, Status } from "#api/meta/types.ts";
import type { ServerTime } from "#client/server-clock.ts";

/** The interface of the runtime for controllers. Implementations: client.ts, informer.ts, controller.ts. */

export interface CallOptions {
  readonly signal?: AbortSignal;
  /**
   * Without a response for this long, packets may be lost on the open connections: later calls use new ones. The call itself
   * continues. Unit: milliseconds.
   */
  readonly silentAfterMs?: number;
}

export interface WriteOptions extends CallOptions {
  readonly subresource?: "status" | "scale" | "finalize" | "approval";
  readonly fieldManager?: string;
  readonly dryRun?: boolean;
  /** "metadata": the response holds nothing else, which spares both ends the rest. Default: the whole object. */
  readonly returns?: "metadata";
}

export interface ApplyOptions extends WriteOptions {
  /** One name per controller: it owns the fields it applies. */
  readonly fieldManager: string;
  /** Take fields over from other managers. Default: true, as controllers do. */
  readonly force?: boolean;
}

export interface ListOptions extends CallOptions {
  /** All namespaces when absent. */
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  readonly limit?: number;
  readonly continue?: string;
  readonly resourceVersion?: string;
  /** "metadata": objects with nothing else, which spares both ends the rest. Default: whole objects. */
  readonly returns?: "metadata";
}

export interface WatchOptions extends Omit<ListOptions, "limit" | "continue" | "signal" | "returns"> {
  /** "metadata": objects with nothing else. "rows": Tables without objects, which have the printer columns of the kind. Default: whole objects. */
  readonly returns?: "metadata" | "rows";
  /** Stream the present state first, then a bookmark annotated `k8s.io/initial-events-end` (WatchList, KEP-3157). */
  readonly sendInitialEvents?: boolean;
  readonly allowWatchBookmarks?: boolean;
  /** Unit: seconds. */
  readonly timeoutSeconds?: number;
}

export interface DeleteOptions extends CallOptions {
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly propagationPolicy?: "Background" | "Foreground" | "Orphan";
  /** Unit: seconds. */
  readonly gracePeriodSeconds?: number;
}

export type WatchEvent<T extends KubeObject> =
  | { readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK"; readonly object: T }
  | { readonly type: "ERROR"; readonly object: Status };

/**
 * Calls to one API server. Objects travel as plain JSON: nothing that a newer server adds is lost on the way.
 *
 * Every call throws `FleetError` with an `API_*` code; `detail.status` holds the server's Status.
 */
export interface KubeClient extends AsyncDisposable {
  /** @throws `API_NOT_FOUND` */
  get<T extends KubeObject>(of: Resource<T>, key: ObjectKey, options?: CallOptions): Promise<T>;
  /** As `get`, but undefined where there is no such object. */
  find<T extends KubeObject>(of: Resource<T>, key: ObjectKey, options?: CallOptions): Promise<T | undefined>;
  list<T extends KubeObject>(of: Resource<T>, options?: ListOptions): Promise<ObjectList<T>>;
  /** Ends when the server ends the stream; throws when the connection breaks. `ERROR` events are passed on. */
  watch<T extends KubeObject>(
    of: Resource<T>,
    options: WatchOptions,
    signal: AbortSignal,
  ): AsyncIterable<WatchEvent<T>>;
  create<T extends KubeObject>(of: Resource<T>, object: T, options?: WriteOptions): Promise<T>;
  update<T extends KubeObject>(of: Resource<T>, object: T, options?: WriteOptions): Promise<T>;
  /** RFC 7386 merge patch. */
  mergePatch<T extends KubeObject>(
    of: Resource<T>,
    key: ObjectKey,
    patch: object,
    options?: WriteOptions,
  ): Promise<T>;
  /** RFC 6902 JSON patch. */
  jsonPatch<T extends KubeObject>(
    of: Resource<T>,
    key: ObjectKey,
    patch: readonly object[],
    options?: WriteOptions,
  ): Promise<T>;
  /** Server-side apply: creates or merges, and owns what it sets. */
  apply<T extends KubeObject>(of: Resource<T>, object: Applied<T>, options: ApplyOptions): Promise<T>;
  /** Succeeds if the object is already deleted. */
  delete<T extends KubeObject>(of: Resource<T>, key: ObjectKey, options?: DeleteOptions): Promise<void>;
  /**
   * Calls back each time the server answers again after it could not be reached: a caller that waits before a retry can
   * retry at once.
   */
  onReachable(listener: () => void): Disposable;
  /** The time of the server's clock, estimated from its responses; undefined before the first one. */
  readonly serverTime: ServerTime | undefined;
  /** Any other call: a path with its query, a JSON body, the parsed JSON of the response (or its text). */
  request(method: string, path: string, body?: unknown, options?: CallOptions): Promise<unknown>;
}

/** The part of an object that an applier sets; apiVersion and kind are filled in from the resource. */
export type Applied<T> = DeepPartial<T> & { metadata: { name: string; namespace?: string } };
export type DeepPartial<T> = T extends readonly (infer Item)[]
  ? readonly DeepPartial<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]?: DeepPartial<T[Key]> }
    : T;

/** The state that a watch has seen so far: synchronous, objects frozen or never mutated, never a request to the API server. */
export interface Store<T extends KubeObject> {
  get(key: ObjectKey): T | undefined;
  list(): Iterable<T>;
  /** How many objects it holds. */
  readonly size: number;
  /** Objects for which the index yielded `value`; throws if no such index was declared. */
  byIndex(index: string, value: string): Iterable<T>;
}

/** A change, with the object before and after it. `undefined` means absent. */
export interface Change<T extends KubeObject> {
  readonly key: ObjectKey;
  readonly before: T | undefined;
  readonly after: T | undefined;
}

export interface Informer<T extends KubeObject> extends AsyncDisposable {
  readonly of: Resource<T>;
  readonly store: Store<T>;
  /** Whether the first list is in the store. */
  readonly hasSynced: boolean;
  /**
   * Since when the present watch has been open, on the monotonic clock; undefined if no watch is open. A caller that
   * interprets silence must count it from here: while the API server was unreachable, no change could arrive.
   */
  readonly watchingSinceMs: number | undefined;
  /** The `resourceVersion` up to which the store has received all changes; undefined while unknown. */
  readonly version: string | undefined;
  /** Begins to list and watch; idempotent. Ends when `signal` aborts or on disposal. */
  start(signal: AbortSignal): void;
  /** Resolves once the first list is in the store; rejects when `signal` aborts. */
  synced(signal: AbortSignal): Promise<void>;
  /** Called synchronously for each change after the store has it. Handlers only enqueue. */
  subscribe(onChange: (change: Change<T>) => void): Disposable;
}

/** A printer column that says what of an object changed: events of a watch need not repeat the rest. */
export interface ChangeColumn<T extends KubeObject> {
  readonly column: string;
  /** What is different in the object after the change; undefined if what was known before does not suffice. */
  readonly read: (before: T | undefined, change: string) => Partial<Omit<T, "metadata">> | undefined;
}

export interface InformerOptions<T extends KubeObject> {
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  /** See `ListOptions`. */
  readonly returns?: "metadata";
  /** Has the server send what changed in place of whole objects. Only within one namespace. */
  readonly changes?: ChangeColumn<T>;
  /**
   * Keeps only what the readers need: the memory of the cache is what this returns. Name, namespace, uid and
   * resourceVersion must stay.
   */
  readonly trim?: (object: T) => T;
  /**
   * Keeps the `managedFields` entries of this field manager, which `applyIfChanged` reads, and of objects that it applied those of
   * others, too, which name the managers that changed them. The rest, such as those of `status`, are dropped before `trim`. Default: all are.
   */
  readonly fieldManager?: string;
  readonly indexes?: Readonly<Record<string, (object: T) => readonly string[]>>;
  /**
   * Asked when the kind stays unserved or forbidden: true counts that as "there are none", until it can be read.
   * Default: it is waited for.
   */
  readonly isOptional?: () => boolean;
  /** Called with the error when the kind stays unserved or forbidden, and with undefined when it can be read again. */
  readonly onUnreadable?: (why: unknown) => void;
  /**
   * How long a deleted object stays for the readers, unless it was terminating before: an object that is recreated in
   * that time has changed for them, but was never absent. Unit: milliseconds. Default: 0.
   */
  readonly lingerMs?: number;
  /** Called with an object whose deletion the server reports; not for one that a new list lacks, as that of a server that lost its data. */
  readonly onDeleted?: (object: T) => void;
}

/** The result of one reconcile. Empty: done until the next change. */
export interface ReconcileResult {
  /** Run again after this long although nothing changed. Unit: milliseconds. Only for deadlines, never for polling. */
  readonly requeueAfterMs?: number;
}

export interface ControllerOptions<K extends ObjectKey = ObjectKey> {
  /** Lower case, with dashes: the label of its metrics and the name of its field manager. */
  readonly name: string;
  /** One pass for one key. Safe to run at any time, any number of times. Throwing means: try again, with back-off. */
  readonly reconcile: (key: K, signal: AbortSignal) => Promise<ReconcileResult | void>;
  /** The sources of keys. All informers are synced before the first reconcile. */
  readonly sources: readonly Source<K>[];
  /** Keys worked on at the same time. Default: 4. */
  readonly concurrency?: number;
  /**
   * Longest wait until a failed reconcile is tried again. Absent: 1000 s, as in controller-runtime. Shorter where no watch reports that the
   * cause is gone, such as a program missing on a node. Unit: milliseconds.
   */
  readonly maxRetryMs?: number;
}

/** An informer and the keys that a change in it makes due. Made by `watching()`. */
export interface Source<K extends ObjectKey = ObjectKey> {
  readonly informer: Informer<KubeObject>;
  readonly subscribe: (enqueue: (key: K) => void) => Disposable;
}

/** Runs passes until stopped. */
export interface Controller<K extends ObjectKey = ObjectKey> extends AsyncDisposable {
  readonly name: string;
  start(signal: AbortSignal): Promise<void>;
  /** Makes a key due, for triggers that are not objects. */
  enqueue(key: K): void;
  /** Resolves when no key is due, waiting for a retry, or being worked on: for tests. */
  idle(signal: AbortSignal): Promise<void>;
}
