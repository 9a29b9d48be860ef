import { describe, expect, it } from "vitest";
import { Entry } from "./entry.ts";
import { DEFAULT_RETENTION, EventLog, type StoreEvent } from "./event-log.ts";

function event(revision: number, atMs: number): StoreEvent {
  const entry = Entry.of("a", revision, { apiVersion: "v1", kind: "Thing", metadata: { name: "a" } });
  return { revision, type: "ADDED", key: "a", entry, before: undefined, atMs };
}

describe("the log of recent events", () => {
  it("keeps young events up to its maximum size, and the newest of the old ones", () => {
    const log = new EventLog(0, { minEvents: 3, minAgeMs: 1000, maxEvents: 6, maxBytes: 10_000 });
    for (let at = 1; at <= 6; at += 1) log.append(event(at, at * 100));
    log.trim(700);
    expect(log.size).toBe(6);
    log.append(event(7, 700));
    log.trim(700);
    expect({ size: log.size, floor: log.floor }).toEqual({ size: 6, floor: 1 });
    log.trim(10_000);
    expect({ size: log.size, floor: log.floor }).toEqual({ size: 3, floor: 4 });
    expect(Array.from(log.after(5), (it) => it.revision)).toEqual([6, 7]);
    expect(Array.from(log.newestDownTo(5), (it) => it.revision)).toEqual([7, 6]);
  });

  it("never exceeds its size in bytes, however many updates of a large object there are", () => {
    const json = Buffer.from(JSON.stringify({ metadata: { name: "a" }, data: "x".repeat(1_000_000) }));
    const log = new EventLog(0, DEFAULT_RETENTION);
    for (let at = 1; at <= 10_000; at += 1) {
      log.append({ ...event(at, 0), entry: Entry.parsed("a", at, json) });
      log.trim(0);
    }
    expect(log.size * json.length).toBeLessThanOrEqual(DEFAULT_RETENTION.maxBytes);
    expect({ floor: log.floor, size: log.size }).toEqual({ floor: 10_000 - log.size, size: log.size });
    expect(log.size).toBeGreaterThan(50);
  });

  it("reports the revision from which it has every predecessor", () => {
    const log = new EventLog(5, { minEvents: 10, minAgeMs: 0, maxEvents: 10, maxBytes: 10_000 });
    log.append({ ...event(6, 0), type: "MODIFIED" });
    log.append(event(7, 0));
    expect({ floor: log.floor, completeFrom: log.completeFrom }).toEqual({ floor: 5, completeFrom: 6 });
  });
});
