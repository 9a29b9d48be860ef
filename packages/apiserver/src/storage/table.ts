import { byText } from "@fairlead/base/text.ts";
import type { Entry } from "./entry.ts";
import type { EventLog } from "./event-log.ts";

/** "namespace/name", or "name" for cluster-scoped kinds: sorts as etcd's keys do. */
export function storageKey(namespace: string | undefined, name: string): string {
  return namespace === undefined || namespace === "" ? name : `${namespace}/${name}`;
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
    const prefix = namespace === undefined || namespace === "" ? "" : `${namespace}/`;
    for (let at = prefix === "" ? 0 : this.#position(prefix); at < this.#keys.length; at += 1) {
      const key = this.#keys[at] ?? "";
      if (!key.startsWith(prefix)) return;
      const entry = this.#entries.get(key);
      if (entry !== undefined) yield entry;
    }
  }

  /**
   * The entries as they were at `revision`, in order: the present ones with the later events reverted. Requires
   * `revision >= log.completeFrom`.
   */
  entriesAt(revision: number, namespace?: string): Iterable<Entry> {
    const undone = new Map<string, Entry | undefined>();
    for (const event of this.log.newestDownTo(revision)) undone.set(event.key, event.before);
    if (undone.size === 0) return this.entries(namespace);
    const prefix = namespace === undefined || namespace === "" ? "" : `${namespace}/`;
    const kept = [...this.entries(namespace)].filter((it) => !undone.has(it.key));
    for (const [key, entry] of undone) if (entry !== undefined && key.startsWith(prefix)) kept.push(entry);
    return kept.toSorted((a, b) => byText(a.key, b.key));
  }

  /** One entry as it was at `revision`. Asks for `revision >= log.completeFrom`. */
  entryAt(revision: number, key: string): Entry | undefined {
    let found = this.get(key);
    for (const event of this.log.newestDownTo(revision)) if (event.key === key) found = event.before;
    return found;
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
