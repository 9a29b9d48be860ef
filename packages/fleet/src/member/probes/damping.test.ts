import { expect, it } from "vitest";
import { Damping } from "./damping.ts";

const MINUTE = 60_000;

it("a cluster has to answer twice as often after each cut that follows soon on another one, up to a bound", () => {
  const damping = new Damping();
  const needed = Array.from({ length: 8 }, (_, at) => {
    const found = damping.cut("a", at * MINUTE);
    damping.back("a", (at + 0.5) * MINUTE);
    return found;
  });
  expect(needed).toEqual([3, 6, 12, 24, 48, 48, 48, 48]);
  expect(damping.cut("b", 8 * MINUTE)).toBe(3);
});

it("a cluster whose path was there for five minutes has to answer as often as at first", () => {
  const damping = new Damping();
  for (const at of [0, 1]) {
    damping.cut("a", at * MINUTE);
    damping.back("a", (at + 0.5) * MINUTE);
  }
  expect(damping.cut("a", 6 * MINUTE)).toBe(12);
  damping.back("a", 20 * MINUTE);
  expect(damping.cut("a", 25 * MINUTE)).toBe(3);
});
