import type { DatabaseSync, StatementSync } from "node:sqlite";
import { crc32 } from "node:zlib";
import { FleetError } from "@fairlead/base/errors.ts";
import { type Logger, silentLogger } from "@fairlead/base/log.ts";
import { EVENT_TYPES } from "./event-log.ts";
import type { Journal, JournalRecord, JournalState } from "./journal.ts";
import { RevisionMark } from "./mark.ts";
import { damageOf, openJournalFile } from "./sqlite-file.ts";

/** This many of the newest events stay in the file whatever their age; younger ones than 75 s stay anyway. */
const KEPT_EVENTS = 8192;
const KEPT_AGE_MS = 75_000;
const KEPT_BYTES = 128 * 1024 * 1024;
/** Rows written between two trims; half the bytes that are kept bring about one as well. */
const TRIM_EVERY = 1024;
const FLAG = "--accept-damaged-journal";

export interface SqliteOptions {
  /** Whether to start although writes are lost, without the objects that cannot be read. Default: false. */
  readonly acceptsDamage?: boolean;
  readonly log?: Logger;
  /** Beyond so many bytes events go whatever their age. Default: 128 MiB. */
  readonly keptBytes?: number;
}

type KnownOptions = Required<SqliteOptions> & { readonly path: string };

/**
 * Opens the journal, or makes it.
 *
 * @throws {FleetError} as `openJournalFile`; `load` throws `JOURNAL_DAMAGED` when it is not what it was.
 */
export function openSqliteJournal(path: string, options: SqliteOptions = {}): Journal {
  const { acceptsDamage = false, log = silentLogger, keptBytes = KEPT_BYTES } = options;
  const db = openJournalFile(path);
  try {
    return new SqliteJournal(db, { path, acceptsDamage, log, keptBytes });
  } catch (error) {
    db.close();
    throw damageOf(path, error);
  }
}

type Row = Readonly<Record<string, unknown>>;

class SqliteJournal implements Journal {
  readonly #options: KnownOptions;
  readonly #db: DatabaseSync;
  readonly #put: StatementSync;
  readonly #remove: StatementSync;
  readonly #append: StatementSync;
  readonly #mark: RevisionMark;
  #untilTrim = TRIM_EVERY;
  #writtenBytes = 0;
  #logBytes = 0;

