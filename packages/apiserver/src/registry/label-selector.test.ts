import { describe, expect, it } from "vitest";
import { parseLabelSelector } from "./label-selector.ts";

describe("a label selector", () => {
  it.each([
    ["a=b", { a: "b" }, true],
    ["a = b", { a: "b" }, true],
    ["a==b,c", { a: "b" }, false],
    ["a!=b", {}, true],
    ["a in (b,c),d notin (e)", { a: "c" }, true],
    ["a in (b)", { a: "" }, false],
    ["a in ()", { a: "" }, true],
    ["!a", { a: "" }, false],
    ["a", { a: "" }, true],
    ["a>2", { a: "10" }, true],
    ["a<2", { a: "x" }, false],
    ["example.io/a=b", { "example.io/a": "b" }, true],
    ["constructor", {}, false],
  ] as const)("%s on %o: %s", (selector, labels, expected) => {
    expect(parseLabelSelector(selector)(labels)).toBe(expected);
  });

  it.each(["a=b=c", "a in b", "(a)", "a=$", "/a", "a>b", ",", "a b"])("%s is refused", (selector) => {
    expect(() => parseLabelSelector(selector)).toThrow(expect.objectContaining({ code: 400 }));
  });

  it.each([
    ["n=(", "unable to parse requirement: found '(', expected: identifier"],
    ["n in 1", "unable to parse requirement: found '1' expected: '('"],
    ["n in (a b)", "unable to parse requirement: found 'b', expected: ',' or ')'"],
    ["n=a b", "found 'b', expected: ',' or 'end of string'"],
    ["n=1,", "found '', expected: identifier after ','"],
    ["!a=1", "found '=', expected: ',' or 'end of string'"],
  ])("%s is rejected with: %s", (selector, message) => {
    expect(() => parseLabelSelector(selector)).toThrow(message);
  });

  it("compares integers only", () => {
    const isBelow = parseLabelSelector("a<2");
    expect(["1", "", "x", "1.5", "2"].filter((it) => isBelow({ a: it }))).toEqual(["1"]);
  });
});
