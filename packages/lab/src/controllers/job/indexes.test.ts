import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { IndexSet } from "./indexes.ts";

const indexes = fc.uniqueArray(fc.integer({ min: 0, max: 40 }));

describe("a set of completion indexes", () => {
  it("is written as the API has it: neighbours by a comma, longer runs by a dash", () => {
    expect(IndexSet.of([7, 1, 3, 4, 5]).toString()).toBe("1,3-5,7");
    expect(IndexSet.of([2, 1]).toString()).toBe("1,2");
  });

  it("omits indexes that the Job no longer has, and invalid text", () => {
    expect(IndexSet.parse("0,2-9,x,12", 5).toString()).toBe("0,2-4");
  });

  it("holds what was put in, after being written and read", () => {
    fc.assert(
      fc.property(indexes, (some) => {
        const set = IndexSet.parse(IndexSet.of(some).toString(), 100);
        expect(set.size).toBe(some.length);
        for (let at = 0; at <= 41; at++) expect(set.has(at)).toBe(some.includes(at));
      }),
    );
  });

  it("joins and compares like a set, and names the first that are missing", () => {
    fc.assert(
      fc.property(indexes, indexes, fc.nat(10), (a, b, count) => {
        const [left, right] = [IndexSet.of(a), IndexSet.of(b)];
        expect(left.overlap(right)).toBe(a.filter((it) => b.includes(it)).length);
        const both = new Set([...a, ...b]);
        expect(left.union(right).size).toBe(both.size);
        const free = Array.from({ length: 30 }, (_, at) => at).filter((at) => !both.has(at));
        expect(left.union(right).missing(count, 30)).toEqual(free.slice(0, count));
      }),
    );
  });
});
