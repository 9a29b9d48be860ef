import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { byAge, type ExportedService, type ModelPort } from "./exported-service.ts";
import { fakeExport, fakePort } from "./exports.fake.ts";
import { type ConflictReason, mergeExports } from "./merge.ts";

const older = fakeExport("east", { createdAt: "2026-01-01T00:00:00Z" });
const newer = (more: Partial<ExportedService>): ExportedService =>
  fakeExport("west", { createdAt: "2026-01-02T00:00:00Z", ...more });
const mcsExport = (labels: Record<string, string>, annotations: Record<string, string> = {}) =>
  ({ api: "mcs", createdAt: "2026-01-02T00:00:00Z", labels, annotations }) as const;

/** The change of the second export, the expected conflicts, and the expected import. */
const TABLE: readonly (readonly [string, Partial<ExportedService>, readonly ConflictReason[], object])[] = [
  ["nothing", {}, [], {}],
  [
    "a further port",
    { ports: [fakePort("http", 80), fakePort("metrics", 9090)] },
    ["PortConflict"],
    {
      ports: [
        { name: "http", protocol: "TCP", port: 80 },
        { name: "metrics", protocol: "TCP", port: 9090 },
      ],
    },
  ],
  [
    "the number of a port of the same name",
    { ports: [fakePort("http", 8080)] },
    ["PortConflict"],
    { ports: [{ name: "http", protocol: "TCP", port: 80 }] },
  ],
  [
    "the name of a port of the same number",
    { ports: [fakePort("web", 80)] },
    ["PortConflict"],
    { ports: [{ name: "http", protocol: "TCP", port: 80 }] },
  ],
  [
    "the protocol, which makes it another port",
    { ports: [fakePort("quic", 80, { protocol: "UDP" })] },
    ["PortConflict"],
    {
      ports: [
        { name: "http", protocol: "TCP", port: 80 },
        { name: "quic", protocol: "UDP", port: 80 },
      ],
    },
  ],
  ["the order of ports and their target", { ports: [fakePort("http", 80, { targetPort: 1 })] }, [], {}],
  ["the type", { headless: true }, ["TypeConflict"], { type: "ClusterSetIP" }],
  [
    "session affinity",
    { sessionAffinity: "ClientIP", affinityTimeoutSeconds: 5 },
    ["SessionAffinityConflict"],
    { sessionAffinity: "None" },
  ],
  [
    "internal traffic policy",
    { internalTrafficPolicy: "Local" },
    ["InternalTrafficPolicyConflict"],
    { internalTrafficPolicy: "Cluster" },
  ],
  ["traffic distribution", { trafficDistribution: "PreferClose" }, ["TrafficDistributionConflict"], {}],
  ["families", { ipFamilies: ["IPv4"] }, ["IPFamilyConflict"], { ipFamilies: ["IPv4"] }],
  ["the order of families", { ipFamilies: ["IPv6", "IPv4"] }, [], { ipFamilies: ["IPv4", "IPv6"] }],
  ["labels", { apis: [mcsExport({ a: "1" })] }, ["LabelsConflict"], { labels: {} }],
  ["annotations", { apis: [mcsExport({}, { a: "1" })] }, ["AnnotationsConflict"], { annotations: {} }],
  [
    "the API, which has no labels to differ",
    { apis: [{ ...mcsExport({}), api: "fleet" }] },
    [],
    { labels: {} },
  ],
  [
    "two things at once",
    { headless: true, internalTrafficPolicy: "Local" },
    ["InternalTrafficPolicyConflict", "TypeConflict"],
    { type: "ClusterSetIP", internalTrafficPolicy: "Cluster" },
  ],
];

