import { describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { Pace } from "./pace.ts";

/** A clock whose time passes while the work is done. */
class WorkingClock extends FakeClock {
  #workedMs = 0;

  override monotonic(): number {
    return super.monotonic() + this.#workedMs;
  }

  work(forMs: number): void {
    this.#workedMs += forMs;
  }
}

describe("paced work", () => {
  const start = (costMs: number): { clock: WorkingClock; pace: Pace; count: () => number } => {
    const clock = new WorkingClock();
    let count = 0;
    const pace = new Pace(clock, () => {
      count += 1;
      clock.work(costMs);
    });
    return { clock, pace, count: () => count };
  };

  it("runs immediately if it is cheap and requested rarely", async () => {
    const { clock, pace, count } = start(0.2);
    for (let at = 0; at < 10; at += 1) {
      pace.request();
      await clock.advance(1);
    }
    expect(count()).toBe(10);
  });

  it("waits twice as long as it took, and then runs once for all requests since", async () => {
    const { clock, pace, count } = start(4);
    for (let at = 0; at < 5; at += 1) pace.request();
    expect(count()).toBe(1);
    await clock.advance(7);
    expect(count()).toBe(1);
    await clock.advance(1);
    expect(count()).toBe(2);
    await clock.advance(100);
    expect(count()).toBe(2);
    pace.request();
    expect(count()).toBe(3);
  });

  it("accumulates waits that are too short for a timer, and bounds the wait", async () => {
    const { pace, count } = start(0.2);
    for (let at = 0; at < 20; at += 1) pace.request();
    expect(count()).toBeGreaterThan(1);
    expect(count()).toBeLessThan(20);
    const long = start(1000);
    long.pace.request();
    long.pace.request();
    await long.clock.advance(10);
    expect(long.count()).toBe(2);
  });
});
