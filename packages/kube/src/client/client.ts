import { defined } from "@fairlead/base/defined.ts";
import { keyOf, type ObjectKey } from "#api/meta/key.ts";
import { apiVersionOf, type Resource } from "#api/meta/resource.ts";
import type { KubeObject, ObjectList } from "#api/meta/types.ts";
import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import { isObject } from "@fairlead/base/json.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import type { ClusterConfig } from "#config/config.ts";
import { type RuntimeDeps, systemDeps } from "@fairlead/base/deps.ts";
import { splitLines } from "./lines.ts";
import { collectionPath, listQuery, objectPath, watchQuery, withQuery, writeQuery } from "./path.ts";
import { livenessGuard } from "./liveness.ts";
import { parseResponse, readObject } from "./read.ts";
import type { ServerTime } from "./server-clock.ts";
import { type Call, Transport } from "./transport.ts";
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

/** Longest watch event taken. An object of etcd has at most 1.5 MiB by default. Unit: bytes. */
const MAX_EVENT_BYTES = 64 << 20;
/** A watch that was to end after `timeoutSeconds` and stays silent this much longer is dead. Unit: milliseconds. */
const WATCH_GRACE_MS = 30_000;
/**
 * API servers send a bookmark about once a minute. A watch that receives none for longer may have lost its connection
 * without either end knowing. It resumes on a new connection, which is harmless. Unit: milliseconds.
 */
const BOOKMARK_SILENCE_MS = 90_000;

export interface ConnectOptions extends Partial<RuntimeDeps> {
  /** Sent with every request; the part before a slash is the field manager of plain writes. Default: "fairlead". */
  readonly userAgent?: string;
}

/** A client of the API server of `config`. Opens no connection until the first call. */
export function connect(config: ClusterConfig, options: ConnectOptions = {}): KubeClient {
  const deps = { ...systemDeps(options.log ?? silentLogger), ...options };
  return new HttpKubeClient(new Transport(config, deps, options.userAgent ?? "fairlead"), deps);
}

class HttpKubeClient implements KubeClient {
  readonly #transport: Transport;
  readonly #deps: RuntimeDeps;
  constructor(transport: Transport, deps: RuntimeDeps) {
    this.#transport = transport;
    this.#deps = deps;
  }

