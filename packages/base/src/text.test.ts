import * as fc from "fast-check";
import { expect, it } from "vitest";
import { byNaturalText, nearest } from "./text.ts";

it("the nearest word differs in a few letters, or there is none", () => {
  const words = ["status", "join", "leave", "drain"];
  expect(["stauts", "jion", "leve", "status", "xyz", ""].map((it) => nearest(it, words))).toEqual([
    "status",
    "join",
    "leave",
    "status",
    undefined,
    undefined,
  ]);
});

it("natural order counts numbers in names", () => {
  const names = ["member-1", "member-2", "member-10", "member-11", "other", "other-1", "other-1-a"];
  fc.assert(
    fc.property(fc.shuffledSubarray(names, { minLength: names.length }), (mixed) => {
      expect(mixed.toSorted(byNaturalText)).toEqual(names);
    }),
  );
});

it("natural order is total and antisymmetric for distinct texts", () => {
  const part = fc.constantFrom("a", "b", "-", "0", "1", "01", "9");
  const text = fc.array(part, { maxLength: 6 }).map((it) => it.join(""));
  fc.assert(
    fc.property(text, text, (a, b) => {
      expect(Math.sign(byNaturalText(a, b))).toBe(-Math.sign(byNaturalText(b, a)) + 0);
      expect(byNaturalText(a, b) === 0).toBe(a === b);
    }),
  );
});
