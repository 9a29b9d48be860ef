import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { DesiredElements } from "./desired.ts";
import type { PlannedElement } from "./plan.ts";

const element = fc.record({
  set: fc.constantFrom("a", "b"),
  key: fc.constantFrom("1", "2", "3"),
  value: fc.constantFrom("", "x", "y"),
});
const step = fc.record({
  owner: fc.constantFrom("o1", "o2", "o3"),
  elements: fc.uniqueArray(element, { selector: (it) => `${it.set} ${it.key}`, maxLength: 6 }),
});

/** The desired elements, computed from scratch. */
function fromScratch(wanted: ReadonlyMap<string, readonly PlannedElement[]>): Map<string, string> {
  const result = new Map<string, string>();
  for (const [, elements] of [...wanted].toSorted(([a], [b]) => (a < b ? 1 : -1)))
    for (const it of elements) result.set(`${it.set} ${it.key}`, it.value);
  return result;
}

function flat(desired: DesiredElements): Map<string, string> {
  return new Map(
    [...desired.elements].flatMap(([set, values]) =>
      [...values].map(([key, value]) => [`${set} ${key}`, value] as const),
    ),
  );
}

describe("elements that several owners want", () => {
  it("are those of the first owner by name, whatever the order of changes, and every change is reported", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
        const desired = new DesiredElements();
        const wanted = new Map<string, readonly PlannedElement[]>();
        for (const { owner, elements } of steps) {
          const before = flat(desired);
          desired.set(owner, elements);
          wanted.set(owner, elements);
          const after = flat(desired);
          expect(after).toEqual(fromScratch(wanted));
          const reported = new Set(
            [...desired.takeChanged()].flatMap(([set, keys]) => [...keys].map((key) => `${set} ${key}`)),
          );
          for (const id of new Set([...before.keys(), ...after.keys()]))
            if (before.get(id) !== after.get(id)) expect(reported).toContain(id);
        }
      }),
    );
  });

  it("reports nothing for an owner that wants the same again", () => {
    fc.assert(
      fc.property(step, ({ owner, elements }) => {
        const desired = new DesiredElements();
        desired.set(owner, elements);
        desired.takeChanged();
        desired.set(owner, elements);
        expect(desired.takeChanged().size).toBe(0);
      }),
    );
  });
});
