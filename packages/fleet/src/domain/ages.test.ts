import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { byAge } from "./exported-service.ts";
import { fakeExport } from "./exports.fake.ts";
import { type Ages, type NewExport, parseAges, planAges, renderAges, withAge } from "./ages.ts";

const at = (second: number): string =>
  `${new Date(Date.UTC(2026, 5, 1) + second * 1000).toISOString().slice(0, 19)}Z`;
const LONG_AGO = "1970-01-01T00:00:00Z";

function came(cluster: string, seen: number, said = at(seen)): NewExport {
  return { model: fakeExport(cluster, { createdAt: said }), seenAt: at(seen) };
}
/** Oldest first. */
function order(ages: Ages, exports: readonly NewExport[]): string {
  return exports
    .map((it) => withAge(it.model, ages))
    .toSorted(byAge)
    .map((it) => it.cluster)
    .join(" ");
}
const NONE: Ages = new Map();

describe("the age of an export", () => {
  it("is that of its ServiceExport if it arrived promptly, in any order of arrival", () => {
    const exports = [came("b", 5, at(4)), came("a", 7, at(3)), came("c", 6, at(3))];
    expect(order(planAges(NONE, exports), exports)).toBe("a c b");
  });

  it.each([LONG_AGO, at(-3600), at(-60), "2025-01-01T00:00:00+14:00", "no time"])(
    "of %s, from a newcomer, is not believed: it comes after all that were there",
    (said) => {
      const victim = came("z", 100, at(-7200));
      const ages = planAges(NONE, [victim]);
      const all = [victim, came("a", 100, said)];
      expect(order(planAges(ages, all), all)).toBe("z a");
      expect(order(planAges(NONE, [came("z", 99), came("a", 100, said)]), all)).toBe("z a");
    },
  );

  it("is kept for a cluster that withdraws and repeats its export, and for a recreated hub object", () => {
    const first = planAges(NONE, [came("a", 0), came("b", 50)]);
    const alone = planAges(first, [came("b", 50)]);
    const again = [came("a", 900, at(0)), came("b", 50)];
    expect(order(planAges(alone, again), again)).toBe("a b");
  });

  it("is younger if the ServiceExport was recreated, and in the future if a clock is fast", () => {
    const first = planAges(NONE, [came("a", 0), came("b", 50)]);
    const again = [came("a", 900), came("b", 50)];
    expect(order(planAges(first, again), again)).toBe("b a");
    const fast = [came("b", 50), came("c", 60, at(86_400))];
    expect(order(planAges(first, fast), fast)).toBe("b c");
  });

  it("stays as it was where a hub takes over that went by what members say", () => {
    const exports = [came("b", 50), came("a", 900, LONG_AGO)];
    expect(order(planAges(undefined, exports), exports)).toBe("a b");
  });

  it("is the order in which they came, where a hub lost all it knew and dates are old", () => {
    const exports = [came("b", 900, at(1)), came("a", 902, at(0)), came("c", 901, at(2))];
    expect(order(planAges(NONE, exports), exports)).toBe("b c a");
  });

  it("does not change with later claims of a member, nor with another reconcile", () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.constantFrom("a", "b", "c"), fc.nat(200), fc.integer({ min: -500, max: 0 }))),
        fc.integer({ min: -10_000, max: -100 }),
        (said, past) => {
          const exports = [
            ...new Map(said.map(([name, seen, by]) => [name, came(name, seen, at(seen + by))])).values(),
          ];
          const ages = planAges(NONE, exports);
          expect(planAges(ages, exports)).toEqual(ages);
          expect(planAges(parseAges(renderAges(ages)), exports)).toEqual(ages);
          for (const { model } of exports) {
            const known = ages.get(model.cluster);
            expect(withAge({ ...model, createdAt: at(past) }, ages).createdAt).toBe(known);
          }
        },
      ),
    );
  });

  it("is not remembered of more clusters than a fleet has, those first that export", () => {
    const gone = new Map(Array.from({ length: 1500 }, (_, index) => [`gone-${index}`, at(index)] as const));
    const ages = planAges(gone, [came("a", 0)]);
    expect(ages.size).toBe(1000);
    expect(ages.has("a")).toBe(true);
  });

  it("is unknown if the annotation cannot be parsed", () => {
    expect(parseAges("{")).toEqual(new Map());
    expect(parseAges('{"a":1,"b":"x","c":"2026-01-01T00:00:00Z"}')).toEqual(
      new Map([["c", "2026-01-01T00:00:00Z"]]),
    );
    expect(parseAges(undefined)).toBeUndefined();
  });
});
