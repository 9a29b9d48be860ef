import { describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { RCODE } from "#wire/types.ts";
import type { Answer } from "./answer.ts";
import { AnswerCache } from "./cache.ts";
import { failure } from "./resolver.ts";

function positive(ttl: number): Answer {
  const record = { name: "a.", class: 1, ttl, data: { type: "A", address: 1 } } as const;
  return { ...failure(RCODE.NOERROR), answers: [record] };
}

function denial(ttl: number, minimum: number): Answer {
  const numbers = { serial: 1, refresh: 1, retry: 1, expire: 1, minimum };
  const data = { type: "SOA", mname: "a.", rname: "a.", ...numbers } as const;
  return { ...failure(RCODE.NXDOMAIN), authorities: [{ name: "a.", class: 1, ttl, data }] };
}

function cacheOf(options: Partial<{ maxEntries: number; maxTtl: number }> = {}) {
  const clock = new FakeClock();
  return { clock, cache: new AnswerCache({ clock, maxEntries: 10, maxTtl: 60, maxStale: 100, ...options }) };
}

describe("a cache of answers", () => {
  it("gives an answer for its TTL, which shrinks with its age", async () => {
    const { clock, cache } = cacheOf();
    cache.put("a", positive(5));
    expect(cache.fresh("a")?.answers[0]?.ttl).toBe(5);
    await clock.advance(3000);
    expect(cache.fresh("a")?.answers[0]?.ttl).toBe(2);
    await clock.advance(2000);
    expect(cache.fresh("a")).toBeUndefined();
  });

  it("keeps no answer longer than its own bound", async () => {
    const { clock, cache } = cacheOf({ maxTtl: 1 });
    cache.put("a", positive(300));
    await clock.advance(999);
    expect(cache.fresh("a")).toBeDefined();
    await clock.advance(1);
    expect(cache.fresh("a")).toBeUndefined();
  });

  it("keeps a negative answer for the time in its SOA record", async () => {
    const { clock, cache } = cacheOf();
    cache.put("a", denial(30, 5));
    await clock.advance(4999);
    expect(cache.fresh("a")?.rcode).toBe(RCODE.NXDOMAIN);
    await clock.advance(1);
    expect(cache.fresh("a")).toBeUndefined();
  });

  it("has a stale answer for a while, with a short TTL, and then no more", async () => {
    const { clock, cache } = cacheOf();
    cache.put("a", positive(5));
    await clock.advance(50_000);
    expect(cache.stale("a")?.answers[0]?.ttl).toBe(1);
    await clock.advance(55_000);
    expect(cache.stale("a")).toBeUndefined();
    expect(cache.size).toBe(0);
  });

  it("keeps no failure", () => {
    const { cache } = cacheOf();
    cache.put("a", failure(RCODE.SERVFAIL));
    cache.put("b", failure(RCODE.REFUSED));
    expect(cache.size).toBe(0);
  });

  it("never holds more than its limit, and evicts what was not used", () => {
    const { cache } = cacheOf({ maxEntries: 3 });
    for (const key of ["a", "b", "c"]) cache.put(key, positive(5));
    cache.fresh("a");
    cache.put("d", positive(5));
    expect(cache.size).toBe(3);
    expect(cache.fresh("b")).toBeUndefined();
    expect(cache.fresh("a")).toBeDefined();
  });
});
