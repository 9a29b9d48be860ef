import { describe, expect, it } from "vitest";
import type { Gateway, GatewayPath } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { arePathsHealthy, summarizePaths } from "./paths.ts";
import { renderPaths } from "./render-paths.ts";

const NOW = Date.parse("2026-01-01T01:00:00Z");
const REPORTED = "2026-01-01T00:59:00Z";

function member(name: string, profile = "site", mode: "parallel" | "flat" = "parallel") {
  return {
    metadata: { namespace: `fleet-member-${name}`, name },
    spec: { state: "Join" as const, network: { profile, mode } },
  };
}

function gateway(cluster: string, ordinal: number, paths: GatewayPath[], reportedAt = REPORTED): Gateway {
  return {
    metadata: { namespace: `fleet-member-${cluster}`, name: `${cluster}-${ordinal}` },
    spec: { cluster, ordinal, node: "n" },
    status: { paths, pathsReportedAt: reportedAt },
  };
}

function path(cluster: string, ordinal: number, more: Partial<GatewayPath> = {}): GatewayPath {
  return {
    cluster,
    ordinal,
    path: "direct",
    keyEpoch: 2,
    mtu: 1408,
    rttMs: 12,
    lossPercent: 0,
    lastHandshake: "2026-01-01T00:58:30Z",
    sentBytes: 1536,
    receivedBytes: 20_000_000,
    ...more,
  };
}

const profiles = [
  {
    metadata: { name: "site" },
    spec: { memberSelector: {}, network: { mode: "parallel" as const } },
    status: { keyEpoch: 2, keyEpochSince: "2026-01-01T00:00:00Z" },
  },
];
const fleet = {
  profiles,
  internalMembers: [
    member("member-10"),
    member("member-2"),
    member("alone", "other"),
    member("f", "g", "flat"),
  ],
  gateways: [
    gateway("member-2", 0, [
      path("member-10", 1, { path: "relay", rttMs: 30, keyEpoch: 1 }),
      path("member-10", 0),
      path("\u001B[31mnobody", 0),
    ]),
    gateway("member-2", 1, [{ cluster: "member-10", ordinal: 0, path: "none", keyEpoch: 2 }]),
    gateway("member-10", 0, [path("member-2", 0)], "2026-01-01T00:20:00Z"),
    // A copy in a view.
    {
      ...gateway("member-10", 0, [path("member-2", 0)]),
      metadata: { namespace: "fleet-view-site", name: "x" },
    },
  ],
};

describe("the tunnels of a fleet", () => {
  it.each(["text", "wide"] as const)(
    "are shown from each member to each other one of its network, %s",
    async (output) => {
      const text = renderPaths(summarizePaths(fleet, NOW), output, NOW);
      await expect(`${text}\n`).toMatchFileSnapshot(`goldens/paths-${output}.txt`);
    },
  );

  it("are unknown without a report, or with one that is too old", () => {
    const [forth, back] = summarizePaths({ ...fleet, gateways: fleet.gateways.slice(2) }, NOW);
    expect(forth?.tunnels).toEqual([]);
    expect(back?.tunnels.map((it) => it.path)).toEqual(["unknown"]);
    const text = renderPaths(summarizePaths({ ...fleet, gateways: [] }, NOW), "wide", NOW);
    expect(text).toMatch(/^member-2 +member-10 +unknown +- +-/m);
    expect(text).toMatch(/\nNo report of tunnels from member-2, member-10: check that fairlead node runs/);
  });

  it("have the ages that the hub's clock gives them, if that of a member is an hour off", () => {
    const managedFields = [
      { manager: "fairlead-member", operation: "Apply" as const, subresource: "status", time: REPORTED },
    ];
    const reported = (reportedAt: string, lastHandshake: string): Gateway => {
      const it = gateway("member-2", 0, [path("member-10", 0, { lastHandshake })], reportedAt);
      return { ...it, metadata: { ...it.metadata, managedFields } };
    };
    for (const it of [
      reported("2026-01-01T00:00:00Z", "2025-12-31T23:59:30Z"),
      reported("2026-01-01T01:59:00Z", "2026-01-01T01:58:30Z"),
      reported(REPORTED, "2026-01-01T00:58:30Z"),
    ]) {
      const [forth] = summarizePaths({ ...fleet, gateways: [it] }, NOW);
      expect(forth?.tunnels).toMatchObject([
        { path: "direct", reportedAt: REPORTED, lastHandshake: "2026-01-01T00:58:30Z" },
      ]);
    }
  });

  it("say so in a fleet without a parallel network", () => {
    expect(renderPaths([], "text", NOW)).toMatch(/^No members share a parallel network/);
  });

  it("are healthy if each member has a way to each other one", () => {
    const healthy = (...gateways: readonly Gateway[]) =>
      arePathsHealthy(summarizePaths({ ...fleet, gateways }, NOW));
    const back = gateway("member-10", 0, [path("member-2", 0)]);
    const none = path("member-10", 0, { path: "none" });
    expect(healthy(back, gateway("member-2", 0, [none, path("member-10", 1)]))).toBe(true);
    expect(healthy(back, gateway("member-2", 0, [none]))).toBe(false);
    expect(healthy(back)).toBe(false);
    expect(arePathsHealthy([])).toBe(true);
  });
});
