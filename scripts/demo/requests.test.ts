import { describe, expect, it } from "vitest";
import { parseTry, summarizeOutage } from "./requests.ts";
import { countBy } from "./story.ts";

describe("a line of the request loop", () => {
  it("has the time at which the request began and the cluster that answered", () => {
    const line =
      '1700000000123 {"cluster":"member-1","pod":"hello-abc","clientAddress":"10.66.4.3","path":"/"}';
    expect(parseTry(line)).toEqual({
      startedAtMs: 1_700_000_000_123,
      cluster: "member-1",
      answer: { cluster: "member-1", pod: "hello-abc", clientAddress: "10.66.4.3" },
    });
  });
  it("counts as failed when curl failed or answered something else, and has what was printed", () => {
    for (const text of ["-", "<html>", "no answer after 2 s"])
      expect(parseTry(`1700000000123 ${text}`)).toEqual({ startedAtMs: 1_700_000_000_123, failure: text });
  });
  it("is left out when it is not one", () => {
    expect(parseTry("sh: curl: not found")).toBeUndefined();
  });
});

describe("an outage", () => {
  const at = (startedAtMs: number, cluster?: string) => ({ startedAtMs, cluster });
  it("counts only requests that began after the fault", () => {
    const tries = [at(0), at(100, "a"), at(200), at(300, "a")];
    expect(summarizeOutage(tries, 50)).toEqual({ failed: 1, total: 3, lastFailureAfterMs: 150 });
  });
  it("has no last failure when nothing failed", () => {
    expect(summarizeOutage([at(100, "a")], 50)).toEqual({
      failed: 0,
      total: 1,
      lastFailureAfterMs: undefined,
    });
  });
});

describe("a count", () => {
  it("names each by how often it occurs, in order of name", () => {
    expect(countBy(["b", "a", "b"])).toBe("1 by a, 2 by b");
  });
});
