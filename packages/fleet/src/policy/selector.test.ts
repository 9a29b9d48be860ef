import { describe, expect, it } from "vitest";
import { type Attribute, selectorOf, selects } from "./selector.ts";

const VALUES = ["b", "a", "", "z", "é", "10", "9", "\uD800"];

describe("a selector", () => {
  it.each(["In", "NotIn"] as const)(
    "finds values by %s as a list does, in whatever order they were written",
    (operator) => {
      for (let size = 1; size <= VALUES.length; size++) {
        const values = VALUES.slice(0, size);
        const selector = selectorOf([{ attribute: "pod:x", operator, values }]);
        for (const value of [...VALUES, "m", "0"])
          expect(selects(selector, () => value)).toBe(values.includes(value) === (operator === "In"));
      }
    },
  );

  it("has different keys for what differs, also with characters that keys are made of", () => {
    const odd = ["a", "a=b", "a,b", 'a"', "a&pod:y=b", "a?"];
    const keys = odd.flatMap((it) => [
      selectorOf([{ attribute: `pod:${it}`, operator: "Exists", values: [] }]).key,
      selectorOf([{ attribute: "pod:x", operator: "In", values: [it] }]).key,
      selectorOf([{ attribute: "pod:x", operator: "In", values: [it, "c"] }]).key,
    ]);
    expect(new Set(keys).size).toBe(keys.length);
  });

  it("needs no requirement that is always met", () => {
    const attributes: readonly Attribute[] = ["cluster", "namespace", "serviceaccount"];
    const requirements = attributes.map((attribute) => ({
      attribute,
      operator: "Exists" as const,
      values: [],
    }));
    expect(selectorOf(requirements)).toEqual({ key: "", requirements: [] });
  });
});
