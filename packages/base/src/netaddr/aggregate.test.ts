import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { aggregated, overlapping } from "./aggregate.ts";
import { containsAddress, formatPrefix, parsePrefix, prefixOf } from "./prefix.ts";

const texts = (...all: string[]): string[] => aggregated(all.map((it) => parsePrefix(it))).map(formatPrefix);

describe("prefixes that are aggregated", () => {
  it("are without those in others, with halves joined, IPv4 first", () => {
    expect(texts("fd00::/64", "10.0.1.0/24", "10.0.0.0/24", "10.0.1.7/32", "10.0.3.0/24")).toEqual([
      "10.0.0.0/23",
      "10.0.3.0/24",
      "fd00::/64",
    ]);
    expect(texts("0.0.0.0/1", "128.0.0.0/1", "::/0")).toEqual(["0.0.0.0/0", "::/0"]);
    expect(texts("10.0.1.0/24", "10.0.2.0/24")).toEqual(["10.0.1.0/24", "10.0.2.0/24"]);
  });

  it("hold the addresses that they held, and no others", () => {
    const prefix = fc
      .tuple(fc.integer({ min: 0, max: 63 }), fc.integer({ min: 26, max: 32 }))
      .map(([address, length]) => prefixOf(address, length));
    fc.assert(
      fc.property(fc.array(prefix, { maxLength: 12 }), (before) => {
        const after = aggregated(before);
        for (let address = 0; address < 64; address++)
          expect(after.filter((it) => containsAddress(it, address)).length).toBe(
            before.some((it) => containsAddress(it, address)) ? 1 : 0,
          );
      }),
    );
  });
});

it("prefixes of a list that overlap one are those that hold it, or that it holds", () => {
  const all = aggregated(
    ["10.0.0.0/24", "10.0.2.0/24", "10.1.0.0/16", "10.9.0.0/16", "fd00::/64", "fd00:1::/64"].map((it) =>
      parsePrefix(it),
    ),
  );
  const found = (text: string): string[] => overlapping(all, parsePrefix(text)).map(formatPrefix);
  expect(found("10.1.7.0/24")).toEqual(["10.1.0.0/16"]);
  expect(found("10.0.0.0/15")).toEqual(["10.0.0.0/24", "10.0.2.0/24", "10.1.0.0/16"]);
  expect([found("10.0.1.0/24"), found("9.0.0.0/8"), found("11.0.0.0/8")]).toEqual([[], [], []]);
  expect(found("fd00::5/128")).toEqual(["fd00::/64"]);
  expect(found("::/0")).toEqual(["fd00::/64", "fd00:1::/64"]);
  expect(found("0.0.0.0/0")).toHaveLength(4);
});
