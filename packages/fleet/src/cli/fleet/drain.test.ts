import { describe, expect, it } from "vitest";
import { servedOnlyBy } from "./drain.ts";
import { renderDrain } from "./render-drain.ts";
import type { FleetStatus } from "./status.ts";

function fleetOf(
  endpoints: Readonly<Record<string, Readonly<Record<string, number>>>>,
  drained: readonly string[] = [],
): FleetStatus {
  const cluster = {
    joined: "True",
    healthy: "True",
    message: "",
    exports: 0,
    imports: 0,
    endpoints: 0,
    serving: 0,
    invalidExports: [],
    nodeProblems: [],
  } as const;
  const service = { type: "", ports: [], importedBy: [], loadBalancer: undefined, endpoints: 0, serving: 0 };
  return {
    networks: [],
    absentNamespaces: [],
    withdrawn: [],
    clusters: ["a", "b", "c"].map((name) => ({
      ...cluster,
      name,
      ...(drained.includes(name) ? { drained: "Soft" as const } : {}),
      lastSync: undefined,
      since: undefined,
    })),
    services: Object.entries(endpoints).map(([name, counts]) => ({
      ...service,
      namespace: "work",
      name,
      exports: Object.entries(counts).map(([it, count]) => ({
        cluster: it,
        doors: [],
        conflicts: [],
        endpoints: count,
        usable: count,
        problems: [],
      })),
    })),
  };
}

describe("services that only a drained cluster serves", () => {
  it("are those with endpoints there, and none in a cluster that is not drained", () => {
    const services = {
      only: { a: 1 },
      idle: { a: 1, b: 0 },
      both: { a: 1, b: 1 },
      other: { b: 1 },
      none: { a: 0 },
    };
    expect(servedOnlyBy(fleetOf(services), "a")).toEqual(["work/only", "work/idle"]);
    expect(servedOnlyBy(fleetOf(services, ["b"]), "a")).toEqual(["work/only", "work/idle", "work/both"]);
  });
});

describe("what drain says", () => {
  const result = {
    cluster: "a",
    mode: "Soft",
    carriedOutBy: ["a", "b"],
    servedOnlyHere: ["work/only"],
  } as const;

  it("lists the clusters that applied it, and the services that keep or lose their endpoints", () => {
    expect(renderDrain(result, "text")).toBe(
      "a is drained (applied by a, b)\nNo other cluster can serve these services; they continue to be served here:\n  work/only",
    );
    expect(renderDrain({ ...result, mode: "Hard" }, "text")).toContain("their requests are no longer served");
    expect(renderDrain({ ...result, servedOnlyHere: [] }, "text")).toBe("a is drained (applied by a, b)");
    expect(renderDrain({ ...result, mode: "None", carriedOutBy: [] }, "text")).toBe(
      "a gets new requests again",
    );
  });

  it("says what a drain would mean, where nothing was changed", () => {
    const placements = [
      { kind: "ClusterResourcePlacement", placement: "web", outcome: "Bound", message: "if budgets allow" },
    ] as const;
    const dry = { ...result, carriedOutBy: [], dryRun: true, cordoned: true, placements } as const;
    expect(renderDrain(dry, "text")).toBe(
      "a would be drained and cordoned. Nothing was changed.\nNo other cluster can serve these services, which would continue to be served here:\n  work/only\n  ClusterResourcePlacement web: would be evicted: if budgets allow",
    );
    expect(renderDrain({ ...dry, mode: "None" }, "text")).toBe(
      "a would get new requests again. Nothing was changed.",
    );
  });

  it("can be read by programs", () => {
    expect(JSON.parse(renderDrain(result, "json"))).toEqual(result);
    expect(renderDrain(result, "yaml")).toContain("mode: Soft");
  });
});
