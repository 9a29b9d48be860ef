import { array, assert, integer, property, record } from "fast-check";
import { describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { offsetClock } from "@fairlead/base/clock.ts";
import { ServerClock } from "./server-clock.ts";

/** As servers write it: whole seconds. */
const dateOf = (ms: number): string => new Date(Math.floor(ms / 1000) * 1000).toUTCString();

describe("the clock of a server", () => {
  it("is unknown before the first response, and ignores other headers", () => {
    const clock = new ServerClock(new FakeClock());
    expect(clock.time).toBeUndefined();
    clock.observe("", 0, 1);
    clock.observe("yesterday", 0, 1);
    expect(clock.time).toBeUndefined();
  });

  it("B7: is known to a few milliseconds after some answers, however far this machine's is off", async () => {
    const time = new FakeClock();
    const aDayMs = 86_400_000;
    const server = offsetClock(time, aDayMs);
    const clock = new ServerClock(time);
    for (let at = 0; at < 400; at++) {
      const sentMs = time.monotonic();
      await time.advance(2);
      const date = dateOf(server.now());
      await time.advance(2);
      clock.observe(date, sentMs, time.monotonic());
      await time.advance(37);
    }
    const { nowMs = 0, errorMs = 1000 } = clock.time ?? {};
    expect(Math.abs(nowMs - server.now())).toBeLessThan(10);
    expect(errorMs).toBeLessThan(15);
  });

  it("is estimated again after it was set", async () => {
    const time = new FakeClock();
    const clock = new ServerClock(time);
    clock.observe(dateOf(time.now()), time.monotonic(), time.monotonic());
    await time.advance(100);
    clock.observe(dateOf(time.now() + 3_600_000), time.monotonic(), time.monotonic());
    expect(Math.abs((clock.time?.nowMs ?? 0) - time.now() - 3_600_000)).toBeLessThanOrEqual(1000);
  });

  it("has an error within the reported bound, whatever the round trips are", () => {
    const trip = record({
      out: integer({ min: 0, max: 400 }),
      back: integer({ min: 0, max: 400 }),
      gap: integer({ min: 0, max: 5000 }),
    });
    assert(
      property(array(trip, { minLength: 1, maxLength: 60 }), integer(), (trips, offsetMs) => {
        let nowMs = 1_000_000;
        const clock = new ServerClock({
          now: () => 0,
          monotonic: () => nowMs,
          after: () => ({ [Symbol.dispose]() {} }),
        });
        const epochMs = 1_700_000_000_000 + (offsetMs % 1_000_000_000);
        for (const { out, back, gap } of trips) {
          const sentMs = nowMs;
          nowMs += out;
          const date = dateOf(epochMs + nowMs);
          nowMs += back;
          clock.observe(date, sentMs, nowMs);
          const { time } = clock;
          expect(Math.abs((time?.nowMs ?? 0) - (epochMs + nowMs))).toBeLessThanOrEqual(
            (time?.errorMs ?? 0) + 1e-3,
          );
          nowMs += gap;
        }
      }),
    );
  });
});
