import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { containsPrefix, overlaps, parsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import { withoutNested } from "./addresses.ts";
import { SourceRanges } from "./ranges.ts";

/** Prefixes that often lie inside one another. */
const range = fc
  .tuple(fc.nat(3), fc.nat(3))
  .chain(([a, b]) =>
    fc.constantFrom(
      "0.0.0.0/1",
      `${a}.0.0.0/8`,
      `${a}.${b}.0.0/16`,
      `${a}.${b}.${a}.0/24`,
      `${a}.${b}.0.${b}`,
    ),
  );
const parse = (text: string) => parsePrefix(text.includes("/") ? text : `${text}/32`);

describe("source ranges", () => {
  it("do not overlap after normalization, and cover the same addresses", () => {
    fc.assert(
      fc.property(fc.uniqueArray(range, { maxLength: 8 }), (ranges) => {
        const left = withoutNested(ranges).map(parse);
        for (const [at, a] of left.entries())
          for (const b of left.slice(at + 1)) expect(overlaps(a, b)).toBe(false);
        for (const it of ranges) expect(left.some((outer) => containsPrefix(outer, parse(it)))).toBe(true);
      }),
    );
  });

  it("of two Services at one address are joined, and those of the other stay when one is deleted", () => {
    const ranges = new SourceRanges();
    const element = (of: string) => ({ set: "allowed-4", key: `192.0.2.1 . tcp . 80 . ${of}`, value: "" });
    const other = { set: "guarded-4", key: "192.0.2.1 . tcp . 80", value: "" };
    expect(ranges.take(objectKey("a", "a"), [element("10.0.0.0/8"), other])).toEqual([other]);
    ranges.take(objectKey("b", "b"), [element("10.1.0.0/16")]);
    expect(ranges.takeChanged()).toEqual([element("10.0.0.0/8")]);
    expect(ranges.takeChanged()).toBeUndefined();
    ranges.take(objectKey("a", "a"), []);
    expect(ranges.takeChanged()).toEqual([element("10.1.0.0/16")]);
  });
});
