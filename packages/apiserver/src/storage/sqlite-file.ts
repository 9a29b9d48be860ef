import { chmodSync, closeSync, existsSync, openSync, statSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { FleetError } from "@fairlead/base/errors.ts";

/** A larger file is not checked as a whole before it is read. Unit: bytes. */
const MAX_CHECKED_BYTES = 256 * 1024 * 1024;
const FORMAT = 2;

/**
 * `cur` holds each object's present state, `log` the recent changes, both written in one transaction. `sum` is a checksum
 * of the row; rows from before there was one have none.
 *
 * WAL with `synchronous=NORMAL`: a killed process loses nothing that was committed; a machine that loses power may lose
 * the last commits, never the consistency (SQLite, "Write-Ahead Logging"). FULL halves the rate.
 */
const SCHEMA = `
  CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS cur (
    resource TEXT NOT NULL, key TEXT NOT NULL, rv INTEGER NOT NULL, value BLOB NOT NULL, sum INTEGER,
    PRIMARY KEY (resource, key)
  ) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS log (
    rv INTEGER PRIMARY KEY, at INTEGER NOT NULL, type TEXT NOT NULL,
    resource TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, sum INTEGER
  );
`;
const UPGRADE = "ALTER TABLE cur ADD COLUMN sum INTEGER; ALTER TABLE log ADD COLUMN sum INTEGER;";

/**
 * Opens the file of a journal, or creates it. Only the owner may read it and SQLite's files next to it, because they
 * contain Secrets.
 *
 * @throws {FleetError} `OPTION_INVALID` when another process has it open, or a newer version wrote it;
 *   `JOURNAL_DAMAGED` when it is not what it was.
 */
export function openJournalFile(path: string): DatabaseSync {
  for (const file of [path, `${path}-wal`]) if (file === path || existsSync(file)) makePrivate(file);
  const db = new DatabaseSync(path);
  try {
    // One server per file: the second one would give out the same revisions.
    db.exec("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;");
    db.exec("PRAGMA wal_autocheckpoint = 4000; BEGIN IMMEDIATE;");
    db.exec(SCHEMA);
    checkFormat(db);
    db.exec("COMMIT");
    checkPages(db, path);
    return db;
  } catch (error) {
    db.close();
    if (Error.isError(error) && error.message.includes("locked")) {
      throw new FleetError("OPTION_INVALID", `${path} is in use by another process`, { cause: error });
    }
    throw damageOf(path, error);
  }
}

/** SQLite gives its other files the mode of the first. */
export function makePrivate(path: string): void {
  closeSync(openSync(path, "a", 0o600));
  chmodSync(path, 0o600);
}

function checkFormat(db: DatabaseSync): void {
  const found = db.prepare("SELECT value FROM meta WHERE name = 'format'").get()?.["value"];
  if (found === FORMAT) return;
  if (found === undefined) {
    db.prepare("INSERT INTO meta VALUES ('format', ?), ('floor', 0)").run(FORMAT);
  } else if (found === 1) {
    db.exec(UPGRADE);
    db.prepare("UPDATE meta SET value = ? WHERE name = 'format'").run(FORMAT);
  } else {
    const message = `the journal has format ${String(found)}, this program reads ${FORMAT}; use the version that wrote it`;
    throw new FleetError("OPTION_INVALID", message);
  }
}

/** Sees pages that were changed, which may hide rows; what rows hold is left to their checksums. */
function checkPages(db: DatabaseSync, path: string): void {
  if (statSync(path).size > MAX_CHECKED_BYTES) return;
  const found = db.prepare("PRAGMA quick_check(1)").get()?.["quick_check"];
  if (found !== "ok") throw new Error(String(found));
}

/** SQLite's errors name neither the file nor what to do. */
export function damageOf(path: string, error: unknown): unknown {
  if (error instanceof FleetError) return error;
  const why = Error.isError(error) ? error.message : String(error);
  const message = `cannot read the journal ${path}: ${why}; restore the data folder from a backup`;
  return new FleetError("JOURNAL_DAMAGED", message, { cause: error });
}
