import { describe, expect, it } from "vitest";
import { ageOf, humanDuration } from "./duration.ts";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

describe("an age", () => {
  // The table of k8s.io/apimachinery, pkg/util/duration.
  it.each([
    [-2 * SECOND, "<invalid>"],
    [-1.9 * SECOND, "0s"],
    [SECOND, "1s"],
    [70 * SECOND, "70s"],
    [119 * SECOND, "119s"],
    [120 * SECOND, "2m"],
    [190 * SECOND, "3m10s"],
    [10 * MINUTE, "10m"],
    [70 * MINUTE, "70m"],
    [179 * MINUTE, "179m"],
    [3 * HOUR, "3h"],
    [4 * HOUR + 10 * MINUTE, "4h10m"],
    [8 * HOUR, "8h"],
    [47 * HOUR, "47h"],
    [48 * HOUR, "2d"],
    [49 * HOUR, "2d1h"],
    [8 * DAY, "8d"],
    [400 * DAY, "400d"],
    [729 * DAY, "729d"],
    [730 * DAY, "2y"],
    [2 * 365 * DAY + 10 * DAY, "2y10d"],
    [8 * 365 * DAY + 10 * DAY, "8y"],
    [23 * 365 * DAY, "23y"],
  ])("of %d ms is shown as %s", (ms, text) => {
    expect(humanDuration(ms)).toBe(text);
  });

  it("of no timestamp is unknown", () => {
    expect(ageOf(undefined, 0)).toBe("<unknown>");
    expect(ageOf("yesterday", 0)).toBe("<unknown>");
    expect(ageOf("2026-01-01T00:00:00Z", Date.UTC(2026, 0, 1, 0, 5))).toBe("5m");
  });
});
