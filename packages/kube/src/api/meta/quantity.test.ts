import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { countQuantity, parseQuantity } from "./quantity.ts";

const ONE = 10n ** 9n;

describe("a quantity", () => {
  it.each<[unknown, bigint | undefined]>([
    ["1", ONE],
    [2, 2n * ONE],
    ["500m", ONE / 2n],
    ["0.5", ONE / 2n],
    [".5", ONE / 2n],
    ["1.", ONE],
    ["-1", -ONE],
    ["1k", 1000n * ONE],
    ["1Ki", 1024n * ONE],
    ["1.5Gi", 1536n * 1024n * 1024n * ONE],
    ["1E", 10n ** 18n * ONE],
    ["1e3", 1000n * ONE],
    ["1E-3", ONE / 1000n],
    ["1n", 1n],
    ["0.1n", 1n],
    ["", undefined],
    ["1KiB", undefined],
    ["1 Gi", undefined],
    ["abc", undefined],
    ["1e999999999", undefined],
    [null, undefined],
  ])("%j is %s", (text, expected) => {
    expect(parseQuantity(text)).toBe(expected);
  });

  it("has the same value in all of its forms", () => {
    fc.assert(
      fc.property(fc.nat({ max: 10 ** 9 }), (count) => {
        expect(parseQuantity(`${count}k`)).toBe(parseQuantity(`${count}000`));
        expect(parseQuantity(`${count}000m`)).toBe(parseQuantity(count));
        expect(parseQuantity(`${count}Mi`)).toBe(parseQuantity(`${count * 1024}Ki`));
      }),
    );
  });

  it.each([
    ["1100m", 1000, 1100],
    ["1.1", 1000, 1100],
    ["100u", 1000, 1],
    ["1.5Gi", 1, 1.5 * 2 ** 30],
    ["1", undefined, 1],
    ["1m", undefined, 1],
    ["8Pi", 1, 2 ** 53],
    ["a", 1, undefined],
  ])("%s in parts of 1/%s is %s, rounded up", (text, parts, count) => {
    expect(countQuantity(text, parts)).toBe(count);
  });
});
