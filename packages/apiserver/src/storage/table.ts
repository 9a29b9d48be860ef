import { byText } from "@fairlead/base/text.ts";
import type { Entry } from "./entry.ts";
import type { EventLog } from "./event-log.ts";

/** "namespace/name", or "name" for cluster-scoped kinds: sorts as etcd's keys do. */
export function storageKey(namespace: string | undefined, name: string): string {
  return namespace === undefined || namespace === "" ? name : `${namespace}/${name}`;
}

/** The character that follows "/": keys of a namespace come before it. */
const AFTER_SLASH = "0";

/** Of the keys of a namespace, or of all. */
function prefixOf(namespace = ""): string {
  return namespace === "" ? "" : `${namespace}/`;
}

/** The objects of a table, or of one namespace in it, at some revision. */
export interface TableState {
  /** Those with keys after `after`, in order. Costs as much as is read of it. */
  entries(after?: string): Iterable<Entry>;
  /** How many those are. Reads none of them. */
  count(after?: string): number;
}

/** All objects of one stored resource, sorted by key, and their recent events. */
export class Table {
  /** "plural.group", or "plural" in the core group. */
  readonly id: string;
  readonly log: EventLog;
  readonly #entries = new Map<string, Entry>();
  #keys: string[] = [];

  constructor(id: string, log: EventLog) {
    this.id = id;
    this.log = log;
  }

  get size(): number {
    return this.#entries.size;
  }

  get(key: string): Entry | undefined {
    return this.#entries.get(key);
  }

  set(key: string, entry: Entry): void {
    if (!this.#entries.has(key)) this.#keys.splice(this.#position(key), 0, key);
    this.#entries.set(key, entry);
  }

  delete(key: string): void {
    if (!this.#entries.delete(key)) return;
    this.#keys.splice(this.#position(key), 1);
  }

  /** Fills an empty table at once: one sort instead of an insertion per object. */
  load(entries: Iterable<Entry>): void {
    for (const entry of entries) this.#entries.set(entry.key, entry);
    this.#keys = [...this.#entries.keys()].toSorted(byText);
  }

  /** Entries of one namespace, or of all, in order. Holds while the table does not change. */
  *entries(namespace?: string): Iterable<Entry> {
    const [first, end] = this.#range(namespace, "");
    for (let at = first; at < end; at += 1) {
      const entry = this.#entries.get(this.#keys[at] ?? "");
      if (entry !== undefined) yield entry;
    }
  }

  /**
   * The state at `revision`: the present one with the later events reverted. Costs as much as there are later events. Requires
   * `revision >= log.completeFrom`; holds while the table does not change.
   */
  stateAt(revision: number, namespace?: string): TableState {
    const undone = new Map<string, Entry | undefined>();
    for (const event of this.log.newestDownTo(revision)) undone.set(event.key, event.before);
    const prefix = prefixOf(namespace);
    const restored = [...undone.values()]
      .filter((it) => it !== undefined)
      .filter((it) => it.key.startsWith(prefix))
      .toSorted((a, b) => byText(a.key, b.key));
    return {
      entries: (after = "") => this.#merged(undone, restored, { namespace, after }),
      count: (after = "") => {
        const [first, end] = this.#range(namespace, after);
        const isCounted = (key: string): boolean => {
          const at = this.#entries.has(key) ? this.#position(key) : -1;
          return at >= first && at < end;
        };
        const changed = [...undone.keys()].filter(isCounted).length;
        return end - first - changed + restored.filter((it) => it.key > after).length;
      },
    };
  }

  /** The present entries without those that changed, and these as they were, in order. */
  *#merged(
    undone: ReadonlyMap<string, unknown>,
    restored: readonly Entry[],
    { namespace, after }: { readonly namespace: string | undefined; readonly after: string },
  ): Iterable<Entry> {
    let next = restored.findIndex((it) => it.key > after);
    if (next < 0) next = restored.length;
    const [first, end] = this.#range(namespace, after);
    for (let at = first; at < end; at += 1) {
      const key = this.#keys[at] ?? "";
      const entry = undone.has(key) ? undefined : this.#entries.get(key);
      if (entry === undefined) continue;
      for (let it = restored[next]; it !== undefined && it.key < key; it = restored[next]) {
        yield it;
        next += 1;
      }
      yield entry;
    }
    yield* restored.slice(next);
  }

  /** One entry as it was at `revision`. Asks for `revision >= log.completeFrom`. */
  entryAt(revision: number, key: string): Entry | undefined {
    let found = this.get(key);
    for (const event of this.log.newestDownTo(revision)) if (event.key === key) found = event.before;
    return found;
  }

  /** From where to before where the keys of one namespace, or of all, are that come after `after`. */
  #range(namespace: string | undefined, after: string): readonly [number, number] {
    const next = this.#position(after);
    const first = after !== "" && this.#keys[next] === after ? next + 1 : next;
    const prefix = prefixOf(namespace);
    if (prefix === "") return [first, this.#keys.length];
    const end = this.#position(`${namespace}${AFTER_SLASH}`);
    return [Math.min(end, Math.max(first, this.#position(prefix))), end];
  }

  /** Where `key` is, or would be put. */
  #position(key: string): number {
    let low = 0;
    let high = this.#keys.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#keys[middle] ?? "") < key) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
