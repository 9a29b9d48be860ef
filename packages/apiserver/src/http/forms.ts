import type { ListMeta, Status } from "@fairlead/kube/api/meta/types.ts";
import type { ResourceDefinition } from "#registry/types.ts";
import { apiVersionOf, viewOf } from "#registry/write.ts";
import { inKeyOrder } from "#schema/key-order.ts";
import { internalError, StatusError } from "#status.ts";
import type { Entry } from "#storage/entry.ts";
import type { EventType, StoreEvent } from "#storage/event-log.ts";
import type { EventEncoder } from "#watch/watcher.ts";

/** How the objects of one resource leave the server: as they are, as Tables, or as metadata alone. */
export interface Form {
  item(entry: Entry): Buffer;
  /** @param isNullIfEmpty - Whether a list without items has null in their place, which typed Go clients read of protobuf. */
  list(entries: readonly Entry[], metadata: ListMeta, isNullIfEmpty?: boolean): Buffer;
  readonly events: EventEncoder;
}

/** An event line around the bytes of an object. */
export function eventLine(type: EventType | "BOOKMARK" | "ERROR", object: Buffer | string): Buffer {
  const bytes = typeof object === "string" ? Buffer.from(object, "utf8") : object;
  return Buffer.concat([Buffer.from(`{"type":"${type}","object":`, "utf8"), bytes, LINE_END]);
}

const LINE_END = Buffer.from("}\n", "utf8");
const INITIAL_END = "k8s.io/initial-events-end";

export function errorLine(error: Error): Buffer {
  const { status } = error instanceof StatusError ? error : internalError(error.message);
  return eventLine("ERROR", JSON.stringify(status satisfies Status));
}

export function bookmarkMetadata(revision: number, isInitialEnd: boolean): Record<string, unknown> {
  const annotations = isInitialEnd ? { annotations: { [INITIAL_END]: "true" } } : {};
  return { resourceVersion: String(revision), ...annotations };
}

/** Event lines from the bytes of items. */
class ItemEvents implements EventEncoder {
  readonly #item: (entry: Entry) => Buffer;
  readonly #kind: string;
  readonly #apiVersion: string;
  /** Watchers of one encoder are served one event after the other, so the last one is all that is worth keeping. */
  #last: { readonly event: StoreEvent; readonly bytes: Buffer } | undefined;

  constructor(item: (entry: Entry) => Buffer, kind: string, apiVersion: string) {
    this.#item = item;
    this.#kind = kind;
    this.#apiVersion = apiVersion;
  }

  shared(event: StoreEvent): Buffer {
    if (this.#last?.event === event) return this.#last.bytes;
    const bytes = this.single(event.type, event.entry);
    this.#last = { event, bytes };
    return bytes;
  }

  single(type: EventType, entry: Entry): Buffer {
    return eventLine(type, this.#item(entry));
  }

  bookmark(revision: number, isInitialEnd: boolean): Buffer {
    const metadata = bookmarkMetadata(revision, isInitialEnd);
    return eventLine(
      "BOOKMARK",
      JSON.stringify({ kind: this.#kind, apiVersion: this.#apiVersion, metadata }),
    );
  }

  error(error: Error): Buffer {
    return errorLine(error);
  }
}

const COMMA = Buffer.from(",", "utf8");
const OPEN = Buffer.from("{", "utf8");

/** Joins items to a list without parsing them, between the fields before and after them. */
function listBytes(
  head: Record<string, unknown>,
  items: readonly Buffer[],
  tail: Record<string, unknown> = {},
): Buffer {
  const start = JSON.stringify(head);
  const end = JSON.stringify(tail).slice(1);
  const parts: Buffer[] = [Buffer.from(`${start.slice(0, -1)},"items":[`, "utf8")];
  for (const [at, item] of items.entries()) {
    if (at > 0) parts.push(COMMA);
    parts.push(item);
  }
  parts.push(Buffer.from(end === "}" ? "]}" : `],${end}`, "utf8"));
  return Buffer.concat(parts);
}

/** Objects as they are, in the version of `definition`. */
export class PlainForm implements Form {
  readonly #definition: ResourceDefinition;
  readonly #apiVersion: string;
  /** The first fields of each item; typed lists of built-in kinds omit them. */
  readonly #prefix: Buffer;
  readonly events: EventEncoder;

  constructor(definition: ResourceDefinition) {
    this.#definition = definition;
    this.#apiVersion = apiVersionOf(definition);
    const { kind } = definition;
    this.#prefix = Buffer.from(
      `{"kind":${JSON.stringify(kind)},"apiVersion":${JSON.stringify(this.#apiVersion)},`,
      "utf8",
    );
    this.events = new ItemEvents((entry) => this.item(entry), kind, this.#apiVersion);
  }

  item(entry: Entry): Buffer {
    if (entry.isServedAsIsIn(this)) return entry.json;
    const view = viewOf(this.#definition, entry);
    if (view === entry.object) {
      entry.serveAsIsIn(this);
      return entry.json;
    }
    return entry.rendition(this, () => Buffer.from(JSON.stringify(view), "utf8"));
  }

  list(entries: readonly Entry[], metadata: ListMeta, isNullIfEmpty = false): Buffer {
    const { listKind: kind, isCustom } = this.#definition;
    const items = entries.map((it) => this.item(it));
    // Lists of custom resources always have `continue`, even if empty.
    const reported = isCustom ? { continue: "", ...metadata } : metadata;
    const head = { kind, apiVersion: this.#apiVersion, metadata: reported };
    if (isNullIfEmpty && items.length === 0)
      return Buffer.from(JSON.stringify({ ...head, items: null }), "utf8");
    // And they are sorted, as these are.
    if (isCustom)
      return listBytes({ apiVersion: head.apiVersion }, items, { kind, metadata: inKeyOrder(reported) });
    const bare = items.map((it) => this.#bare(it));
    return listBytes(head, bare);
  }

  #bare(item: Buffer): Buffer {
    const { length } = this.#prefix;
    if (item.length <= length || !item.subarray(0, length).equals(this.#prefix)) return item;
    return Buffer.concat([OPEN, item.subarray(length)]);
  }
}

/** `meta.k8s.io/v1 PartialObjectMetadata`: for caches that need no more than metadata. */
export class MetadataForm implements Form {
  readonly #apiVersion: string;
  readonly events: EventEncoder;

  constructor(metaVersion: string) {
    this.#apiVersion = `meta.k8s.io/${metaVersion}`;
    this.events = new ItemEvents((entry) => this.item(entry), "PartialObjectMetadata", this.#apiVersion);
  }

  item({ object }: Entry): Buffer {
    const { metadata } = object;
    return Buffer.from(
      JSON.stringify({ kind: "PartialObjectMetadata", apiVersion: this.#apiVersion, metadata }),
      "utf8",
    );
  }

  list(entries: readonly Entry[], metadata: ListMeta): Buffer {
    const head = { kind: "PartialObjectMetadataList", apiVersion: this.#apiVersion, metadata };
    return listBytes(
      head,
      entries.map((it) => this.item(it)),
    );
  }
}
