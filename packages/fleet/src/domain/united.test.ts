import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { ModelPort } from "./exported-service.ts";
import { fakeExport, fakePort } from "./exports.fake.ts";
import { planStrictImport } from "./strict.ts";

const old = (ports: readonly ModelPort[], unitesPorts = true) =>
  fakeExport("east", { createdAt: "2026-01-01T00:00:00Z", ports, unitesPorts });
const young = (ports: readonly ModelPort[], unitesPorts = true) =>
  fakeExport("west", { createdAt: "2026-01-02T00:00:00Z", ports, unitesPorts });
const http = fakePort("http", 80);
const admin = fakePort("admin", 9000);

describe("A8: the fleet API with united ports", () => {
  it("imports the ports of all, each from the clusters that have it", () => {
    const plan = planStrictImport([young([http, admin]), old([http])], undefined);
    expect(plan.status).toEqual({
      type: "ClusterSetIP",
      ports: [
        { name: "http", protocol: "TCP", port: 80 },
        { name: "admin", protocol: "TCP", port: 9000 },
      ],
      clusters: [
        { cluster: "east", ports: [{ name: "http", importedAs: "http" }] },
        {
          cluster: "west",
          ports: [
            { name: "http", importedAs: "http" },
            { name: "admin", importedAs: "admin" },
          ],
        },
      ],
    });
    expect([...plan.conflicts.values()]).toEqual([undefined, undefined]);
  });

  it("keeps out only the port whose name conflicts with an older export, and names both and the reason", () => {
    const plan = planStrictImport([young([fakePort("http", 8080), admin]), old([http])], undefined);
    expect(plan.status?.clusters).toEqual([
      { cluster: "east", ports: [{ name: "http", importedAs: "http" }] },
      { cluster: "west", ports: [{ name: "admin", importedAs: "admin" }] },
    ]);
    expect(plan.conflicts.get("east")).toBeUndefined();
    expect(plan.conflicts.get("west")).toBe(
      "port http of work/hello is TCP/8080 in cluster west and TCP/80 in cluster east, whose export is older and wins: " +
        "the other is not imported",
    );
  });

  it("serves a port of another name under the name of the older export", () => {
    const plan = planStrictImport([young([fakePort("web", 80)]), old([http])], undefined);
    expect(plan.status?.clusters?.[1]).toEqual({
      cluster: "west",
      ports: [{ name: "web", importedAs: "http" }],
    });
    expect(plan.conflicts.get("west")).toMatch(
      /^the name of port TCP\/80 of work\/hello is web in cluster west/,
    );
  });

  it("does without a cluster that has nothing to add", () => {
    const plan = planStrictImport([young([fakePort("http", 8080)]), old([http])], undefined);
    expect(plan.status?.clusters?.map((it) => it.cluster)).toEqual(["east"]);
  });

  it("is what the oldest export asks for: it alone decides", () => {
    const strict = planStrictImport([young([http, admin]), old([http], false)], undefined);
    expect(strict.status?.clusters).toEqual([{ cluster: "east" }]);
    expect(strict.conflicts.get("west")).toBeDefined();
    const united = planStrictImport([young([http, admin], false), old([http])], undefined);
    expect(united.status?.clusters).toHaveLength(2);
  });

  it("looks at losers again with every change", () => {
    const before = planStrictImport([old([http]), young([fakePort("http", 8080)])], undefined);
    expect(before.conflicts.get("west")).toBeDefined();
    const after = planStrictImport([old([http]), young([http])], before.status);
    expect(after.conflicts.get("west")).toBeUndefined();
    const alone = planStrictImport([young([fakePort("http", 8080)])], before.status);
    expect(alone.status?.ports).toEqual([{ name: "http", protocol: "TCP", port: 8080 }]);
    expect(alone.conflicts.get("west")).toBeUndefined();
  });

  const anyPorts = fc.uniqueArray(
    fc
      .tuple(fc.constantFrom("http", "admin", "web"), fc.constantFrom(80, 81))
      .map(([name, number]) => fakePort(name, number)),
    { selector: (it) => it.name, minLength: 1, maxLength: 3 },
  );

  it("rolled through clusters one by one, a change of ports leaves no moment without a cluster", () => {
    fc.assert(
      fc.property(anyPorts, anyPorts, (from, to) => {
        const steps = [
          [old(from), young(from)],
          [old(from), young(to)],
          [old(to), young(to)],
        ];
        let status = planStrictImport([], undefined).status;
        for (const step of steps) {
          const plan = planStrictImport(step, status);
          status = plan.status;
          expect(status?.clusters?.length).toBeGreaterThan(0);
          // Every port has an endpoint.
          for (const port of status?.ports ?? [])
            expect(
              status?.clusters?.some((it) => it.ports?.some((one) => one.importedAs === port.name)),
            ).toBe(true);
          expect(planStrictImport(step.toReversed(), status)).toEqual(plan);
        }
      }),
    );
  });
});

describe("the clusters of a fleet import", () => {
  it("is their bare names, and their weight where it is not the usual one", () => {
    const plan = planStrictImport(
      [
        { ...old([http], false), weight: 1 },
        { ...young([http]), weight: 3 },
      ],
      undefined,
    );
    expect(plan.status?.clusters).toEqual([{ cluster: "east" }, { cluster: "west", weight: 3 }]);
  });

  it("C6: and the session affinity, if any", () => {
    const sticky = {
      ...old([http], false),
      sessionAffinity: "ClientIP" as const,
      affinityTimeoutSeconds: 60,
    };
    expect(planStrictImport([sticky], undefined).status).toMatchObject({
      sessionAffinity: "ClientIP",
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } },
    });
    expect(planStrictImport([old([http], false)], undefined).status).not.toHaveProperty("sessionAffinity");
  });
});
