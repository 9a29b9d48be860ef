import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatRecord } from "./record-text.ts";
import type { ResourceRecord } from "#wire/types.ts";
import { type Contribution, RecordTree, setOf } from "./tree.ts";

const label = fc.constantFrom("a", "b", "c");
const name = fc.array(label, { minLength: 1, maxLength: 4 }).map((labels) => `${labels.join(".")}.zone.`);
const a = (owner: string, address: number): ResourceRecord => ({
  name: owner,
  class: 1,
  ttl: 5,
  data: { type: "A", address },
});
const contribution: fc.Arbitrary<Contribution> = fc.record({
  records: fc.array(
    fc.tuple(name, fc.nat({ max: 3 })).map(([owner, address]) => a(owner, address)),
    { maxLength: 4 },
  ),
  names: fc.array(name, { maxLength: 2 }),
});

/** Every name that has an owner or one beneath it, worked out from scratch. */
function expected(owners: ReadonlyMap<string, Contribution>): Map<string, string[]> {
  const names = new Map<string, string[]>([["zone.", ["soa"]]]);
  for (const { records, names: bare = [] } of owners.values()) {
    const put = (of: string, record?: ResourceRecord): void => {
      for (let at = of; at !== "zone."; at = at.slice(at.indexOf(".") + 1))
        names.set(at, names.get(at) ?? []);
      if (record !== undefined) names.get(of)?.push(formatRecord(record));
    };
    for (const record of records) put(record.name, record);
    for (const of of bare) put(of);
  }
  return names;
}

describe("a record tree", () => {
  it("equals, after any changes, a tree that is built from scratch", () => {
    const change = fc.tuple(fc.constantFrom("x", "y", "z"), fc.option(contribution, { nil: undefined }));
    fc.assert(
      fc.property(fc.array(change, { maxLength: 12 }), name, (changes, probe) => {
        const tree = new RecordTree();
        tree.addZone({ origin: "zone.", negativeTtl: 5, serial: 1 });
        const owners = new Map<string, Contribution>();
        for (const [owner, wanted] of changes) {
          if (wanted === undefined) {
            tree.remove(owner);
            owners.delete(owner);
          } else {
            tree.put(owner, wanted);
            owners.set(owner, wanted);
          }
        }
        const want = expected(owners);
        for (const of of [probe, ...want.keys()]) {
          const sets = tree.find(of);
          expect(sets === undefined).toBe(!want.has(of));
          if (of === "zone.") continue;
          const got = (setOf(sets ?? [], 1)?.records ?? []).map(formatRecord);
          expect(got.toSorted()).toEqual((want.get(of) ?? []).toSorted());
        }
        expect(tree.size).toBe(want.size);
      }),
    );
  });

  it("computes lazy contributions when one of their names is asked for, once until they change", () => {
    const tree = new RecordTree();
    const x = { owner: "x", name: "x.zone." };
    let made = 0;
    const make = (records: readonly ResourceRecord[]) => (): Contribution => {
      made++;
      return { records };
    };
    tree.putLazily(x, make([a("a.b.x.zone.", 1)]));
    expect(tree.find("y.zone.")).toBeUndefined();
    expect(tree.find("zone.")).toEqual([]);
    expect(made).toBe(0);
    expect(tree.find("a.b.x.zone.")).toHaveLength(1);
    expect(tree.find("b.x.zone.")).toEqual([]);
    expect(made).toBe(1);
    tree.putLazily(x, make([]));
    expect(tree.find("x.zone.")).toBeUndefined();
    expect(made).toBe(2);
    tree.putLazily(x, make([]));
    tree.removeLazy(x);
    expect(tree.find("x.zone.")).toBeUndefined();
    expect([made, tree.size]).toEqual([2, 0]);
  });

  it("is empty again when every owner has left", () => {
    const tree = new RecordTree();
    tree.put("x", { records: [a("a.b.c.zone.", 1)], reserved: ["b.c.zone."] });
    expect(tree.size).toBe(4);
    tree.remove("x");
    expect(tree.size).toBe(0);
  });

  it("hides a reserved name, not what is beneath it, until a record makes it exist", () => {
    const tree = new RecordTree();
    tree.put("x", { records: [a("a.b.zone.", 1)], reserved: ["b.zone."] });
    expect(tree.find("b.zone.")).toBeUndefined();
    expect(tree.find("a.b.zone.")).toBeDefined();
    tree.put("y", { records: [a("b.zone.", 2)] });
    expect(tree.find("b.zone.")?.[0]?.records).toHaveLength(1);
  });

  it("finds the innermost zone", () => {
    const tree = new RecordTree();
    for (const origin of [".", "zone.", "b.zone."]) tree.addZone({ origin, negativeTtl: 5, serial: 1 });
    expect(tree.zoneOf("a.b.zone.")?.origin).toBe("b.zone.");
    expect(tree.zoneOf("bb.zone.")?.origin).toBe("zone.");
    expect(tree.zoneOf("other.")?.origin).toBe(".");
  });
});
