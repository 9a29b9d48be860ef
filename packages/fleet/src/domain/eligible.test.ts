import { defined } from "@fairlead/base/defined.ts";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { DrainMode } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { eligibleClusters, isSettled, type Readiness, readinessOf, type TrafficRules } from "./eligible.ts";

const rules = (more: Partial<TrafficRules> = {}): TrafficRules => ({
  own: "a",
  affinity: undefined,
  clusters: [{ cluster: "a" }, { cluster: "b" }, { cluster: "c" }],
  drained: new Map(),
  ...more,
});
/** "a b*" : a is ready, b only serves, all others have nothing. */
const able = (text: string): ReadonlyMap<string, Readiness> =>
  new Map(
    text
      .split(" ")
      .filter((it) => it !== "")
      .map((it) => (it.endsWith("*") ? [it.slice(0, -1), "serving"] : [it, "ready"])),
  );
const chosen = (more: Partial<TrafficRules>, ready: string): string =>
  [...eligibleClusters(rules(more), able(ready))].join(" ");
const priorities = [{ cluster: "a", priority: 2 }, { cluster: "b" }, { cluster: "c", priority: 1 }];
const soft = (...clusters: readonly string[]) => new Map(clusters.map((it) => [it, "Soft"] as const));

describe("the clusters that serve (C3)", () => {
  const TABLE: readonly (readonly [string, Partial<TrafficRules>, string, string])[] = [
    ["are all without any rule", {}, "a", "a b c"],
    ["with local affinity are the own one while it has a ready endpoint", { affinity: "local" }, "a b", "a"],
    ["with local affinity are the others when it has none", { affinity: "local" }, "b", "b c"],
    ["with remote affinity are the others", { affinity: "remote" }, "a c", "b c"],
    ["with remote affinity are the own one when no other can", { affinity: "remote" }, "a", "a"],
    ["are those of the lowest priority number", { clusters: priorities }, "a b c", "b"],
    ["fail over to the next number", { clusters: priorities }, "a c", "c"],
    ["fail over to the last", { clusters: priorities }, "a", "a"],
    ["are the own one first whatever its number", { affinity: "local", clusters: priorities }, "a b", "a"],
    ["of the others are those of the lowest number", { affinity: "local", clusters: priorities }, "b c", "b"],
    ["are not the drained one", { drained: soft("a") }, "a b", "b c"],
    ["are not the drained own one, local or not", { affinity: "local", drained: soft("a") }, "a c", "b c"],
    ["are the drained one where no other can", { drained: soft("a") }, "a", "a"],
    ["are drained ones by their number", { clusters: priorities, drained: soft("a", "b", "c") }, "a c", "c"],
    ["are never the one that is drained hard", { drained: new Map([["a", "Hard"]]) }, "a", "b c"],
    ["are never one of weight 0", { clusters: [{ cluster: "a", weight: 0 }, { cluster: "b" }] }, "a", "b"],
    ["that only still serve wait for those that are ready", { affinity: "local" }, "a* b", "b c"],
    ["serve to the end where no other can", { clusters: priorities }, "c* a*", "c"],
    ["are all where nothing serves", { affinity: "local", clusters: priorities }, "", "a b c"],
  ];
  it.each(TABLE)("%s", (_, more, ready, expected) => {
    expect(chosen(more, ready)).toBe(expected);
  });
});

const CLUSTERS = ["a", "b", "c", "d"] as const;
const anyRules = fc.record({
  own: fc.constantFrom(...CLUSTERS, "z"),
  affinity: fc.constantFrom(undefined, "none", "local", "remote"),
  clusters: fc
    .tuple(
      ...CLUSTERS.map((cluster) =>
        fc.record({
          cluster: fc.constant(cluster),
          weight: fc.constantFrom(undefined, undefined, 0, 5),
          priority: fc.constantFrom(undefined, 1, 1000),
        }),
      ),
    )
    .map((all) =>
      all.map(({ cluster, weight, priority }) => ({
        cluster,
        ...defined({ weight, priority }),
      })),
    ),
  drained: fc
    .uniqueArray(fc.tuple(fc.constantFrom(...CLUSTERS), fc.constantFrom("Soft" as const, "Hard" as const)), {
      selector: ([cluster]) => cluster,
    })
    .map((it): ReadonlyMap<string, DrainMode> => new Map(it)),
});
const anyReadiness = fc
  .tuple(...CLUSTERS.map(() => fc.constantFrom<Readiness>("ready", "serving", "none")))
  .map((all) => new Map(CLUSTERS.map((cluster, at) => [cluster as string, all[at] ?? "none"] as const)));
const isOpen = ({ clusters, drained }: TrafficRules, name: string): boolean =>
  drained.get(name) !== "Hard" && clusters.find((it) => it.cluster === name)?.weight !== 0;

