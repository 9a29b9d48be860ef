import { defined } from "@fairlead/base/defined.ts";
import { type Pod, PODS } from "#api/core/v1/types.ts";
import { keyOf, type ObjectKey, objectKey } from "#api/meta/key.ts";
import { apiVersionOf, type Resource } from "#api/meta/resource.ts";
import type { KubeObject, ObjectList } from "#api/meta/types.ts";
import { abortError, type Clock, systemClock } from "@fairlead/base/clock.ts";
import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import { cloneJson, isObject } from "@fairlead/base/json.ts";
import { byText } from "@fairlead/base/text.ts";
import { applyTo } from "#objects/apply.fake.ts";
import { timestamp } from "#objects/conditions.ts";
import { parseSelector } from "#objects/selector.ts";
import { jsonPatched, mergePatched } from "./patch.fake.ts";
import type { ServerTime } from "./server-clock.ts";
import { FakeApiState, refuse } from "./server.fake.ts";
import type {
  Applied,
  ApplyOptions,
  CallOptions,
  DeleteOptions,
  KubeClient,
  ListOptions,
  WatchEvent,
  WatchOptions,
  WriteOptions,
} from "#types.ts";
import { bookmark, event, goneEvent, INITIAL_EVENTS_END, unreachable, WatchStream } from "./watch.fake.ts";

/** A request that reached the fake server and could change something. */
export interface RecordedWrite {
  readonly verb: "create" | "update" | "patch" | "apply" | "delete";
  readonly resource: string;
  readonly key: ObjectKey;
  readonly subresource?: string;
}

/** A request that only reads a collection. `from` is the version that a watch resumes from; undefined: from the start. */
export interface RecordedRead {
  readonly verb: "list" | "watch";
  readonly resource: string;
  readonly from?: string;
}

/**
 * An API server in memory behind the client's interface, for tests of controllers. It keeps versions, history,
 * conflicts, finalizers, owners and no-op writes as the real one does (test/kube/contract.ts holds both to that), and
 * breaks on demand.
 */
export class FakeKubeClient implements KubeClient {
  readonly state: FakeApiState;
  /** Every write since the start, or since the test emptied it: a settled controller adds none. */
  readonly writes: RecordedWrite[] = [];
  /** Every list and watch that was answered. */
  readonly reads: RecordedRead[] = [];
  /** Whether WatchList is understood. */
  canStreamLists = true;
  /** The error of every list and watch, while it is set. */
  refuseReads: Error | undefined;
  /** Objects per page, when a list asks for a limit. Default: as many as asked for. */
  pageSize: number | undefined;
  /** Resources whose watches stay open and bring nothing any more: connections whose other end is gone. */
  readonly deafTo = new Set<string>();
  #interruptions: (() => void)[] = [];
  #failures: { error: Error; matches: (write: RecordedWrite) => boolean }[] = [];
  #isDown = false;
  #isAway = false;
  readonly #onReachable = new Set<() => void>();
  readonly #clock: Clock;

  constructor(clock: Clock = systemClock) {
    this.#clock = clock;
    this.state = new FakeApiState(() => clock.now());
  }

  /** Breaks every watch that is open, as a restarted proxy does. */
  dropWatches(): void {
    this.state.fail();
  }
  /** Answers nothing until `restore`. */
  stop(): void {
    this.#isDown = true;
    this.dropWatches();
  }
  restore(): void {
    this.#isDown = false;
  }
  get serverTime(): ServerTime {
    return { nowMs: this.#clock.now(), errorMs: 0 };
  }
  onReachable(listener: () => void): Disposable {
    const own = (): void => listener();
    this.#onReachable.add(own);
    return { [Symbol.dispose]: () => void this.#onReachable.delete(own) };
  }
  /** The next write for which `matches` holds fails with `error`. */
  failNext(error: Error, matches: (write: RecordedWrite) => boolean = () => true): void {
    this.#failures.push({ error, matches });
  }
  /** Runs `act` just before a later list or page of one is answered: 0 is the next one. */
  interruptList(at: number, act: () => void): void {
    this.#interruptions[at] = act;
  }
  /** Objects as a test's arrangement, not counted as writes. Status included. */
  seed<T extends KubeObject>(of: Resource<T>, ...objects: readonly T[]): void {
    for (const object of objects) {
      const created = this.state.create(of, cloneJson<KubeObject>(object));
      if ("status" in object)
        this.state.update(of, Object.assign(cloneJson(created), { status: object.status }), "status");
    }
  }
  /** All objects of a kind, for assertions. */
  objects<T extends KubeObject>(of: Resource<T>): T[] {
    return [...this.state.all(of).values()].map((object) => cloneJson(object) as T);
  }

  get<T extends KubeObject>(of: Resource<T>, key: ObjectKey, options: CallOptions = {}): Promise<T> {
    return this.#respond(options, () => this.state.get(of, key));
  }

  async find<T extends KubeObject>(
    of: Resource<T>,
    key: ObjectKey,
    options: CallOptions = {},
  ): Promise<T | undefined> {
    try {
      return await this.get(of, key, options);
    } catch (error) {
      if (hasCode(error, "API_NOT_FOUND")) return undefined;
      throw error;
    }
  }

  list<T extends KubeObject>(of: Resource<T>, options: ListOptions = {}): Promise<ObjectList<T>> {
    return this.#respond(options, () => {
      if (this.refuseReads !== undefined) throw this.refuseReads;
      this.reads.push({ verb: "list", resource: of.plural });
      this.#interruptions.shift()?.();
      const [from, version] = this.#position(options.continue);
      const sorted = [...this.state.all(of).values()].filter(selects(options)).toSorted(byKey);
      const limit = Math.min(options.limit ?? Infinity, this.pageSize ?? Infinity);
      const items = sorted.slice(from, from + limit) as T[];
      const isLast = from + limit >= sorted.length;
      return {
        apiVersion: apiVersionOf(of),
        kind: `${of.kind}List`,
        metadata: {
          resourceVersion: String(version),
          ...(isLast ? {} : { continue: `${version}:${from + limit}` }),
        },
        items,
      };
    });
  }

