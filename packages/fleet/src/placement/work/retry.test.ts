import { expect, it } from "vitest";
import { retryDelayMs } from "./retry.ts";

const delays = (isSettled: boolean, count: number): number[] =>
  Array.from({ length: count }, (_, at) => Math.round(retryDelayMs(at + 1, isSettled) / 100) / 10);

it("a Work that is not available is looked at after 5 s, then from every 2 s to 15 s by 1.2, then to 900 s by 1.5", () => {
  expect(delays(false, 14)).toEqual([5, 2, 2.4, 2.9, 3.5, 4.1, 5, 6, 7.2, 8.6, 10.3, 12.4, 14.9, 22.5]);
  expect(delays(false, 30).slice(-3)).toEqual([900, 900, 900]);
  const fast = delays(false, 24).slice(13);
  expect(fast.every((it, at) => at === 0 || it >= (fast[at - 1] ?? 0))).toBe(true);
});

it("an available Work begins with the fast growth", () => {
  expect(delays(true, 4)).toEqual([22.5, 33.8, 50.6, 75.9]);
  expect(retryDelayMs(1_000_000, true)).toBe(900_000);
});
