import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { canonicalQuantity } from "#api/meta/canonical-quantity.ts";
import { type Amounts, amountsAt, excess, largest, roundUp, sameAmounts, sum, textsOf } from "./amounts.ts";

const quantity = fc
  .tuple(fc.nat(1_000_000), fc.constantFrom("", "m", "k", "M", "Ki", "Mi", "Gi", "e3"))
  .map(([value, suffix]) => `${value}${suffix}`);
const amounts = fc
  .dictionary(fc.constantFrom("cpu", "memory", "pods"), quantity)
  .map((list) => amountsAt({ list }, "list"));
const of = (list: Readonly<Record<string, string>>): Amounts => amountsAt({ list }, "list");
const one = (text: string) => of({ a: text });

describe("amounts", () => {
  it("are written as the API server writes them", () => {
    fc.assert(
      fc.property(quantity, (text) => {
        expect(textsOf(one(text))).toEqual({ a: canonicalQuantity(text) });
      }),
    );
  });

  it("keep the format of the first that is not zero", () => {
    expect(textsOf(sum(one("1Gi"), one("1024")))).toEqual({ a: "1048577Ki" });
    expect(textsOf(sum(one("0"), one("1Gi")))).toEqual({ a: "1Gi" });
    expect(textsOf(sum(one("1e3"), one("1k")))).toEqual({ a: "2e3" });
  });

  it("have the same sum in any order", () => {
    fc.assert(
      fc.property(amounts, amounts, amounts, (a, b, c) => {
        expect(sameAmounts(sum(a, sum(b, c)), sum(sum(c, b), a))).toBe(true);
      }),
    );
  });

  it("exceed a smaller amount by the difference, and do not exceed themselves", () => {
    fc.assert(
      fc.property(amounts, amounts, (a, b) => {
        const all = sum(a, b);
        expect(sameAmounts(sum(excess(all, b), b), all)).toBe(true);
        expect(sameAmounts(largest(all, a), all)).toBe(true);
        expect([...excess(a, a).values()].every(({ nanos }) => nanos === 0n)).toBe(true);
      }),
    );
  });

  it("of bytes are whole numbers", () => {
    const { nanos } = roundUp(one("1500m").get("a") ?? { nanos: 0n, suffix: "" });
    expect(nanos).toBe(2n * 10n ** 9n);
  });
});
