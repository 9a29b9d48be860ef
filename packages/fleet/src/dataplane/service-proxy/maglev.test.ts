import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { assignSlots, tableSize, weighedTableSize } from "./maglev.ts";

const backends = fc.uniqueArray(
  fc.nat(9999).map((n) => `10.0.${n >> 8}.${n & 255} . 80`),
  { minLength: 1, maxLength: 40 },
);

describe("a table of slots for affinity", () => {
  it("gives every backend the same share, to one slot", () => {
    fc.assert(
      fc.property(backends, (list) => {
        const counts = new Map(list.map((it) => [it, 0]));
        for (const it of assignSlots(list, tableSize(list.length))) counts.set(it, (counts.get(it) ?? 0) + 1);
        expect(counts.size).toBe(list.length);
        expect(Math.max(...counts.values()) - Math.min(...counts.values())).toBeLessThanOrEqual(1);
      }),
    );
  });

  it("does not depend on the order of the backends", () => {
    fc.assert(
      fc.property(backends, (list) => {
        expect(assignSlots(list.toReversed(), 61)).toEqual(assignSlots(list, 61));
      }),
    );
  });

  it("moves few clients of other backends when one goes", () => {
    const list = Array.from({ length: 6 }, (_, at) => `10.0.0.${at} . 80`);
    const before = assignSlots(list, 61);
    const after = assignSlots(list.slice(1), 61);
    const moved = before.filter((it, at) => it !== list[0] && it !== after[at]).length;
    expect(moved).toBeLessThan(61 / 4);
  });

  it("has at least ten slots for each backend up to 6 500 of them", () => {
    for (const count of [1, 6, 7, 102, 103, 819, 820, 6500])
      expect(tableSize(count)).toBeGreaterThanOrEqual(10 * count);
  });

  it("gives backends their shares by weight, to one slot, and each at least one", () => {
    const weighed = fc.uniqueArray(fc.tuple(fc.nat(99), fc.integer({ min: 1, max: 1000 })), {
      minLength: 1,
      maxLength: 30,
      selector: ([at]) => at,
    });
    fc.assert(
      fc.property(weighed, (list) => {
        const weights = new Map(list.map(([at, weight]) => [`10.0.0.${at} . 80`, weight]));
        const size = weighedTableSize(weights);
        const slots = assignSlots([...weights.keys()], size, weights);
        const total = list.reduce((sum, [, weight]) => sum + weight, 0);
        for (const [backend, weight] of weights) {
          const count = slots.filter((it) => it === backend).length;
          expect(count).toBeGreaterThanOrEqual(1);
          expect(Math.abs(count / size - weight / total)).toBeLessThan((weights.size + 1) / size);
        }
        expect(slots).toHaveLength(size);
      }),
      { numRuns: 30 },
    );
  });
});
