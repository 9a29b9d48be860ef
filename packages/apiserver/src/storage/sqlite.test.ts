import {
  closeSync,
  copyFileSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { JournalRecord, JournalState } from "./journal.ts";
import { openSqliteJournal } from "./sqlite.ts";

let dir = "";
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "journal-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const FILES = ["journal.db", "journal.db-wal", "journal.db-revision"];

function record(revision: number, text = `of ${revision} ${"x".repeat(500)}`): JournalRecord {
  const value = Buffer.from(JSON.stringify({ metadata: { name: `n${revision}` }, text }));
  return { revision, table: "configmaps", key: `default/n${revision}`, type: "ADDED", value, atMs: revision };
}

/** A journal of revisions 1 to `newest` as a process leaves it behind that is killed: in `dir`. */
function killed(newest: number): string {
  const folder = mkdtempSync(join(dir, "killed-"));
  const path = join(mkdtempSync(join(dir, "work-")), "journal.db");
  using journal = openSqliteJournal(path);
  for (let at = 1; at <= newest; at += 1) journal.commit([record(at)]);
  for (const file of FILES) copyFileSync(path.replace("journal.db", file), join(folder, file));
  return join(folder, "journal.db");
}

/** A journal that was closed, with the same revisions. */
function closed(newest: number): string {
  const path = join(mkdtempSync(join(dir, "closed-")), "journal.db");
  using journal = openSqliteJournal(path);
  for (let at = 1; at <= newest; at += 1) journal.commit([record(at)]);
  return path;
}

function load(path: string, acceptsDamage = false): JournalState {
  using journal = openSqliteJournal(path, { acceptsDamage });
  const state = journal.load();
  return { ...state, objects: [...state.objects], events: [...state.events] };
}

function flip(path: string, at: number, count: number): void {
  const bytes = readFileSync(path).subarray(at, at + count);
  const file = openSync(path, "r+");
  writeSync(
    file,
    bytes.map((it) => it ^ 0xff),
    0,
    count,
    at,
  );
  closeSync(file);
}

const DAMAGED: unknown = expect.objectContaining({ code: "JOURNAL_DAMAGED" });

describe("the journal", () => {
  it("of a killed process is complete, and the next process continues from it", () => {
    const path = killed(20);
    expect(load(path).revision).toBe(20);
    expect([...load(path).objects]).toHaveLength(20);
  });

  it.each<[string, (wal: string) => void]>([
    ["was cut in half", (wal) => truncateSync(wal, Math.floor(statSync(wal).size / 2))],
    ["is gone", (wal) => rmSync(wal)],
    ["has other bytes", (wal) => flip(wal, Math.floor(statSync(wal).size / 2), 50)],
  ])("is rejected if its WAL %s; if damage is accepted, no revision is assigned twice", (_, damage) => {
    const path = killed(20);
    damage(`${path}-wal`);
    expect(() => load(path)).toThrow(DAMAGED);
    expect(() => load(path)).toThrow(/ends at revision \d+, and revision 20 was given out: writes are lost/);
    const state = load(path, true);
    expect({ revision: state.revision, floor: state.floor, events: state.events }).toEqual({
      revision: 20,
      floor: 20,
      events: [],
    });
    expect([...state.objects].length).toBeLessThan(20);
    expect(load(path).revision).toBe(20);
  });

  it("may end earlier after a reboot: a power failure loses the last commits", () => {
    const path = killed(20);
    truncateSync(`${path}-wal`, Math.floor(statSync(`${path}-wal`).size / 2));
    writeFileSync(`${path}-revision`, `${"20".padStart(16, "0")} ${"another-boot".padEnd(36)}\n`);
    expect(load(path).revision).toBe(20);
  });

  it("is rejected if it is older than the newest revision at its close, even after a reboot", () => {
    const path = closed(20);
    copyFileSync(closed(10), path);
    expect(() => load(path)).toThrow(DAMAGED);
  });

  it("reports the object whose row is corrupt, and loads without it if damage is accepted", () => {
    const path = closed(20);
    flip(path, readFileSync(path).lastIndexOf("of 7 x") + 100, 20);
    flip(path, readFileSync(path).indexOf("of 7 x") + 100, 20);
    expect(() => load(path)).toThrow(DAMAGED);
    expect(() => load(path)).toThrow(`${path} is damaged at configmaps default/n7 (revision 7)`);
    const state = load(path, true);
    expect([...state.objects].map((it) => it.revision)).not.toContain(7);
    expect({ count: [...state.objects].length, revision: state.revision, floor: state.floor }).toEqual({
      count: 19,
      revision: 20,
      floor: 20,
    });
  });

  it.each([
    ["pages have other bytes", (path: string) => flip(path, 4096, 200)],
    ["head has other bytes", (path: string) => flip(path, 0, 100)],
    ["end is missing", (path: string) => truncateSync(path, 8192)],
  ])("is rejected, with its path in the error, if its %s", (_, damage) => {
    const path = closed(40);
    damage(path);
    expect(() => load(path)).toThrow(DAMAGED);
    expect(() => load(path)).toThrow(path);
  });

  it("is rejected if the newest acknowledged revision is unknown", () => {
    const path = closed(3);
    flip(`${path}-revision`, 3, 1);
    expect(() => load(path)).toThrow(DAMAGED);
    expect(load(path, true).revision).toBe(3);
    expect(load(path).revision).toBe(3);
  });

  it("of the first format is accepted without checksums", () => {
    const path = join(dir, "journal.db");
    const db = new DatabaseSync(path);
    db.exec(`
      CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
      CREATE TABLE cur (resource TEXT NOT NULL, key TEXT NOT NULL, rv INTEGER NOT NULL, value BLOB NOT NULL,
        PRIMARY KEY (resource, key)) WITHOUT ROWID;
      CREATE TABLE log (rv INTEGER PRIMARY KEY, at INTEGER NOT NULL, type TEXT NOT NULL, resource TEXT NOT NULL,
        key TEXT NOT NULL, value BLOB NOT NULL);
      INSERT INTO meta VALUES ('format', 1), ('floor', 0);
      INSERT INTO cur VALUES ('configmaps', 'default/a', 4, x'7b7d');
      INSERT INTO log VALUES (4, 1, 'ADDED', 'configmaps', 'default/a', x'7b7d');
    `);
    db.close();
    expect(load(path)).toMatchObject({ revision: 4, objects: [{ key: "default/a", revision: 4 }] });
    using journal = openSqliteJournal(path);
    journal.load();
    journal.commit([record(5)]);
  });

  it("bounds the bytes of events, however large they are", () => {
    const path = join(dir, "journal.db");
    using journal = openSqliteJournal(path, { keptBytes: 1_000_000 });
    const text = "x".repeat(100_000);
    for (let at = 1; at <= 60; at += 1) journal.commit([{ ...record(at, text), key: "default/a" }]);
    const { floor, revision, events } = journal.load();
    expect(revision).toBe(60);
    expect([...events]).toHaveLength(revision - floor);
    expect(revision - floor).toBeLessThan(16);
  });

  it("is readable for its owner only", () => {
    const path = closed(1);
    for (const file of [path, `${path}-revision`]) expect(statSync(file).mode & 0o777).toBe(0o600);
    using _open = openSqliteJournal(path);
    expect(existsSync(`${path}-wal`)).toBe(true);
    const folder = join(path, "..");
    for (const file of readdirSync(folder)) expect(statSync(join(folder, file)).mode & 0o777).toBe(0o600);
  });
});