describe("a service exported from two clusters", () => {
  it.each(TABLE)("of which the newer differs in %s", (_, difference, reasons, spec) => {
    const merged = mergeExports([newer(difference), older]);
    expect(merged?.conflicts.map((it) => it.reason)).toEqual(reasons);
    expect(merged?.spec).toMatchObject(spec);
    expect(merged?.spec.clusters.map((it) => it.cluster)).toEqual(["east", "west"]);
    for (const conflict of merged?.conflicts ?? [])
      expect(conflict.message).toMatch(/east has .* and wins; west has/);
  });

  it("sends traffic for a port only to clusters that expose its number", () => {
    const merged = mergeExports([older, newer({ ports: [fakePort("http", 8080), fakePort("web", 80)] })]);
    expect(merged?.spec.clusters).toEqual([
      { cluster: "east", ports: [{ name: "http", importedAs: "http" }] },
      { cluster: "west", ports: [{ name: "web", importedAs: "http" }] },
    ]);
  });

  it("takes the export of the first cluster by name where both are of one second", () => {
    const twin = fakeExport("alpha", { createdAt: older.createdAt, headless: true });
    expect(mergeExports([older, twin])?.spec.type).toBe("Headless");
  });

  it("keeps the affinity of the oldest, with its time", () => {
    const sticky = fakeExport("east", { sessionAffinity: "ClientIP", affinityTimeoutSeconds: 10 });
    const merged = mergeExports([newer({ sessionAffinity: "ClientIP", affinityTimeoutSeconds: 20 }), sticky]);
    expect(merged?.spec).toMatchObject({
      sessionAffinity: "ClientIP",
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 10 } },
    });
    expect(merged?.conflicts.map((it) => it.reason)).toEqual(["SessionAffinityConfigConflict"]);
  });
});

const port: fc.Arbitrary<ModelPort> = fc.record({
  name: fc.constantFrom("", "a", "b", "c"),
  protocol: fc.constantFrom("TCP", "UDP"),
  port: fc.constantFrom(1, 2, 3),
  appProtocol: fc.constant(undefined),
  targetPort: fc.constantFrom(undefined, 9, "name"),
});
const exportsOf = fc
  .uniqueArray(fc.constantFrom("a", "b", "c", "d"), { minLength: 1, maxLength: 4 })
  .chain((clusters) =>
    fc.tuple(
      ...clusters.map((cluster) =>
        fc
          .record({
            second: fc.integer({ min: 0, max: 3 }),
            headless: fc.boolean(),
            ports: fc.uniqueArray(port, { maxLength: 3, selector: (it) => it.name }),
          })
          .map(({ second, headless, ports }) =>
            fakeExport(cluster, { createdAt: `2026-01-01T00:00:0${second}Z`, headless, ports }),
          ),
      ),
    ),
  );

describe("merging any exports", () => {
  it("gives the same result in whatever order they arrive", () => {
    fc.assert(
      fc.property(exportsOf, fc.nat(), (exports, chance) => {
        const at = chance % exports.length;
        const shuffled = [...exports.slice(at), ...exports.slice(0, at).toReversed()];
        expect(mergeExports(shuffled)).toEqual(mergeExports(exports));
      }),
    );
  });

  it("unites ports as the specification does: by name and by number, oldest first", () => {
    fc.assert(
      fc.property(exportsOf, (exports) => {
        const union: { name: string; number: string }[] = [];
        for (const of of exports.toSorted(byAge))
          for (const it of of.ports) {
            const number = `${it.protocol}/${it.port}`;
            if (!union.some((has) => has.name === it.name || has.number === number))
              union.push({ name: it.name, number });
          }
        const merged = mergeExports(exports)?.spec.ports ?? [];
        expect(merged.map((it) => ({ name: it.name ?? "", number: `${it.protocol}/${it.port}` }))).toEqual(
          union,
        );
      }),
    );
  });

  it("never leads a port to a cluster that does not expose its protocol and number", () => {
    fc.assert(
      fc.property(exportsOf, (exports) => {
        const spec = mergeExports(exports)?.spec;
        for (const { cluster, ports } of spec?.clusters ?? []) {
          const source = exports.find((it) => it.cluster === cluster);
          for (const { name, importedAs } of ports) {
            const from = source?.ports.find((it) => it.name === name);
            const to = spec?.ports.find((it) => (it.name ?? "") === importedAs);
            expect([to?.protocol, to?.port]).toEqual([from?.protocol, from?.port]);
          }
        }
      }),
    );
  });

  it("reports a port conflict exactly when the sets of ports differ", () => {
    fc.assert(
      fc.property(exportsOf, (exports) => {
        const sets = exports.map((it) =>
          it.ports
            .map((at) => `${at.name}/${at.protocol}/${at.port}`)
            .toSorted()
            .join(" "),
        );
        const conflicts = mergeExports(exports)?.conflicts.map((it) => it.reason) ?? [];
        expect(conflicts.includes("PortConflict")).toBe(new Set(sets).size > 1);
      }),
    );
  });
});
