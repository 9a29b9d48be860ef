import { defined } from "@fairlead/base/defined.ts";
import type { ListMeta } from "@fairlead/kube/api/meta/types.ts";
import type { ResourceDefinition, TableColumn } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import { apiVersionOf, viewOf } from "#registry/write.ts";
import type { Entry } from "#storage/entry.ts";
import type { EventType, StoreEvent } from "#storage/event-log.ts";
import type { EventEncoder } from "#watch/watcher.ts";
import { bookmarkMetadata, errorLine, eventLine, type Form } from "./forms.ts";

/** The part of each object in its row. Source: `metav1.IncludeObjectPolicy`. */
export type IncludeObject = "None" | "Metadata" | "Object";

export interface TableOptions {
  readonly definition: ResourceDefinition;
  readonly includeObject: IncludeObject;
  readonly metaVersion: string;
  readonly now: () => number;
}

/** `meta.k8s.io/v1 Table`: what `kubectl get` prints. */
export class TableForm implements Form {
  readonly #options: TableOptions;
  readonly #apiVersion: string;
  readonly events: EventEncoder;

  constructor(options: TableOptions) {
    this.#options = options;
    this.#apiVersion = `meta.k8s.io/${options.metaVersion}`;
    this.events = new TableEvents(this);
  }

  item(entry: Entry): Buffer {
    const { resourceVersion = "" } = entry.object.metadata;
    return this.list([entry], { resourceVersion });
  }

  list(entries: readonly Entry[], metadata: ListMeta): Buffer {
    return this.table(entries, metadata, true);
  }

  table(entries: readonly Entry[], metadata: object, withColumns: boolean): Buffer {
    const { definition, now } = this.#options;
    const nowMs = now();
    const rows = entries.map((it) => {
      const view = viewOf(definition, it);
      return this.#row(view, view.metadata, nowMs);
    });
    return this.#bytes(metadata, withColumns, rows);
  }

  /** A row of an object that has nothing but the revision. */
  bookmark(revision: number, isInitialEnd: boolean): Buffer {
    const { definition, now } = this.#options;
    const metadata = bookmarkMetadata(revision, isInitialEnd);
    const { kind } = definition;
    const empty: ApiObject = {
      kind,
      apiVersion: apiVersionOf(definition),
      metadata: { name: "", ...metadata },
    };
    const { resourceVersion } = metadata;
    return this.#bytes({ resourceVersion }, false, [this.#row(empty, metadata, now())]);
  }

  #bytes(metadata: object, withColumns: boolean, rows: readonly object[]): Buffer {
    const { columns } = this.#options.definition;
    const columnDefinitions = withColumns ? columns.map(describeColumn) : null;
    const table = { kind: "Table", apiVersion: this.#apiVersion, metadata, columnDefinitions, rows };
    return Buffer.from(JSON.stringify(table), "utf8");
  }

  #row(object: ApiObject, metadata: object, nowMs: number): Record<string, unknown> {
    const { columns, rowConditions } = this.#options.definition;
    const conditions = rowConditions?.(object);
    const cells = columns.map((it) => it.cell(object, nowMs));
    const shown = this.#shown(object, metadata);
    return { cells, ...defined({ conditions }), object: shown };
  }

  /** The part of the object in its row. */
  #shown(object: ApiObject, metadata: object): object | null {
    switch (this.#options.includeObject) {
      case "None":
        return null;
      case "Object":
        return { ...object, metadata };
      default:
        return { kind: "PartialObjectMetadata", apiVersion: this.#apiVersion, metadata };
    }
  }
}

function describeColumn({ name, type, format = "", description = "", priority = 0 }: TableColumn): object {
  return { name, type, format, description, priority };
}

/** Each event is a Table of one row; only the first says what the columns are. */
class TableEvents implements EventEncoder {
  readonly #form: TableForm;
  #hasColumns = false;

  constructor(form: TableForm) {
    this.#form = form;
  }

  shared(event: StoreEvent): Buffer {
    return this.single(event.type, event.entry);
  }

  single(type: EventType, entry: Entry): Buffer {
    const withColumns = !this.#hasColumns;
    this.#hasColumns = true;
    const { resourceVersion } = entry.object.metadata;
    return eventLine(type, this.#form.table([entry], { resourceVersion }, withColumns));
  }

  bookmark(revision: number, isInitialEnd: boolean): Buffer {
    return eventLine("BOOKMARK", this.#form.bookmark(revision, isInitialEnd));
  }

  error(error: Error): Buffer {
    return errorLine(error);
  }
}