  async *watch<T extends KubeObject>(
    of: Resource<T>,
    options: WatchOptions,
    signal: AbortSignal,
  ): AsyncGenerator<WatchEvent<T>> {
    await this.#respond({ signal }, () => null);
    if (this.refuseReads !== undefined) throw this.refuseReads;
    const { resourceVersion: since } = options;
    this.reads.push({ verb: "watch", resource: of.plural, ...defined({ from: since }) });
    const matches = selects(options);
    // Listens before it looks at the state, so that nothing falls between the two.
    using stream = new WatchStream(this.state, of, matches);
    if (options.sendInitialEvents === true) {
      if (!this.canStreamLists) throw refuse("Invalid", 422, "sendInitialEvents is forbidden for watch");
      const version = this.state.version;
      for (const object of [...this.state.all(of).values()].filter(matches)) yield event("ADDED", object);
      if (options.allowWatchBookmarks === true) yield bookmark(of, version, { [INITIAL_EVENTS_END]: "true" });
    } else {
      const from = Number(options.resourceVersion ?? this.state.version);
      if (from < this.state.compactedTo) {
        yield goneEvent(from);
        return;
      }
      stream.replay(this.state.history.filter((entry) => entry.version > from));
    }
    for await (const item of stream.events(signal))
      if (!this.deafTo.has(of.plural)) yield item as WatchEvent<T>;
  }

