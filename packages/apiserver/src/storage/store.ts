import type { Clock } from "@fairlead/base/clock.ts";
import { afterThisTurn } from "@fairlead/base/turn.ts";
import type { ApiObject } from "#values/object.ts";
import { internalError } from "#status.ts";
import { Entry } from "./entry.ts";
import { DEFAULT_RETENTION, EventLog, type Retention, type StoreEvent } from "./event-log.ts";
import type { Journal, JournalRecord } from "./journal.ts";
import { Table } from "./table.ts";
import { Warm } from "./warm.ts";

/** A change that a transaction made, or rolled back. `undefined` means absent. */
export interface StoreChange {
  readonly table: Table;
  readonly key: string;
  readonly before: Entry | undefined;
  readonly after: Entry | undefined;
}

/** Changes objects. Only valid inside the callback it is handed to. */
export interface Transaction {
  /** Unit: milliseconds since the epoch. */
  readonly nowMs: number;
  /** Stores `object` under the next revision, which it also writes into the object. The object is the store's from then on. */
  put(table: Table, key: string, object: ApiObject): Entry;
  /** Deletes an object. Returns its last state under the deletion's revision. */
  remove(table: Table, key: string): Entry | undefined;
}

export interface TableEvent {
  readonly table: Table;
  readonly event: StoreEvent;
}

export interface StoreOptions {
  readonly journal: Journal;
  readonly clock: Clock;
  readonly retention?: Retention;
  /** How much of what was written or read last is kept parsed, by its bytes as JSON. Default: 64 MiB. */
  readonly warmBytes?: number;
}

interface Job {
  readonly work: (tx: Transaction) => unknown;
  readonly resolve: (value: never) => void;
  readonly reject: (error: unknown) => void;
}

/** How long one turn may work on writes before it commits and lets others run. Unit: milliseconds. */
const TURN_MS = 8;
/** Unit: milliseconds. */
const PROBE_EVERY_MS = 1000;
const WARM_BYTES = 64 * 1024 * 1024;

/**
 * All objects, in memory. Writes that arrive in one turn of the event loop share one journal transaction: they run in
 * sequence, are committed, and only then published and acknowledged, all in the same turn. So a reader never sees a write
 * that could still be lost, and each write sees those before it.
 */
export class Store {
  readonly #options: StoreOptions;
  readonly #tables = new Map<string, Table>();
  readonly #warm: Warm;
  readonly #changeListeners: ((change: StoreChange) => void)[] = [];
  readonly #commitListeners: ((events: readonly TableEvent[]) => void)[] = [];
  #floor = 0;
  #revision = 0;
  #jobs: Job[] = [];
  #isScheduled = false;
  #isClosed = false;
  /** When a commit failed last, on the monotonic clock; none has succeeded since. */
  #failedMs: number | undefined;
  /** The uncommitted changes of the present turn. */
  #uncommitted: { readonly table: Table; readonly event: StoreEvent }[] = [];

