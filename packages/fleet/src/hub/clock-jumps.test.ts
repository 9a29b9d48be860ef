import { describe, expect, it } from "vitest";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { ClockJumps } from "./clock-jumps.ts";

const DAY_MS = 86_400_000;
const KEY = objectKey(undefined, "june");

describe("the time of day", () => {
  function world() {
    const time = { passedMs: 0, setMs: 0 };
    const clock = { now: () => 1e12 + time.passedMs + time.setMs, monotonic: () => time.passedMs };
    return { time, jumps: new ClockJumps(clock) };
  }

  it.each([DAY_MS, -DAY_MS])("that was set by %d ms between two looks has jumped by that", (setMs) => {
    const { time, jumps } = world();
    jumps.look(KEY).settle();
    time.passedMs += 600_000;
    time.setMs += setMs;
    expect(jumps.look(KEY).jumpMs).toBe(setMs);
    const look = jumps.look(KEY);
    expect(look.jumpMs).toBe(setMs);
    look.settle();
    expect(jumps.look(KEY).jumpMs).toBe(0);
  });

  it("that passes, or is corrected by seconds, has not jumped, however often", () => {
    const { time, jumps } = world();
    for (let looks = 0; looks < 100; looks += 1) {
      time.passedMs += DAY_MS;
      time.setMs += 2000;
      const look = jumps.look(KEY);
      expect(look.jumpMs).toBe(0);
      look.settle();
    }
  });

  it("that was set before the first look is what it is", () => {
    const { time, jumps } = world();
    jumps.look(KEY).settle();
    jumps.forget(KEY);
    time.setMs += DAY_MS;
    expect(jumps.look(KEY).jumpMs).toBe(0);
    expect(jumps.look(objectKey(undefined, "other")).jumpMs).toBe(0);
  });
});