describe("whatever the rules and whatever is ready", () => {
  it("traffic is never without an endpoint while one is ready in a cluster that may serve", () => {
    fc.assert(
      fc.property(anyRules, anyReadiness, (of, readiness) => {
        const some = eligibleClusters(of, readiness);
        for (const level of ["ready", "serving"] as const) {
          const open = CLUSTERS.filter((it) => isOpen(of, it) && readiness.get(it) === level);
          if (open.length === 0) continue;
          expect([...some].some((it) => readiness.get(it) === "ready" || readiness.get(it) === level)).toBe(
            true,
          );
          return;
        }
      }),
    );
  });

  it("a cluster drained hard or of weight 0 has none, and a drained one only where no other is ready", () => {
    fc.assert(
      fc.property(anyRules, anyReadiness, (of, readiness) => {
        const some = eligibleClusters(of, readiness);
        for (const name of some) expect(isOpen(of, name)).toBe(true);
        const other = CLUSTERS.some(
          (it) => isOpen(of, it) && !of.drained.has(it) && readiness.get(it) === "ready",
        );
        if (other) for (const name of some) expect(of.drained.has(name)).toBe(false);
      }),
    );
  });

  it("a cluster whose endpoints come or go changes nothing while those before it are ready", () => {
    fc.assert(
      fc.property(anyRules, anyReadiness, fc.constantFrom(...CLUSTERS), (of, readiness, changed) => {
        const before = eligibleClusters(of, readiness);
        const readyBefore = [...before].some((it) => it !== changed && readiness.get(it) === "ready");
        fc.pre(readyBefore && (before.has(changed) || readiness.get(changed) === "ready"));
        const after = eligibleClusters(of, new Map([...readiness, [changed, "none"]]));
        expect(after).toEqual(before);
      }),
    );
  });

  it("the order in which clusters are listed decides nothing, and settled rules have one answer", () => {
    fc.assert(
      fc.property(anyRules, anyReadiness, anyReadiness, (of, one, other) => {
        const reversed = { ...of, clusters: of.clusters.toReversed() };
        expect(new Set(eligibleClusters(reversed, one))).toEqual(new Set(eligibleClusters(of, one)));
        if (isSettled(of)) expect(eligibleClusters(of, one)).toEqual(eligibleClusters(of, other));
      }),
    );
  });
});

describe("what clusters have to answer with", () => {
  const spec = {
    type: "ClusterSetIP" as const,
    clusters: [
      { cluster: "a", ports: [{ name: "web", importedAs: "http" }] },
      {
        cluster: "b",
        ports: [
          { name: "http", importedAs: "http" },
          { name: "metrics", importedAs: "metrics" },
        ],
      },
    ],
  };
  const slice = (cluster: string, ports: readonly string[], more: object = {}) => ({
    cluster,
    isAlive: () => true,
    facts: {
      addressType: "IPv4" as const,
      endpoints: [{ addresses: ["10.0.0.1"] }],
      ports: ports.map((name) => ({ name, port: 1 })),
      ...more,
    },
  });
  const gone = { conditions: { ready: false, serving: false, terminating: true }, addresses: ["10.0.0.2"] };
  const ending = { ...gone, conditions: { ready: false, serving: true, terminating: true } };

  it("is counted for each port and each family by itself (A8)", () => {
    const slices = [slice("a", ["web", "debug"]), slice("b", ["http", "metrics"], { addressType: "IPv6" })];
    expect(readinessOf(spec, slices)).toEqual(
      new Map([
        ["IPv4 http", new Map([["a", "ready"]])],
        ["IPv6 http", new Map([["b", "ready"]])],
        ["IPv6 metrics", new Map([["b", "ready"]])],
      ]),
    );
  });

  it("is all slices of a cluster together, and for a headless service has no ports", () => {
    const slices = [slice("a", ["web"], { endpoints: [gone] }), slice("a", [], { endpoints: [ending] })];
    expect(readinessOf({ ...spec, type: "Headless" }, slices)).toEqual(
      new Map([["IPv4 ", new Map([["a", "serving"]])]]),
    );
    expect(readinessOf({ ...spec, type: "Headless" }, [...slices, slice("a", [])]).get("IPv4 ")).toEqual(
      new Map([["a", "ready"]]),
    );
  });

  it("is the best of all slices, in whatever order they come", () => {
    const slices = [slice("a", ["web"]), slice("a", ["web"], { endpoints: [gone] })];
    for (const some of [slices, slices.toReversed()])
      expect(readinessOf(spec, some).get("IPv4 http")?.get("a")).toBe("ready");
  });

  it("leaves out endpoints that do not answer", () => {
    const dead = { ...slice("a", ["web"]), isAlive: () => false };
    expect(readinessOf(spec, [dead])).toEqual(new Map([["IPv4 http", new Map([["a", "none"]])]]));
  });
});
