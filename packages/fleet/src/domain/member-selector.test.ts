import { describe, expect, it } from "vitest";
import { memberMatcher, parsePairs } from "./member-selector.ts";

describe("the text of a member selector", () => {
  it.each([
    ["env=prod", { env: "prod" }],
    [" env = prod , example.com/tier=web ", { env: "prod", "example.com/tier": "web" }],
    ["env=prod,env=prod", { env: "prod" }],
    ["env=", { env: "" }],
    ["", {}],
  ])("%j is read as pairs that all have to match", (text, pairs) => {
    expect(parsePairs(text)).toEqual(pairs);
  });

  it.each(["env", "env==prod", "env!=prod", "env in (a,b)", "=prod", "env=a,,x=b", "env=a b", "env=a,env=b"])(
    "%j is refused with the part that cannot be read",
    (text) => {
      expect(() => parsePairs(text)).toThrow(/is not a pair|has two values/);
    },
  );

  it("selects the members with all pairs, and none if it is empty", () => {
    const matches = memberMatcher({ byLabel: "env=prod,tier=web" });
    expect([matches({ env: "prod", tier: "web", x: "y" }), matches({ env: "prod" })]).toEqual([true, false]);
    expect(memberMatcher({ byLabel: "" })({ env: "prod" })).toBe(false);
  });

  it("is not combined with a label selector, which selects everybody if it is empty", () => {
    expect(() => memberMatcher({ byLabel: "a=b", matchLabels: { a: "b" } })).toThrow("byLabel");
    expect(memberMatcher({})({})).toBe(true);
  });
});