  async get<T extends KubeObject>(of: Resource<T>, key: ObjectKey, options: CallOptions = {}): Promise<T> {
    return this.#object(of, {
      method: "GET",
      path: objectPath(of, key),
      isIdempotent: true,
      ...waiting(options),
    });
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

  async list<T extends KubeObject>(of: Resource<T>, options: ListOptions = {}): Promise<ObjectList<T>> {
    const path = withQuery(collectionPath(of, options.namespace), listQuery(options));
    const list = await this.#json<ObjectList<T>>({
      method: "GET",
      path,
      isIdempotent: true,
      ...(options.returns === "metadata" ? { accept: METADATA_LIST } : {}),
      ...waiting(options),
    });
    // Lists of built-in kinds leave out what the list itself says.
    list.items ??= [];
    for (const item of list.items) {
      item.apiVersion ??= apiVersionOf(of);
      item.kind ??= of.kind;
      readObject(of, item);
    }
    return list;
  }

  async *watch<T extends KubeObject>(
    of: Resource<T>,
    options: WatchOptions,
    signal: AbortSignal,
  ): AsyncGenerator<WatchEvent<T>> {
    const path = withQuery(collectionPath(of, options.namespace), watchQuery(options));
    const limitMs = silenceLimit(options);
    using guard = livenessGuard(this.#deps.clock, limitMs, signal);
    const accept = options.returns === undefined ? {} : { accept: FORMS[options.returns] };
    const call: Call = { method: "GET", path, isIdempotent: true, signal: guard.signal, ...accept };
    const chunks = await this.#transport.stream(call);
    try {
      for await (const line of splitLines(guard.watchOver(chunks), MAX_EVENT_BYTES))
        yield parseEvent(of, path, line);
    } catch (cause) {
      throw guard.isDead
        ? new FleetError("API_UNAVAILABLE", `watch ${path}: no events or bookmarks received for too long`, {
            retriable: true,
          })
        : this.#transport.failure(call, cause);
    }
  }

  async create<T extends KubeObject>(of: Resource<T>, object: T, options: WriteOptions = {}): Promise<T> {
    const collection = collectionPath(of, object.metadata.namespace);
    const subresource = options.subresource;
    const path = subresource === undefined ? collection : objectPath(of, keyOf(object), subresource);
    return this.#write(of, { method: "POST", path: withQuery(path, writeQuery(options)), object, options });
  }

  async update<T extends KubeObject>(of: Resource<T>, object: T, options: WriteOptions = {}): Promise<T> {
    const path = withQuery(objectPath(of, keyOf(object), options.subresource), writeQuery(options));
    return this.#write(of, { method: "PUT", path, object, options });
  }

  async mergePatch<T extends KubeObject>(
    of: Resource<T>,
    key: ObjectKey,
    patch: object,
    options: WriteOptions = {},
  ): Promise<T> {
    return this.#patch(of, { key, patch, options, contentType: "application/merge-patch+json" });
  }

  async jsonPatch<T extends KubeObject>(
    of: Resource<T>,
    key: ObjectKey,
    patch: readonly object[],
    options: WriteOptions = {},
  ): Promise<T> {
    return this.#patch(of, { key, patch, options, contentType: "application/json-patch+json" });
  }

  async apply<T extends KubeObject>(of: Resource<T>, object: Applied<T>, options: ApplyOptions): Promise<T> {
    const { name, namespace } = object.metadata;
    const key = keyOf({ metadata: { name, ...defined({ namespace }) } });
    const query = writeQuery({ ...options, force: options.force ?? true });
    return this.#object(of, {
      method: "PATCH",
      path: withQuery(objectPath(of, key, options.subresource), query),
      body: JSON.stringify({ ...object, apiVersion: apiVersionOf(of), kind: of.kind }),
      contentType: "application/apply-patch+yaml",
      isIdempotent: true,
      ...answered(options),
    });
  }

  async delete<T extends KubeObject>(
    of: Resource<T>,
    key: ObjectKey,
    options: DeleteOptions = {},
  ): Promise<void> {
    const { uid, resourceVersion, propagationPolicy, gracePeriodSeconds } = options;
    const preconditions =
      uid === undefined && resourceVersion === undefined ? undefined : { uid, resourceVersion };
    const body = {
      apiVersion: "v1",
      kind: "DeleteOptions",
      preconditions,
      propagationPolicy,
      gracePeriodSeconds,
    };
    try {
      await this.#transport.call({
        method: "DELETE",
        path: objectPath(of, key),
        body: JSON.stringify(body),
        isIdempotent: true,
        ...waiting(options),
      });
    } catch (error) {
      if (!hasCode(error, "API_NOT_FOUND")) throw error;
    }
  }

  onReachable(listener: () => void): Disposable {
    return this.#transport.onReachable(listener);
  }

  get serverTime(): ServerTime | undefined {
    return this.#transport.serverTime;
  }

  async request(method: string, path: string, body?: unknown, options: CallOptions = {}): Promise<unknown> {
    const verb = METHODS.find((it) => it === method.toUpperCase());
    if (verb === undefined) throw new FleetError("API_BAD_REQUEST", `unsupported method: ${method}`);
    const text = await this.#transport.call({
      method: verb,
      path,
      body: body === undefined ? undefined : JSON.stringify(body),
      accept: "application/json, */*",
      isIdempotent: verb === "GET" || verb === "PUT" || verb === "DELETE",
      ...waiting(options),
    });
    try {
      return JSON.parse(text);
    } catch {
      return text;
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#transport[Symbol.asyncDispose]();
  }

  #write<T extends KubeObject>(
    of: Resource<T>,
    write: { method: "POST" | "PUT"; path: string; object: T; options: WriteOptions },
  ): Promise<T> {
    return this.#object(of, {
      method: write.method,
      path: write.path,
      body: JSON.stringify({ ...write.object, apiVersion: apiVersionOf(of), kind: of.kind }),
      isIdempotent: write.method === "PUT",
      ...answered(write.options),
    });
  }

  #patch<T extends KubeObject>(
    of: Resource<T>,
    write: { key: ObjectKey; patch: object; options: WriteOptions; contentType: string },
  ): Promise<T> {
    const { key, patch, options, contentType } = write;
    return this.#object(of, {
      method: "PATCH",
      path: withQuery(objectPath(of, key, options.subresource), writeQuery(options)),
      body: JSON.stringify(patch),
      contentType,
      isIdempotent: false,
      ...answered(options),
    });
  }

  async #object<T extends KubeObject>(of: Resource<T>, call: Call): Promise<T> {
    return readObject(of, await this.#json<T>(call));
  }

  async #json<R>(call: Call): Promise<R> {
    const text = await this.#transport.call(call);
    try {
      return parseResponse(text) as R;
    } catch (cause) {
      throw new FleetError("API_UNEXPECTED", `${call.method} ${call.path}: the response is not JSON`, {
        cause,
      });
    }
  }
}

const waiting = ({ signal, silentAfterMs }: CallOptions): CallOptions => ({
  ...defined({ signal, silentAfterMs }),
});

const answered = ({ returns, ...options }: WriteOptions): Pick<Call, "accept" | keyof CallOptions> => ({
  ...(returns === "metadata" ? { accept: METADATA_ONLY } : {}),
  ...waiting(options),
});

/** Servers before Kubernetes 1.15 do not know the first. */
const METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const FORMS = {
  metadata: METADATA_ONLY,
  rows: "application/json;as=Table;g=meta.k8s.io;v=v1,application/json",
} as const;
const METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"] as const;

function silenceLimit({ timeoutSeconds, allowWatchBookmarks }: WatchOptions): number | undefined {
  if (timeoutSeconds === undefined) return undefined;
  const endMs = timeoutSeconds * 1000 + WATCH_GRACE_MS;
  return allowWatchBookmarks === true ? Math.min(BOOKMARK_SILENCE_MS, endMs) : endMs;
}

function parseEvent<T extends KubeObject>(of: Resource<T>, path: string, line: string): WatchEvent<T> {
  const event = parseResponse(line);
  if (!isObject(event) || typeof event["type"] !== "string" || !isObject(event["object"]))
    throw new FleetError("API_UNEXPECTED", `watch ${path}: malformed watch event`, { retriable: true });
  const read = event as unknown as WatchEvent<T>;
  if (read.type !== "ERROR") readObject(of, read.object);
  return read;
}