  constructor(db: DatabaseSync, options: KnownOptions) {
    this.#db = db;
    this.#options = options;
    this.#put = db.prepare(
      "INSERT INTO cur VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET rv = excluded.rv, value = excluded.value, sum = excluded.sum",
    );
    this.#remove = db.prepare("DELETE FROM cur WHERE resource = ? AND key = ?");
    this.#append = db.prepare("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?)");
    this.#mark = new RevisionMark(`${options.path}-revision`);
  }

  load(): JournalState {
    const { path, acceptsDamage } = this.#options;
    try {
      if (acceptsDamage) this.#dropDamaged();
      this.#checkRevision(this.#newest());
    } catch (error) {
      throw damageOf(path, error);
    }
    const revision = this.#newest();
    if (revision > 0) this.#mark.set(revision);
    this.#logBytes = this.#bytesUpTo(revision);
    return { revision, floor: this.#floor(), objects: this.#objects(), events: this.#events() };
  }

  /** The log is never trimmed to nothing, so its newest revision is the last one given out. */
  #newest(): number {
    const newest = Number(this.#db.prepare("SELECT max(rv) AS rv FROM log").get()?.["rv"] ?? 0);
    return Math.max(newest, this.#floor());
  }

  #floor(): number {
    return Number(this.#db.prepare("SELECT value FROM meta WHERE name = 'floor'").get()?.["value"]);
  }

  /** Whether all that was given out is there. Where it is not, and that is accepted, nothing is given out twice. */
  #checkRevision(revision: number): void {
    const { path, acceptsDamage, log } = this.#options;
    const mark = this.#mark.read();
    if (mark === undefined) return;
    if (mark === "unreadable") {
      if (acceptsDamage) return;
      throw this.#damage(`cannot read a revision from ${path}-revision: writes may be lost`);
    }
    if (mark.revision <= revision) return;
    const what = `the journal ${path} ends at revision ${revision}, and revision ${mark.revision} was given out`;
    if (!acceptsDamage && !mark.isOfEarlierBoot) throw this.#damage(`${what}: writes are lost`);
    log.warn("writes are lost, the server continues from an older state", {
      path,
      revision,
      given: mark.revision,
    });
    this.#forgetPast(mark.revision);
  }

  #damage(what: string): FleetError {
    const message = `${what}. Restore the data folder from a backup, or start with ${FLAG} to continue with the remaining data`;
    return new FleetError("JOURNAL_DAMAGED", message);
  }

  /** Drops the events, so that clients that watched before have to list again. */
  #forgetPast(revision: number): void {
    this.#db.exec("BEGIN IMMEDIATE; DELETE FROM log;");
    this.#db.prepare("UPDATE meta SET value = ? WHERE name = 'floor'").run(revision);
    this.#db.exec("COMMIT");
  }

  #dropDamaged(): void {
    const { path, log } = this.#options;
    const damaged = (table: string): Row[] =>
      Array.from(
        this.#db
          .prepare(`SELECT * FROM ${table}`)
          .iterate()
          .filter((it) => !isSound(it)),
      );
    const objects = damaged("cur");
    for (const row of objects) {
      log.warn("an object is lost, its row in the journal is damaged", { path, row: nameOf(row) });
      this.#remove.run(String(row["resource"]), String(row["key"]));
    }
    if (objects.length > 0 || damaged("log").length > 0) this.#forgetPast(this.#newest());
  }

  *#rows(query: string): Iterable<Row> {
    try {
      for (const row of this.#db.prepare(query).iterate()) {
        if (!isSound(row))
          throw this.#damage(`the journal ${this.#options.path} is damaged at ${nameOf(row)}`);
        yield row;
      }
    } catch (error) {
      throw damageOf(this.#options.path, error);
    }
  }

  *#objects(): Iterable<{ table: string; key: string; revision: number; value: Buffer }> {
    for (const row of this.#rows("SELECT * FROM cur")) {
      yield {
        table: String(row["resource"]),
        key: String(row["key"]),
        revision: Number(row["rv"]),
        value: bytesOf(row["value"]),
      };
    }
  }

  *#events(): Iterable<JournalRecord> {
    for (const row of this.#rows("SELECT * FROM log ORDER BY rv")) {
      const type = EVENT_TYPES.find((it) => it === row["type"]);
      if (type === undefined)
        throw this.#damage(`the journal ${this.#options.path} is damaged at ${nameOf(row)}`);
      yield {
        revision: Number(row["rv"]),
        atMs: Number(row["at"]),
        type,
        table: String(row["resource"]),
        key: String(row["key"]),
        value: bytesOf(row["value"]),
      };
    }
  }

  commit(records: readonly JournalRecord[]): void {
    this.#inTransaction(() => {
      for (const it of records) this.#write(it);
      this.#trim(records);
    });
    const newest = records.at(-1);
    if (newest !== undefined) this.#mark.set(newest.revision);
  }

  #inTransaction(work: () => void): void {
    this.#db.exec("BEGIN IMMEDIATE");
    try {
      work();
      this.#db.exec("COMMIT");
    } catch (error) {
      // After some failures (a full disk) SQLite has rolled back by itself.
      if (this.#db.isTransaction) this.#db.exec("ROLLBACK");
      throw error;
    }
  }

  probe(): void {
    this.#inTransaction(() => {
      this.#db.exec("INSERT INTO meta VALUES ('probe', 1) ON CONFLICT DO UPDATE SET value = value + 1");
    });
  }

  #write(it: JournalRecord): void {
    const { revision, table, key, value } = it;
    const sum = sumOf(revision, table, key, value);
    if (it.type === "DELETED") this.#remove.run(table, key);
    else this.#put.run(table, key, revision, value, sum);
    this.#append.run(revision, it.atMs, it.type, table, key, value, sum);
    this.#writtenBytes += value.length;
    this.#logBytes += value.length;
  }

  #trim(records: readonly JournalRecord[]): void {
    this.#untilTrim -= records.length;
    const newest = records.at(-1);
    const isDue = this.#untilTrim <= 0 || this.#writtenBytes > this.#options.keptBytes / 2;
    if (!isDue || newest === undefined) return;
    this.#untilTrim = TRIM_EVERY;
    this.#writtenBytes = 0;
    const bound = Math.max(this.#boundByAge(newest), this.#boundBySize());
    if (bound === 0) return;
    this.#logBytes -= this.#bytesUpTo(bound);
    this.#db.prepare("DELETE FROM log WHERE rv <= ?").run(bound);
    this.#db.prepare("UPDATE meta SET value = ? WHERE name = 'floor'").run(bound);
  }

  #boundByAge({ revision, atMs }: JournalRecord): number {
    const query = this.#db.prepare("SELECT max(rv) AS rv FROM log WHERE rv <= ? AND at < ?");
    return Number(query.get(revision - KEPT_EVENTS, atMs - KEPT_AGE_MS)?.["rv"] ?? 0);
  }

  #bytesUpTo(revision: number): number {
    const query = this.#db.prepare("SELECT sum(length(value)) AS bytes FROM log WHERE rv <= ?");
    return Number(query.get(revision)?.["bytes"] ?? 0);
  }

  #boundBySize(): number {
    if (this.#logBytes <= this.#options.keptBytes) return 0;
    const query = this.#db.prepare(
      "SELECT max(rv) AS rv FROM (SELECT rv, sum(length(value)) OVER (ORDER BY rv DESC) AS newer FROM log) WHERE newer > ?",
    );
    return Number(query.get(this.#options.keptBytes)?.["rv"] ?? 0);
  }

  [Symbol.dispose](): void {
    if (!this.#db.isOpen) return;
    this.#db.close();
    this.#mark[Symbol.dispose]();
  }
}

function sumOf(revision: number, table: string, key: string, value: Uint8Array): number {
  return crc32(value, crc32(`${revision}\n${table}\n${key}`));
}

function isSound({ rv, resource, key, value, sum }: Row): boolean {
  if (!(value instanceof Uint8Array)) return false;
  return sum === null || sum === sumOf(Number(rv), String(resource), String(key), value);
}

function nameOf({ resource, key, rv }: Row): string {
  return `${String(resource)} ${String(key)} (revision ${String(rv)})`;
}

function bytesOf(value: unknown): Buffer {
  if (!(value instanceof Uint8Array)) return Buffer.alloc(0);
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}
