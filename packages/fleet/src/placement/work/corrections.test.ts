import { expect, it } from "vitest";
import { afterCorrection, type Corrections, heldUntilMs } from "./corrections.ts";

it("an object that is changed again and again is put back after 1 s, then less and less often, up to every 15 min", () => {
  let corrections: Corrections | undefined;
  const waits: number[] = [];
  let nowMs = 0;
  for (let at = 0; at < 10; at += 1) {
    corrections = afterCorrection(corrections, nowMs);
    waits.push((heldUntilMs(corrections) - nowMs) / 1000);
    nowMs = heldUntilMs(corrections);
  }
  expect(waits).toEqual([1, 3, 9, 27, 81, 243, 729, 900, 900, 900]);
});

it("an object that was left alone for long is put back at once again", () => {
  const once = afterCorrection(undefined, 0);
  const twice = afterCorrection(once, 1000);
  expect(afterCorrection(twice, 4000 + 900_000).count).toBe(3);
  expect(afterCorrection(twice, 4001 + 900_000).count).toBe(1);
});
