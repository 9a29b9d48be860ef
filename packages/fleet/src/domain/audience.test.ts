import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { mergeForAudiences, strangersOf } from "./audience.ts";
import { isFor } from "./exported-service.ts";
import { fakeExport, fakePort } from "./exports.fake.ts";
import { mergeExports } from "./merge.ts";

const MEMBERS = new Set(["a", "b", "c", "d"]);
const clustersOf = (spec: { clusters: readonly { cluster: string }[] } | undefined) =>
  spec?.clusters.map((it) => it.cluster);

describe("a service exported to some members only (C3)", () => {
  const open = fakeExport("a", { createdAt: "2026-01-02T00:00:00Z" });
  const narrow = fakeExport("b", {
    createdAt: "2026-01-01T00:00:00Z",
    exportTo: ["c"],
    ports: [fakePort("http", 80), fakePort("debug", 6060)],
  });

  it("with exportTo, listed members and the exporter see every export, other members only unrestricted ones", () => {
    const { everyone, special } = mergeForAudiences([open, narrow], MEMBERS);
    expect(clustersOf(everyone)).toEqual(["a"]);
    expect([...special.keys()]).toEqual(["b", "c"]);
    expect(clustersOf(special.get("c"))).toEqual(["a", "b"]);
  });

  it("shows nothing of itself to the others: neither ports nor that it is older", () => {
    const { everyone, special } = mergeForAudiences([open, narrow], MEMBERS);
    expect(everyone).toEqual(mergeExports([open])?.spec);
    expect(special.get("c")?.ports.map((it) => it.name)).toEqual(["http", "debug"]);
  });

  it("does not exist for members that no export is for", () => {
    const { everyone, special } = mergeForAudiences([narrow], MEMBERS);
    expect(everyone).toBeUndefined();
    expect([...special.keys()]).toEqual(["b", "c"]);
  });

  it("ignores names that are not members, and reports them", () => {
    const typo = { ...narrow, exportTo: ["c", "x", "e"] };
    expect([...mergeForAudiences([typo], MEMBERS).special.keys()]).toEqual(["b", "c"]);
    expect(strangersOf(typo, MEMBERS)).toEqual(["e", "x"]);
    expect(strangersOf(open, MEMBERS)).toEqual([]);
  });

  it("is for every member the merge of the exports that are for it, whatever else is exported", () => {
    const someone = fc.constantFrom(...MEMBERS);
    const anyExports = fc.uniqueArray(
      fc.record({ cluster: someone, exportTo: fc.option(fc.uniqueArray(someone), { nil: undefined }) }),
      { selector: (it) => it.cluster },
    );
    fc.assert(
      fc.property(anyExports, (all) => {
        const exports = all.map(({ cluster, exportTo }) => fakeExport(cluster, { exportTo }));
        const { everyone, special } = mergeForAudiences(exports, MEMBERS);
        for (const member of MEMBERS) {
          const seen = mergeExports(exports.filter((it) => isFor(it, member)))?.spec;
          expect(special.get(member) ?? everyone).toEqual(seen);
        }
      }),
    );
  });
});

describe("exports that share out their service differently (C3)", () => {
  it("are merged with what differs from the defaults, by cluster", () => {
    const merged = mergeExports([
      fakeExport("a", { weight: 1, priority: 0 }),
      fakeExport("b", { weight: 0, priority: 2 }),
    ]);
    expect(merged?.spec.clusters).toMatchObject([{ cluster: "a" }, { cluster: "b", weight: 0, priority: 2 }]);
    expect(merged?.spec.clusters[0]).not.toHaveProperty("weight");
  });

  it("have the locality of the oldest export that asks for one; the other exports get a conflict", () => {
    const exports = [
      fakeExport("a", { createdAt: "2026-01-01T00:00:00Z" }),
      fakeExport("b", { createdAt: "2026-01-02T00:00:00Z", affinity: "local" }),
      fakeExport("c", { createdAt: "2026-01-03T00:00:00Z", affinity: "remote" }),
    ];
    const merged = mergeExports(exports);
    expect(merged?.spec.affinity).toBe("local");
    expect(merged?.affinityConflict).toBe("affinities differ: b has local and wins; c has remote");
    expect(merged?.conflicts).toEqual([]);
    expect(mergeExports(exports.slice(0, 2))?.affinityConflict).toBeUndefined();
  });
});
