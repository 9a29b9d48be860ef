import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { canonicalQuantity } from "./canonical-quantity.ts";

describe("the canonical form of a quantity", () => {
  it.each([
    ["1", "1"],
    ["1000m", "1"],
    ["0.5", "500m"],
    [".5", "500m"],
    ["1500m", "1500m"],
    ["1024Mi", "1Gi"],
    ["1.5Gi", "1536Mi"],
    ["0.5Ki", "512"],
    ["1000", "1k"],
    ["100000Ki", "100000Ki"],
    ["1e3", "1e3"],
    ["10e3", "10e3"],
    ["1.5e6", "1500e3"],
    ["1E", "1E"],
    ["0Gi", "0"],
    ["-1000m", "-1"],
    ["0.0000000001", "1n"],
  ])("of %s is %s", (text, canonical) => {
    expect(canonicalQuantity(text)).toBe(canonical);
  });
  it.each(["", "1.2.3", "Gi", "1 Gi", "1gi", "1e", "1e9999", "0x10", "9".repeat(200)])(
    "does not exist for %j",
    (text) => {
      expect(canonicalQuantity(text)).toBeUndefined();
    },
  );
  it("is its own canonical form", () => {
    const suffix = fc.constantFrom("n", "u", "m", "", "k", "M", "Ki", "Mi", "Gi", "e3");
    fc.assert(
      fc.property(fc.nat(10_000_000), suffix, (amount, unit) => {
        const once = canonicalQuantity(`${amount}${unit}`) ?? "";
        expect(canonicalQuantity(once)).toBe(once);
      }),
    );
  });
});
