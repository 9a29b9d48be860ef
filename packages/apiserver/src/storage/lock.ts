import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { FleetError } from "@fairlead/base/errors.ts";
import { makePrivate } from "./sqlite-file.ts";

/**
 * Locks a data folder for one server. The kernel releases the lock when the process ends, however it ends.
 *
 * SQLite's lock, since Node has none of its own for files.
 *
 * @throws {FleetError} `OPTION_INVALID` while another server runs on the folder.
 */
export function lockFolder(dataDir: string): Disposable {
  const path = join(dataDir, "lock.db");
  makePrivate(path);
  const db = new DatabaseSync(path);
  try {
    db.exec("PRAGMA journal_mode = MEMORY; PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE;");
  } catch (error) {
    db.close();
    if (!Error.isError(error) || !error.message.includes("locked")) throw error;
    const message = `the data folder ${dataDir} is in use by another API server; stop it, or use another folder`;
    throw new FleetError("OPTION_INVALID", message, { cause: error });
  }
  return { [Symbol.dispose]: () => db.close() };
}
