import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fakeExport, fakePort } from "./exports.fake.ts";
import { planStrictImport } from "./strict.ts";

const east = fakeExport("east", { createdAt: "2026-01-01T00:00:00Z" });
const west = fakeExport("west", { createdAt: "2026-01-02T00:00:00Z" });
const other = [fakePort("http", 8080)];
const clusters = (plan: ReturnType<typeof planStrictImport>): string[] =>
  (plan.status?.clusters ?? []).map((it) => it.cluster);

describe("the fleet API", () => {
  it("accepts every cluster with the same ports, in whatever order they are written", () => {
    const ports = [fakePort("a", 1), fakePort("b", 2)];
    const plan = planStrictImport(
      [fakeExport("east", { ports }), fakeExport("west", { ports: ports.toReversed() })],
      undefined,
    );
    expect(clusters(plan)).toEqual(["east", "west"]);
    expect([...plan.conflicts.values()]).toEqual([undefined, undefined]);
  });

  it("keeps out a cluster whose ports differ, and names the cluster that they differ from", () => {
    const plan = planStrictImport([{ ...west, ports: other }, east], undefined);
    expect(plan.status).toEqual({
      type: "ClusterSetIP",
      ports: [{ name: "http", protocol: "TCP", port: 80 }],
      clusters: [{ cluster: "east" }],
    });
    expect(plan.conflicts.get("west")).toBe(
      "the ports of work/hello in cluster west are http:TCP/8080, but those imported, from cluster east, are http:TCP/80",
    );
  });

  it("stays with the ports imported now although an older export comes to differ", () => {
    const now = planStrictImport([west], undefined).status;
    const plan = planStrictImport([{ ...east, ports: other }, west], now);
    expect(clusters(plan)).toEqual(["west"]);
    expect(plan.conflicts.get("east")).toBeDefined();
  });

  it("lets a sole exporter change its ports", () => {
    const now = planStrictImport([east], undefined).status;
    const plan = planStrictImport([{ ...east, ports: other }], now);
    expect(plan.status?.ports).toEqual([{ name: "http", protocol: "TCP", port: 8080 }]);
    expect(plan.conflicts.get("east")).toBeUndefined();
  });

  it("keeps out a cluster that changes its ports while others keep theirs, and readmits it afterwards", () => {
    const now = planStrictImport([east, west], undefined).status;
    const changed = planStrictImport([{ ...east, ports: other }, west], now);
    expect(clusters(changed)).toEqual(["west"]);
    expect(clusters(planStrictImport([east, west], changed.status))).toEqual(["east", "west"]);
  });

  it("passes to the oldest of the others when the incumbents are deleted", () => {
    const now = planStrictImport([east, { ...west, ports: other }], undefined).status;
    expect(clusters(planStrictImport([{ ...west, ports: other }], now))).toEqual(["west"]);
  });

  it("neither admits a headless export to a virtual address nor reports a conflict to it", () => {
    const plan = planStrictImport([{ ...east, headless: true }, west], undefined);
    expect(clusters(plan)).toEqual(["west"]);
    expect(plan.conflicts.has("east")).toBe(false);
    expect(planStrictImport([{ ...east, headless: true }], undefined).status?.type).toBe("Headless");
  });

  it("imports nothing where nothing is exported", () => {
    expect(planStrictImport([], { clusters: [{ cluster: "east" }] }).status).toBeUndefined();
  });

  const anyExports = fc.uniqueArray(fc.constantFrom("a", "b", "c", "d"), { maxLength: 4 }).chain((names) =>
    fc.tuple(
      ...names.map((name) =>
        fc.tuple(fc.integer({ min: 0, max: 2 }), fc.constantFrom(80, 81, 82)).map(([second, number]) =>
          fakeExport(name, {
            createdAt: `2026-01-01T00:00:0${second}Z`,
            ports: [fakePort("http", number)],
          }),
        ),
      ),
    ),
  );

  it("converges: planning again on its own result changes nothing, in any order of exports", () => {
    fc.assert(
      fc.property(anyExports, anyExports, (before, after) => {
        const first = planStrictImport(after, planStrictImport(before, undefined).status);
        const again = planStrictImport(after.toReversed(), first.status);
        expect(again.status).toEqual(first.status);
        expect(new Map(again.conflicts)).toEqual(new Map(first.conflicts));
      }),
    );
  });

  it("accepts exactly the clusters that have no conflict, and at least one of them", () => {
    fc.assert(
      fc.property(anyExports, anyExports, (before, after) => {
        const plan = planStrictImport(after, planStrictImport(before, undefined).status);
        const fine = [...plan.conflicts]
          .filter(([, conflict]) => conflict === undefined)
          .map(([name]) => name);
        expect(clusters(plan)).toEqual(fine.toSorted());
        expect(fine.length > 0).toBe(after.length > 0);
      }),
    );
  });
});
