import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { aggregated } from "./aggregate.ts";
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
