import { describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { Entry } from "./entry.ts";
import { noJournal } from "./journal.ts";
import { Store } from "./store.ts";
import { Warm } from "./warm.ts";

function thing(name: string, value = "x".repeat(100)): Entry["object"] {
  return { kind: "Thing", apiVersion: "v1", metadata: { name, labels: { of: name } }, value };
}

describe("objects that were not written or read lately are kept as bytes alone", () => {
  it("and are parsed again when they are asked for, which keeps them for a while", async () => {
    const store = new Store({ journal: noJournal, clock: new FakeClock(), warmBytes: 1000 });
    const table = store.table("things");
    const put = (name: string): Promise<Entry> => store.write((tx) => tx.put(table, name, thing(name)));
    const first = await put("first");
    const asWritten = first.object;
    expect(first.object).toBe(asWritten);
    for (let at = 0; at < 20; at += 1) await put(`thing-${at}`);
    const again = first.object;
    expect(again).not.toBe(asWritten);
    expect(again).toEqual(asWritten);
    expect(first.object).toBe(again);
    for (let at = 0; at < 20; at += 1) await put(`thing-${at}`);
    expect(first.object).not.toBe(again);
  });
  it("but not because of versions that were replaced, deleted or rolled back, and have left the event log", async () => {
    const retention = { minEvents: 4, minAgeMs: 0, maxEvents: 4, maxBytes: 1_000_000 };
    const store = new Store({ journal: noJournal, clock: new FakeClock(), warmBytes: 5000, retention });
    const table = store.table("things");
    const put = (name: string): Promise<Entry> => store.write((tx) => tx.put(table, name, thing(name)));
    const first = await put("first");
    const asWritten = first.object;
    for (let at = 0; at < 100; at += 1) {
      await put("other");
      await put(`gone-${at}`);
      await store.write((tx) => tx.remove(table, `gone-${at}`));
      const refused = store.write((tx) => {
        tx.put(table, "refused", thing("refused"));
        throw new Error("refused");
      });
      await expect(refused).rejects.toThrow("refused");
    }
    expect(first.object).toBe(asWritten);
  });
  it("up to a number of bytes, but for the newest", () => {
    const warm = new Warm(100);
    const cooled: string[] = [];
    const cooling = (name: string, size: number) => ({ size, cool: () => void cooled.push(name) });
    warm.keep(cooling("a", 60));
    warm.keep(cooling("b", 40));
    expect(cooled).toEqual([]);
    warm.keep(cooling("c", 10));
    expect(cooled).toEqual(["a"]);
    warm.keep(cooling("d", 1000));
    expect(cooled).toEqual(["a", "b", "c"]);
    for (let at = 0; at < 5000; at += 1) warm.keep(cooling(String(at), 10));
    expect(cooled).toHaveLength(4 + 4990);
  });
  it("with their labels and how they are served, so that selectors, lists and watches parse none", () => {
    const entry = Entry.of("a", 1, thing("a"), new Warm(0));
    const form = {};
    entry.serveAsIsIn(form);
    entry.cool();
    let parses = 0;
    const { parse } = JSON;
    try {
      JSON.parse = (...args: Parameters<typeof parse>) => {
        parses += 1;
        return parse(...args) as unknown;
      };
      expect([entry.labels, entry.isServedAsIsIn(form), entry.isServedAsIsIn({})]).toEqual([
        { of: "a" },
        true,
        false,
      ]);
      expect(entry.json.toString()).toContain('"name":"a"');
      expect(parses).toBe(0);
      expect(entry.object).toEqual(thing("a"));
      expect(parses).toBe(1);
    } finally {
      JSON.parse = parse;
    }
  });
  it("in memory of their own, which other bytes do not share", () => {
    const entry = Entry.of("a", 1, thing("a"));
    const { json } = entry;
    expect(json.buffer.byteLength).toBeGreaterThan(json.length);
    entry.cool();
    expect(entry.json).toEqual(json);
    expect(entry.json.buffer.byteLength).toBe(json.length);
  });
});
