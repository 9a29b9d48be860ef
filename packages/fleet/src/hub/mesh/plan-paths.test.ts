import { describe, expect, it } from "vitest";
import { describePairs, pairsWithoutPath, unreachedFrom } from "./plan-paths.ts";

describe("the pairs of members without a path", () => {
  const pairs = (reached: Readonly<Record<string, readonly string[]>>) =>
    pairsWithoutPath(Object.keys(reached), (it) => new Set(reached[it]));

  it("are those of which a side does not report a tunnel that answers", () => {
    expect(pairs({ a: ["b", "c"], b: ["a"], c: ["a", "b"] })).toEqual([["b", "c"]]);
    expect(pairs({ a: ["b"], b: ["a"] })).toEqual([]);
    expect(pairs({ a: [], b: [] })).toEqual([["a", "b"]]);
    expect(pairs({ a: [] })).toEqual([]);
  });

  it("are named, the first ten of them", () => {
    const names = Array.from({ length: 6 }, (_, at) => `m${at}`);
    const all = pairsWithoutPath(names, () => new Set());
    expect(all).toHaveLength(15);
    expect(describePairs(all)).toMatch(/^no path between m0 and m1, .* and 5 more; see/);
    expect(unreachedFrom("m1", all)).toEqual(["m0", "m2", "m3", "m4", "m5"]);
    expect(describePairs(pairsWithoutPath(names.toReversed(), () => new Set()))).toBe(describePairs(all));
  });
});
