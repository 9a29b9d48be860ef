import { defined } from "@fairlead/base/defined.ts";
import { isObject } from "@fairlead/base/json.ts";
import { type ObjectKey, objectKey } from "#api/meta/key.ts";
import type { Resource } from "#api/meta/resource.ts";
import type { KubeObject, ObjectMeta } from "#api/meta/types.ts";
import type { ChangeColumn, KubeClient, WatchEvent, WatchOptions } from "#types.ts";

/** `meta.k8s.io/v1`; in the events of a watch it has one row, and columns in the first event only. */
interface Table extends KubeObject {
  readonly columnDefinitions?: readonly { readonly name: string }[];
  readonly rows?: readonly { readonly cells: readonly unknown[] }[];
}

export interface RowWatch<T extends KubeObject> {
  readonly options: WatchOptions & { readonly namespace: string };
  readonly changes: ChangeColumn<T>;
  /** What is known of an object from before this watch. */
  readonly known: (key: ObjectKey) => T | undefined;
}

/**
 * The events of a watch, of which the server sends only what changed: rows of Tables without objects. An object of which that does not say
 * enough is read. A server whose kind does not have the column, or that sends no Tables, sends whole objects.
 */
export async function* watchRows<T extends KubeObject>(
  client: KubeClient,
  of: Resource<T>,
  watch: RowWatch<T>,
  signal: AbortSignal,
): AsyncGenerator<WatchEvent<T>> {
  const rows = new Rows(client, of, watch, signal);
  const stream = client.watch<KubeObject>(of, { ...watch.options, returns: "rows" }, signal);
  for await (const event of stream) {
    if (event.type === "ERROR" || !isTable(event.object)) yield event as WatchEvent<T>;
    else if (rows.hasColumn(event.object)) yield await rows.read(event.type, event.object);
    else break;
  }
  if (rows.isWithoutColumn)
    yield* client.watch(of, { ...watch.options, ...defined({ resourceVersion: rows.version }) }, signal);
}

class Rows<T extends KubeObject> {
  readonly #client: KubeClient;
  readonly #of: Resource<T>;
  readonly #watch: RowWatch<T>;
  readonly #signal: AbortSignal;
  /** Objects as of this watch; undefined: deleted. The readers may get the events later. */
  readonly #seen = new Map<ObjectKey, T | undefined>();
  #columns: readonly string[] = [];
  /** Up to which all events were read. */
  version: string | undefined;

  constructor(client: KubeClient, of: Resource<T>, watch: RowWatch<T>, signal: AbortSignal) {
    this.#client = client;
    this.#of = of;
    this.#watch = watch;
    this.#signal = signal;
    this.version = watch.options.resourceVersion;
  }

  /** Of a server that knows the kind as it was in an older version. */
  get isWithoutColumn(): boolean {
    return this.#columns.length > 0 && !this.#columns.includes(this.#watch.changes.column);
  }

  hasColumn({ columnDefinitions }: Table): boolean {
    this.#columns = columnDefinitions?.map((it) => it.name) ?? this.#columns;
    return !this.isWithoutColumn;
  }

  async read(type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK", table: Table): Promise<WatchEvent<T>> {
    this.version = table.metadata.resourceVersion ?? this.version;
    const name = this.#cell(table, "Name");
    if (type === "BOOKMARK" || name === undefined) return { type: "BOOKMARK", object: this.#shown({}, {}) };
    const { namespace } = this.#watch.options;
    const key = objectKey(namespace, name);
    const before = this.#seen.has(key) ? this.#seen.get(key) : this.#watch.known(key);
    const metadata = { ...before?.metadata, namespace, name };
    const object = type === "DELETED" ? undefined : await this.#after(before, metadata, table);
    this.#seen.set(key, object);
    // What cannot be read is gone by now; a later event says so, too.
    return object === undefined
      ? { type: "DELETED", object: this.#shown({ ...before }, metadata) }
      : { type, object };
  }

  async #after(before: T | undefined, metadata: ObjectMeta, table: Table): Promise<T | undefined> {
    const { changes, options } = this.#watch;
    const change = this.#cell(table, changes.column);
    const changed = change === undefined ? undefined : changes.read(before, change);
    if (changed !== undefined) return this.#shown({ ...before, ...changed }, metadata);
    const { namespace, labelSelector } = options;
    const { items } = await this.#client.list(this.#of, {
      namespace,
      fieldSelector: `metadata.name=${metadata.name}`,
      ...defined({ labelSelector }),
      signal: this.#signal,
    });
    const whole = items.find((it) => it.metadata.name === metadata.name);
    return whole === undefined ? undefined : this.#shown(whole, whole.metadata);
  }

  #cell({ rows = [] }: Table, column: string): string | undefined {
    const cell = rows[0]?.cells[this.#columns.indexOf(column)];
    return typeof cell === "string" ? cell : undefined;
  }

  /** As of the version of the event, from which the watch may be resumed. */
  #shown(object: object, metadata: Partial<ObjectMeta>): T {
    return { ...object, metadata: { ...metadata, resourceVersion: this.version } } as unknown as T;
  }
}

function isTable(object: KubeObject): object is Table {
  return object.kind === "Table" && isObject(object.metadata);
}
