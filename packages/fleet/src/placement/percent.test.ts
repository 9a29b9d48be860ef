import { expect, it } from "vitest";
import { roundedUp } from "./percent.ts";

it.each([
  [3, 10, 3],
  ["3", 10, 3],
  ["25%", 10, 3],
  ["25%", 4, 1],
  ["25%", 1, 1],
  ["0%", 10, 0],
  ["100%", 7, 7],
  ["25%", 0, 0],
])("%s of %i clusters are %i: percentages round up", (amount, total, count) => {
  expect(roundedUp(amount, total)).toBe(count);
});
