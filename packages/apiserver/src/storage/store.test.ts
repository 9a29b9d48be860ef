import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import type { ApiObject } from "#values/object.ts";
import { type Journal, noJournal } from "./journal.ts";
import { openSqliteJournal } from "./sqlite.ts";
import { Store } from "./store.ts";

function thing(name: string, value: number): ApiObject {
  return { kind: "Thing", apiVersion: "v1", metadata: { name }, value };
}

interface Write {
  readonly table: string;
  readonly key: string;
  readonly value: number | undefined;
}

const write = fc.record({
  table: fc.constantFrom("things", "others"),
  key: fc.constantFrom("a", "b", "n/a", "é"),
  value: fc.option(fc.nat(9), { nil: undefined }),
});

function open(journal: Journal): Store {
  return new Store({ journal, clock: new FakeClock() });
}

/** Everything that a client could see of a store. */
function dump(store: Store): unknown {
  const tables = ["things", "others"].map((id) => store.table(id));
  return {
    revision: store.revision,
    objects: tables.map((it) =>
      Array.from(it.entries(), ({ key, revision, object }) => ({ key, revision, object })),
    ),
    events: tables.map((it) =>
      Array.from(it.log.after(it.log.floor), ({ revision, type, key, entry, before }) => {
        return {
          revision,
          type,
          key,
          object: entry.object,
          before: type === "MODIFIED" ? before?.object : undefined,
        };
      }),
    ),
  };
}

async function apply(store: Store, writes: readonly Write[]): Promise<void> {
  await Promise.all(
    writes.map(({ table, key, value }) =>
      store.write((tx) => {
        if (value === undefined) tx.remove(store.table(table), key);
        else tx.put(store.table(table), key, thing(key, value));
      }),
    ),
  );
}

describe("a store", () => {
  it("reports its journal as failing from a failed commit until one succeeds, and retries on its own", async () => {
    const clock = new FakeClock();
    let isFull = true;
    let probes = 0;
    const attempt = (): void => {
      if (isFull) throw new Error("database or disk is full");
    };
    const probe = (): void => {
      probes += 1;
      attempt();
    };
    const store = new Store({ journal: { ...noJournal, commit: attempt, probe }, clock });
    const put = () =>
      store.write((tx) => {
        const object = { apiVersion: "v1", kind: "Thing", metadata: { name: "a" } };
        tx.put(store.table("things"), "a", object);
      });
    expect(store.journalHolds()).toBe(true);
    await expect(put()).rejects.toMatchObject({ code: 500 });
    expect([store.journalHolds(), store.journalHolds(), probes]).toEqual([false, false, 0]);
    await clock.advance(1000);
    expect([store.journalHolds(), store.journalHolds(), probes]).toEqual([false, false, 1]);
    isFull = false;
    await put();
    expect([store.journalHolds(), probes]).toEqual([true, 1]);
    isFull = true;
    await expect(put()).rejects.toMatchObject({ code: 500 });
    isFull = false;
    await clock.advance(1000);
    expect([store.journalHolds(), probes]).toEqual([true, 2]);
  });

  it("has the same objects and events after it is closed and reopened", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(write, { maxLength: 5 }), { maxLength: 6 }), async (batches) => {
        const dir = mkdtempSync(join(tmpdir(), "store-"));
        try {
          const path = join(dir, "journal.db");
          const first = open(openSqliteJournal(path));
          for (const batch of batches) await apply(first, batch);
          const before = dump(first);
          first.close();
          const second = open(openSqliteJournal(path));
          expect(dump(second)).toEqual(before);
          second.close();
        } finally {
          rmSync(dir, { recursive: true });
        }
      }),
      { numRuns: 25 },
    );
  });

  it("neither shows nor counts writes that could not be committed", async () => {
    let isFull = false;
    const journal: Journal = {
      ...noJournal,
      commit() {
        if (isFull) throw new Error("disk full");
      },
    };
    const store = open(journal);
    await apply(store, [{ table: "things", key: "a", value: 1 }]);
    const before = dump(store);
    let published = 0;
    store.onCommit(() => {
      published += 1;
    });
    isFull = true;
    const writes = [1, 2, 3].map((value) =>
      store.write((tx) => tx.put(store.table("things"), value === 2 ? "b" : "a", thing("a", value))),
    );
    for (const it of await Promise.allSettled(writes)) {
      expect(it).toMatchObject({
        status: "rejected",
        reason: { code: 500, message: expect.stringContaining("disk full") as string },
      });
    }
    expect(dump(store)).toEqual(before);
    expect(published).toBe(0);
    isFull = false;
    await apply(store, [{ table: "things", key: "b", value: 4 }]);
    expect(store.table("things").get("b")?.object["value"]).toBe(4);
  });

  it("commits the writes of one turn together, and each sees those before it", async () => {
    const sizes: number[] = [];
    const journal: Journal = { ...noJournal, commit: (records) => void sizes.push(records.length) };
    const store = open(journal);
    const table = store.table("things");
    const increment = (): Promise<unknown> =>
      store.write((tx) => tx.put(table, "a", thing("a", Number(table.get("a")?.object["value"] ?? 0) + 1)));
    await Promise.all(Array.from({ length: 10 }, increment));
    expect(sizes).toEqual([10]);
    expect(table.get("a")?.object["value"]).toBe(10);
  });

  it("rejects writes once it is closed", async () => {
    const store = open(noJournal);
    store.close();
    await expect(store.write(() => 1)).rejects.toMatchObject({ code: 500 });
  });
});
