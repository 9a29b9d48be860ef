import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { LabelSelector } from "#api/meta/types.ts";
import { formatSelector, matcherOf, matcherOfPairs, parseSelector } from "./selector.ts";

describe("a selector as a text", () => {
  const labels = { app: "web", "example.com/tier": "2", empty: "" };
  it.each([
    ["", true],
    ["app=web", true],
    ["app==web", true],
    ["app = web , empty", true],
    ["app!=web", false],
    ["other!=web", true],
    ["app in (db, web)", true],
    ["app notin (db,web)", false],
    ["other notin (db)", true],
    ["app", true],
    ["!app", false],
    ["!other", true],
    ["example.com/tier>1", true],
    ["example.com/tier<2", false],
    ["app>1", false],
    ["empty=", true],
    ["app=web,other", false],
    ["constructor", false],
  ])("%s", (text, matches) => {
    expect(parseSelector(text)(labels)).toBe(matches);
  });
  it.each(["=web", "app=we b", "app in web", "app in (web", "a b", "app=a=b"])("refuses %s", (text) => {
    expect(() => parseSelector(text)).toThrow("cannot read");
  });
});

describe("a selector as an object", () => {
  it("matches nothing if it is absent and everything if it is empty", () => {
    expect(matcherOf(undefined)({ app: "web" })).toBe(false);
    expect(matcherOf({})({ app: "web" })).toBe(true);
    expect(matcherOf({})(undefined)).toBe(true);
  });
  it("of a Service matches nothing if it is empty", () => {
    expect(matcherOfPairs({})({ app: "web" })).toBe(false);
    expect(matcherOfPairs({ app: "web" })({ app: "web", tier: "2" })).toBe(true);
    expect(matcherOfPairs({ app: "web" })(undefined)).toBe(false);
  });
  it("is rejected if the values do not fit the operator", () => {
    expect(() => matcherOf({ matchExpressions: [{ key: "app", operator: "In" }] })).toThrow("needs values");
    const exists = { key: "app", operator: "Exists" as const, values: ["web"] };
    expect(() => matcherOf({ matchExpressions: [exists] })).toThrow("takes no values");
  });

  const key = fc.constantFrom("app", "tier", "example.com/zone");
  const value = fc.constantFrom("a", "b", "c-1");
  const expression = fc.oneof(
    fc.record({
      key,
      operator: fc.constantFrom("In" as const, "NotIn" as const),
      values: fc.array(value, { minLength: 1 }),
    }),
    fc.record({ key, operator: fc.constantFrom("Exists" as const, "DoesNotExist" as const) }),
  );
  const selector: fc.Arbitrary<LabelSelector> = fc.record(
    { matchLabels: fc.dictionary(key, value), matchExpressions: fc.array(expression, { maxLength: 3 }) },
    { requiredKeys: [] },
  );
  it("matches the same as its text form", () => {
    fc.assert(
      fc.property(selector, fc.dictionary(key, value), (it, labels) => {
        expect(parseSelector(formatSelector(it))(labels)).toBe(matcherOf(it)(labels));
      }),
    );
  });
});
