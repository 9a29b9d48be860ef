import { describe, expect, it } from "vitest";
import type { Condition } from "#api/meta/types.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { isConditionTrue, microTimestamp, removeCondition, setCondition } from "./conditions.ts";

const clock = new FakeClock(Date.UTC(2026, 0, 2, 3, 4, 5, 678));
const ready: Condition = {
  type: "Ready",
  status: "True",
  reason: "Serving",
  message: "",
  lastTransitionTime: "2026-01-01T00:00:00Z",
};

describe("setting a condition", () => {
  it("returns the same array if nothing changes", () => {
    const conditions = [ready];
    const { lastTransitionTime: _, ...same } = ready;
    expect(setCondition(conditions, same, clock)).toBe(conditions);
  });
  it("updates lastTransitionTime only if the status changes", () => {
    const [reworded] = setCondition([ready], { ...ready, message: "all of it" }, clock);
    expect(reworded).toEqual({ ...ready, message: "all of it" });
    const [failed] = setCondition([ready], { ...ready, status: "False" }, clock);
    expect(failed?.lastTransitionTime).toBe("2026-01-02T03:04:05Z");
  });
  it("does not change other conditions, their order, or the given array", () => {
    const other = { ...ready, type: "Other" };
    const conditions = [ready, other];
    const next = setCondition(conditions, { ...ready, status: "False" }, clock);
    expect(next.map((it) => it.type)).toEqual(["Ready", "Other"]);
    expect(conditions).toEqual([ready, other]);
  });
  it("adds a condition to an empty list", () => {
    const { lastTransitionTime: _, ...first } = ready;
    const conditions = setCondition<Condition>(undefined, first, clock);
    expect(isConditionTrue(conditions, "Ready")).toBe(true);
    expect(removeCondition(conditions, "Ready")).toEqual([]);
    expect(removeCondition(conditions, "Other")).toBe(conditions);
  });
});

describe("a MicroTime", () => {
  it("has exactly six fractional digits", () => {
    expect(microTimestamp(clock.now())).toBe("2026-01-02T03:04:05.678000Z");
  });
});
