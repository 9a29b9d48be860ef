import { describe, expect, it } from "vitest";
import { parseDuration } from "./duration.ts";

describe("a duration", () => {
  it.each([
    ["0", 0],
    ["0s", 0],
    ["10m", 600_000],
    ["1h30m", 5_400_000],
    ["1.5s", 1500],
    [".5s", 500],
    ["+1m", 60_000],
    ["250ms", 250],
    ["2us", 0.002],
  ])("%s is %d milliseconds", (text, expected) => {
    expect(parseDuration(text)).toBeCloseTo(expected, 9);
  });

  it.each(["", "10", "m", "-1s", "1d", "1 s", "1s ", "s1", "1..5s", "+", `${"1".repeat(100)}s`])(
    "cannot be read from %j",
    (text) => {
      expect(parseDuration(text)).toBeUndefined();
    },
  );
});
