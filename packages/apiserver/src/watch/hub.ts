import type { Clock } from "@fairlead/base/clock.ts";
import type { StoreEvent } from "#storage/event-log.ts";
import type { Store, TableEvent } from "#storage/store.ts";
import type { Table } from "#storage/table.ts";
import { Pace } from "./pace.ts";
import { Watcher, type WatchSink, type WatchSpec } from "./watcher.ts";

/** Hands committed events to watchers: to those of the object, of its namespace, and of the whole table. */
export class WatchHub {
  readonly #store: Store;
  readonly #scopes = new Map<string, Set<Watcher>>();
  readonly #all = new Set<Watcher>();
  /** Those with events to be sent: under load those of several commits, in one write for each. */
  #due = new Set<Watcher>();
  readonly #pace: Pace;

  constructor(store: Store, clock: Clock) {
    this.#store = store;
    this.#pace = new Pace(clock, () => this.#flush());
    store.onCommit((events) => this.#publish(events));
  }

  get size(): number {
    return this.#all.size;
  }

  open(spec: WatchSpec, sink: WatchSink): Watcher {
    const scope = scopeOf(spec.table, spec.namespace, spec.name);
    const watcher = new Watcher(spec, sink, () => {
      this.#all.delete(watcher);
      const members = this.#scopes.get(scope);
      members?.delete(watcher);
      if (members?.size === 0) this.#scopes.delete(scope);
    });
    this.#all.add(watcher);
    const members = this.#scopes.get(scope);
    if (members === undefined) this.#scopes.set(scope, new Set([watcher]));
    else members.add(watcher);
    watcher.start();
    return watcher;
  }

  /** Ends the watches of `table` as a server does that no longer has it. */
  endAll(table?: Table): void {
    for (const watcher of this.#all) if (table === undefined || watcher.spec.table === table) watcher.end();
  }

  /** Reports to a watcher how far it has come. */
  bookmark(watcher: Watcher): void {
    watcher.bookmark(this.#store.revision);
  }

  #publish(events: readonly TableEvent[]): void {
    for (const { table, event } of events) this.#offer(table, event);
    if (this.#due.size > 0) this.#pace.request();
  }

  #flush(): void {
    const due = this.#due;
    this.#due = new Set();
    for (const watcher of due) watcher.flush();
  }

  #offer(table: Table, event: StoreEvent): void {
    const slash = event.key.indexOf("/");
    const namespace = slash < 0 ? undefined : event.key.slice(0, slash);
    const name = event.key.slice(slash + 1);
    const scopes = [scopeOf(table, undefined, undefined), scopeOf(table, undefined, name)];
    if (namespace !== undefined)
      scopes.push(scopeOf(table, namespace, undefined), scopeOf(table, namespace, name));
    for (const scope of scopes) {
      for (const watcher of this.#scopes.get(scope) ?? []) {
        watcher.offer(event);
        this.#due.add(watcher);
      }
    }
  }
}

/** Neither namespaces nor names hold a line feed. */
function scopeOf(table: Table, namespace: string | undefined, name: string | undefined): string {
  return `${table.id}\n${namespace ?? ""}\n${name ?? ""}`;
}