  constructor(options: StoreOptions) {
    this.#options = options;
    this.#warm = new Warm(options.warmBytes ?? WARM_BYTES);
    const state = options.journal.load();
    this.#floor = state.floor;
    // Clients take revision 0 for "any": the first list of an empty server must not carry it.
    this.#revision = Math.max(1, state.revision);
    const loaded = new Map<string, Entry[]>();
    for (const { table, key, revision, value } of state.objects) {
      const entries = loaded.get(table) ?? [];
      entries.push(Entry.parsed(key, revision, value, this.#warm));
      loaded.set(table, entries);
    }
    for (const [id, entries] of loaded) this.table(id).load(entries);
    this.#restoreEvents(state.events);
    for (const { log } of this.#tables.values()) log.trim(options.clock.now());
  }

  #restoreEvents(records: Iterable<JournalRecord>): void {
    const latest = new Map<string, Entry | undefined>();
    for (const { revision, table, key, type, value, atMs } of records) {
      const id = `${table}\n${key}`;
      const target = this.table(table);
      const present = target.get(key);
      const entry = present?.revision === revision ? present : Entry.parsed(key, revision, value, this.#warm);
      // An object that went away carries its last state, which is also the one before.
      const before = latest.get(id) ?? (type === "DELETED" ? entry : undefined);
      target.log.append({ revision, type, key, entry, before, atMs });
      latest.set(id, type === "DELETED" ? undefined : entry);
    }
  }

  /** The newest revision; everything up to it is committed. */
  get revision(): number {
    return this.#revision;
  }

  /** The table of a stored resource; made when it is first asked for. */
  table(id: string): Table {
    let table = this.#tables.get(id);
    if (table === undefined) {
      table = new Table(id, this.#newLog());
      this.#tables.set(id, table);
    }
    return table;
  }

  /** What only an event still had goes with it, and takes no room from what is read. */
  #newLog(): EventLog {
    const retention = this.#options.retention ?? DEFAULT_RETENTION;
    return new EventLog(this.#floor, retention, ({ type, entry, before }) => {
      if (before !== undefined) this.#warm.forget(before);
      if (type === "DELETED") this.#warm.forget(entry);
    });
  }

  tables(): Iterable<Table> {
    return this.#tables.values();
  }

  /** `listener` receives each change at once, inside the transaction, and its reverse if that fails. It must not throw. */
  onChange(listener: (change: StoreChange) => void): void {
    this.#changeListeners.push(listener);
  }

  /** `listener` receives what was committed, in order. It must not throw. */
  onCommit(listener: (events: readonly TableEvent[]) => void): void {
    this.#commitListeners.push(listener);
  }

  /**
   * Runs `work`, which must not wait, with all earlier writes done; resolves with its result once everything is
   * committed. When it throws, nothing that it did remains.
   */
  write<T>(work: (tx: Transaction) => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#isClosed) {
        reject(internalError("the server is shutting down"));
        return;
      }
      this.#jobs.push({ work, resolve, reject });
      this.#schedule();
    });
  }

  /** False after a commit has failed, until one succeeds. Without other writes, a commit is attempted periodically. */
  journalHolds(): boolean {
    const { clock, journal } = this.#options;
    if (this.#failedMs === undefined) return true;
    if (this.#isClosed || clock.monotonic() - this.#failedMs < PROBE_EVERY_MS) return false;
    try {
      journal.probe();
      this.#failedMs = undefined;
      return true;
    } catch {
      this.#failedMs = clock.monotonic();
      return false;
    }
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    afterThisTurn(() => {
      this.#isScheduled = false;
      this.#runTurn();
      if (this.#jobs.length > 0) this.#schedule();
    });
  }

  #runTurn(): void {
    const { clock, journal } = this.#options;
    const untilMs = clock.monotonic() + TURN_MS;
    const jobs = this.#jobs;
    const settle: (() => void)[] = [];
    const done: Job[] = [];
    let count = 0;
    for (const job of jobs) {
      settle.push(this.#runJob(job));
      done.push(job);
      count += 1;
      if (clock.monotonic() >= untilMs) break;
    }
    this.#jobs = jobs.slice(count);
    try {
      if (this.#uncommitted.length > 0) {
        journal.commit(this.#uncommitted.map(recordOf));
        this.#failedMs = undefined;
      }
    } catch (error) {
      this.#failedMs = clock.monotonic();
      this.#rollBackTo(0);
      // Refusals too may rest on what was not stored after all.
      const refusal = internalError(`cannot store: ${Error.isError(error) ? error.message : String(error)}`);
      for (const job of done) job.reject(refusal);
      return;
    }
    this.#publish();
    for (const it of settle) it();
  }

  #runJob(job: Job): () => void {
    const mark = this.#uncommitted.length;
    try {
      const result = job.work(this.#transaction()) as never;
      return () => job.resolve(result);
    } catch (error) {
      this.#rollBackTo(mark);
      return () => job.reject(error);
    }
  }

  #transaction(): Transaction {
    return {
      nowMs: this.#options.clock.now(),
      put: (table, key, object) => this.#put(table, key, object),
      remove: (table, key) => this.#remove(table, key),
    };
  }

  #put(table: Table, key: string, object: ApiObject): Entry {
    this.#revision += 1;
    object.metadata.resourceVersion = String(this.#revision);
    const before = table.get(key);
    const entry = Entry.of(key, this.#revision, object, this.#warm);
    table.set(key, entry);
    const type = before === undefined ? "ADDED" : "MODIFIED";
    this.#record(table, {
      revision: this.#revision,
      type,
      key,
      entry,
      before,
      atMs: this.#options.clock.now(),
    });
    return entry;
  }

  #remove(table: Table, key: string): Entry | undefined {
    const before = table.get(key);
    if (before === undefined) return undefined;
    this.#revision += 1;
    const entry = before.at(this.#revision);
    table.delete(key);
    const atMs = this.#options.clock.now();
    this.#record(table, { revision: this.#revision, type: "DELETED", key, entry, before, atMs });
    return entry;
  }

  #record(table: Table, event: StoreEvent): void {
    table.log.append(event);
    this.#warm.keep(event.entry);
    this.#uncommitted.push({ table, event });
    const after = event.type === "DELETED" ? undefined : event.entry;
    this.#notify({ table, key: event.key, before: event.before, after });
  }

  #notify(change: StoreChange): void {
    for (const listener of this.#changeListeners) listener(change);
  }

  #rollBackTo(mark: number): void {
    while (this.#uncommitted.length > mark) {
      const last = this.#uncommitted.pop();
      if (last === undefined) return;
      const { table, event } = last;
      table.log.dropNewest();
      this.#warm.forget(event.entry);
      if (event.before === undefined) table.delete(event.key);
      else table.set(event.key, event.before);
      this.#revision = event.revision - 1;
      const before = event.type === "DELETED" ? undefined : event.entry;
      this.#notify({ table, key: event.key, before, after: event.before });
    }
  }

  #publish(): void {
    const events = this.#uncommitted;
    if (events.length === 0) return;
    this.#uncommitted = [];
    for (const listener of this.#commitListeners) listener(events);
    const nowMs = this.#options.clock.now();
    for (const { table } of events) table.log.trim(nowMs);
  }

  /** Commits what was asked for before, refuses what comes after, and closes the journal. */
  close(): void {
    if (this.#isClosed) return;
    while (this.#jobs.length > 0) this.#runTurn();
    this.#isClosed = true;
    this.#options.journal[Symbol.dispose]();
  }
}

function recordOf({ table, event }: { table: Table; event: StoreEvent }): JournalRecord {
  const { revision, key, type, entry, atMs } = event;
  return { revision, table: table.id, key, type, value: entry.json, atMs };
}
