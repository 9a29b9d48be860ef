import { DatabaseSync, type StatementSync } from "node:sqlite";
import { FleetError } from "#base/errors.ts";
import type { EventType } from "./event-log.ts";
import type { Journal, JournalRecord, JournalState } from "./journal.ts";

/** This many of the newest events stay in the file whatever their age; younger ones than 75 s stay anyway. */
const KEPT_EVENTS = 8192;
const KEPT_AGE_MS = 75_000;
/** Rows written between two trims. */
const TRIM_EVERY = 1024;
const FORMAT = 1;

/**
 * `cur` holds each object's present state, `log` the recent changes, both written in one transaction.
 *
 * WAL with `synchronous=NORMAL`: a killed process loses nothing that was committed; a machine that loses power may lose
 * the last commits, never the consistency (SQLite, "Write-Ahead Logging"). FULL halves the rate.
 */
const SCHEMA = `
  CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS cur (
    resource TEXT NOT NULL, key TEXT NOT NULL, rv INTEGER NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (resource, key)
  ) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS log (
    rv INTEGER PRIMARY KEY, at INTEGER NOT NULL, type TEXT NOT NULL,
    resource TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL
  );
`;

/**
 * Opens the journal at `path`, or makes it.
 *
 * @throws {FleetError} `OPTION_INVALID` when another process has it open, or a newer version wrote it.
 */
export function openSqliteJournal(path: string): Journal {
  const db = new DatabaseSync(path);
  try {
    // One server per file: the second one would give out the same revisions.
    db.exec("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;");
    db.exec("PRAGMA wal_autocheckpoint = 4000; BEGIN IMMEDIATE;");
    db.exec(SCHEMA);
    checkFormat(db);
    db.exec("COMMIT");
  } catch (error) {
    db.close();
    if (Error.isError(error) && error.message.includes("locked")) {
      throw new FleetError("OPTION_INVALID", `${path} is in use by another process`, { cause: error });
    }
    throw error;
  }
  return new SqliteJournal(db);
}

function checkFormat(db: DatabaseSync): void {
  const found = db.prepare("SELECT value FROM meta WHERE name = 'format'").get()?.["value"];
  if (found === undefined) db.prepare("INSERT INTO meta VALUES ('format', ?), ('floor', 0)").run(FORMAT);
  else if (found !== FORMAT) {
    const message = `the journal has format ${String(found)}, this program reads ${FORMAT}: use the version that wrote it`;
    throw new FleetError("OPTION_INVALID", message);
  }
}

class SqliteJournal implements Journal {
  readonly #db: DatabaseSync;
  readonly #put: StatementSync;
  readonly #remove: StatementSync;
  readonly #append: StatementSync;
  #untilTrim = TRIM_EVERY;

  constructor(db: DatabaseSync) {
    this.#db = db;
    this.#put = db.prepare(
      "INSERT INTO cur VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET rv = excluded.rv, value = excluded.value",
    );
    this.#remove = db.prepare("DELETE FROM cur WHERE resource = ? AND key = ?");
    this.#append = db.prepare("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)");
  }

  load(): JournalState {
    const floor = Number(this.#db.prepare("SELECT value FROM meta WHERE name = 'floor'").get()?.["value"]);
    const newest = Number(this.#db.prepare("SELECT max(rv) AS rv FROM log").get()?.["rv"] ?? 0);
    return {
      // The log is never trimmed to nothing, so its newest revision is the last one given out.
      revision: Math.max(newest, floor),
      floor,
      objects: this.#objects(),
      events: this.#events(),
    };
  }

  *#objects(): Iterable<{ table: string; key: string; revision: number; value: Buffer }> {
    for (const row of this.#db.prepare("SELECT * FROM cur").iterate()) {
      yield {
        table: String(row["resource"]),
        key: String(row["key"]),
        revision: Number(row["rv"]),
        value: bytesOf(row["value"]),
      };
    }
  }

  *#events(): Iterable<JournalRecord> {
    for (const row of this.#db.prepare("SELECT * FROM log ORDER BY rv").iterate()) {
      yield {
        revision: Number(row["rv"]),
        atMs: Number(row["at"]),
        type: String(row["type"]) as EventType,
        table: String(row["resource"]),
        key: String(row["key"]),
        value: bytesOf(row["value"]),
      };
    }
  }

  commit(records: readonly JournalRecord[]): void {
    this.#db.exec("BEGIN IMMEDIATE");
    try {
      for (const it of records) this.#write(it);
      this.#trim(records);
      this.#db.exec("COMMIT");
    } catch (error) {
      // After some failures (a full disk) SQLite has rolled back by itself.
      if (this.#db.isTransaction) this.#db.exec("ROLLBACK");
      throw error;
    }
  }

  #write(it: JournalRecord): void {
    if (it.type === "DELETED") this.#remove.run(it.table, it.key);
    else this.#put.run(it.table, it.key, it.revision, it.value);
    this.#append.run(it.revision, it.atMs, it.type, it.table, it.key, it.value);
  }

  #trim(records: readonly JournalRecord[]): void {
    this.#untilTrim -= records.length;
    const newest = records.at(-1);
    if (this.#untilTrim > 0 || newest === undefined) return;
    this.#untilTrim = TRIM_EVERY;
    const bound = this.#db
      .prepare("SELECT max(rv) AS rv FROM log WHERE rv <= ? AND at < ?")
      .get(newest.revision - KEPT_EVENTS, newest.atMs - KEPT_AGE_MS)?.["rv"];
    if (typeof bound !== "number") return;
    this.#db.prepare("DELETE FROM log WHERE rv <= ?").run(bound);
    this.#db.prepare("UPDATE meta SET value = ? WHERE name = 'floor'").run(bound);
  }

  [Symbol.dispose](): void {
    if (this.#db.isOpen) this.#db.close();
  }
}

function bytesOf(value: unknown): Buffer {
  if (!(value instanceof Uint8Array))
    throw new FleetError("OPTION_INVALID", "the journal holds a value that is no blob");
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}