  create<T extends KubeObject>(of: Resource<T>, object: T, options: WriteOptions = {}): Promise<T> {
    return this.#write(of, { verb: "create", key: keyOf(object), options }, () => {
      const { status: _status, ...rest } = cloneJson(object) as T & { status?: unknown };
      if (options.dryRun === true) return rest;
      return this.state.create(of, rest as KubeObject);
    });
  }

  update<T extends KubeObject>(of: Resource<T>, object: T, options: WriteOptions = {}): Promise<T> {
    if (options.dryRun === true) return this.#respond(options, () => object);
    return this.#write(of, { verb: "update", key: keyOf(object), options }, () =>
      this.state.update(of, cloneJson<KubeObject>(object), options.subresource),
    );
  }

  mergePatch<T extends KubeObject>(
    of: Resource<T>,
    key: ObjectKey,
    patch: object,
    options: WriteOptions = {},
  ): Promise<T> {
    return this.#write(of, { verb: "patch", key, options }, () => {
      const merged = mergePatched(this.state.get(of, key), patch) as KubeObject;
      return this.state.update(of, merged, options.subresource);
    });
  }

  jsonPatch<T extends KubeObject>(
    of: Resource<T>,
    key: ObjectKey,
    patch: readonly object[],
    options: WriteOptions = {},
  ): Promise<T> {
    return this.#write(of, { verb: "patch", key, options }, () =>
      this.state.update(of, jsonPatched(cloneJson(this.state.get(of, key)), patch), options.subresource),
    );
  }

  apply<T extends KubeObject>(of: Resource<T>, object: Applied<T>, options: ApplyOptions): Promise<T> {
    const key = objectKey(object.metadata.namespace, object.metadata.name);
    return this.#write(of, { verb: "apply", key, options }, () => {
      const applier = {
        manager: options.fieldManager,
        subresource: options.subresource,
        apiVersion: apiVersionOf(of),
        time: timestamp(this.#clock.now()),
      };
      const applied = cloneJson<object>(object);
      const live = this.state.all(of).get(key);
      if (live !== undefined)
        return this.state.update(of, applyTo(live, applied, applier), options.subresource);
      if (options.subresource !== undefined) throw refuse("NotFound", 404, `${of.plural} "${key}" not found`);
      const { status: _status, ...rest } = applied as { status?: unknown };
      const { name, namespace } = object.metadata;
      const empty: KubeObject = { metadata: { name, ...defined({ namespace }) } };
      return this.state.create(of, applyTo(empty, rest, applier));
    });
  }

  async delete<T extends KubeObject>(
    of: Resource<T>,
    key: ObjectKey,
    options: DeleteOptions = {},
  ): Promise<void> {
    await this.#write(of, { verb: "delete", key, options }, () => {
      const found = this.state.all(of).get(key);
      if (found === undefined) return null;
      const { uid, resourceVersion } = options;
      const isOther = uid !== undefined && uid !== found.metadata.uid;
      const isNewer = resourceVersion !== undefined && resourceVersion !== found.metadata.resourceVersion;
      if (isOther || isNewer)
        throw refuse("Conflict", 409, `${of.plural} "${key}": the precondition does not hold`);
      this.state.delete(of, key);
      return null;
    });
  }

  /** Knows one path: that on which a scheduler binds a pod to its node. */
  async request(method: string, path: string, body?: unknown, options: CallOptions = {}): Promise<unknown> {
    const [, namespace, name] = /^\/api\/v1\/namespaces\/([^/]+)\/pods\/([^/]+)\/binding$/.exec(path) ?? [];
    if (method !== "POST" || namespace === undefined || name === undefined)
      throw new FleetError("API_NOT_FOUND", `${method} ${path}: the fake serves objects only`);
    const { target } = body as { readonly target: { readonly name: string } };
    const key = objectKey(namespace, name);
    return this.#write(PODS, { verb: "create", key, options }, () => {
      const pod = cloneJson(this.state.get(PODS, key) as Pod);
      const { nodeName = "", ...spec } = pod.spec ?? { containers: [] };
      if (nodeName !== "")
        throw refuse("Conflict", 409, `pod ${name} is already assigned to node "${nodeName}"`);
      return this.state.update(
        PODS,
        Object.assign(pod, { spec: { ...spec, nodeName: target.name } }),
        undefined,
      );
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.stop();
    await Promise.resolve();
  }

  /** Responses come in a later turn, and are copies: what a caller does to them stays with the caller. */
  async #respond<R>(options: CallOptions, response: () => unknown): Promise<R> {
    await Promise.resolve();
    if (options.signal?.aborted === true) throw abortError(options.signal);
    if (this.#isDown) {
      this.#isAway = true;
      throw unreachable();
    }
    this.#noteResponse();
    return cloneJson(response()) as R;
  }

  #noteResponse(): void {
    if (!this.#isAway) return;
    this.#isAway = false;
    for (const listener of this.#onReachable) listener();
  }

  #write<R>(
    of: Resource,
    request: { verb: RecordedWrite["verb"]; key: ObjectKey; options: WriteOptions | DeleteOptions },
    act: () => unknown,
  ): Promise<R> {
    return this.#respond(request.options, () => {
      const subresource = "subresource" in request.options ? request.options.subresource : undefined;
      const write = {
        verb: request.verb,
        resource: of.plural,
        key: request.key,
        ...defined({ subresource }),
      };
      this.writes.push(write);
      const at = this.#failures.findIndex((failure) => failure.matches(write));
      if (at >= 0) throw this.#failures.splice(at, 1)[0]?.error ?? unreachable();
      return act();
    });
  }

  #position(token: string | undefined): [from: number, version: number] {
    if (token === undefined || token === "") return [0, this.state.version];
    const [version = 0, from = 0] = token.split(":").map(Number);
    // Pages are cut from the present state: as soon as that changed, their version is gone.
    if (version !== this.state.version) throw refuse("Expired", 410, "the continue token has expired");
    return [from, version];
  }
}

function byKey(a: KubeObject, b: KubeObject): number {
  return byText(keyOf(a), keyOf(b));
}

function selects(
  options: Pick<ListOptions, "namespace" | "labelSelector" | "fieldSelector">,
): (object: KubeObject) => boolean {
  const matchesLabels = parseSelector(options.labelSelector ?? "");
  const fields = (options.fieldSelector ?? "").split(",").filter((term) => term !== "");
  return (object) =>
    (options.namespace === undefined || object.metadata.namespace === options.namespace) &&
    matchesLabels(object.metadata.labels) &&
    fields.every((term) => matchesField(object, term));
}

function matchesField(object: KubeObject, term: string): boolean {
  const [, path = "", operator, value] = /^([^=!]+)(!=|==?)(.*)$/.exec(term) ?? [];
  let at: unknown = object;
  for (const field of path.split(".")) at = isObject(at) ? at[field] : undefined;
  const text = typeof at === "string" || typeof at === "number" || typeof at === "boolean" ? String(at) : "";
  return (text === value) === (operator !== "!=");
}
