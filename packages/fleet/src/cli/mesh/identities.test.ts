import { describe, expect, it } from "vitest";
import type { ClusterMeshProfile } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import type { IdentitySnapshot } from "./identities.ts";
import type { MeshSnapshot } from "./read.ts";
import { renderMeshStatus, summarizeMesh } from "./status.ts";

const PROFILE: ClusterMeshProfile = {
  metadata: { name: "p" },
  spec: { memberSelector: {}, network: { mode: "flat" } },
  status: {
    state: "Connected",
    memberStates: ["a", "b"].map((name) => ({
      name,
      state: "Connected" as const,
      lastUpdatedAt: "2026-01-01T00:00:00Z",
    })),
  },
};

const EMPTY: MeshSnapshot = {
  members: [],
  leases: [],
  reports: [],
  internalMembers: [],
  exports: [],
  sliceExports: [],
  serviceImports: [],
  importedServices: [],
  profiles: [],
  gateways: [],
  fleet: { profiles: [], members: [], namespaces: new Map(), exports: [], views: new Set() },
};

const IDENTITIES: IdentitySnapshot = {
  slices: ["2026-01-01T00:00:00Z", "2026-01-01T00:58:00Z"].map((publishedAt, at) => ({
    metadata: { name: `a-${at}` },
    spec: {
      cluster: "a",
      type: "Pods",
      namespace: "shop",
      pods: [{ name: `web-${at}`, addresses: [`10.1.0.${at + 1}`] }],
      publishedAt,
    },
  })),
  demands: [
    {
      metadata: { name: "b" },
      spec: { requests: [] },
      status: {
        conditions: [
          {
            type: "Current",
            status: "False",
            reason: "HeartbeatLost",
            message: "the member has not reported since 00:10",
            lastTransitionTime: "2026-01-01T00:10:00Z",
          },
        ],
      },
    },
  ],
};

describe("the status of a network", () => {
  it("has how long changes take between its members, and for each member the longest", () => {
    const lease = (name: string, text: string) => ({
      metadata: {
        namespace: `fleet-member-${name}`,
        name,
        annotations: { "fairlead.dev/propagation": text },
      },
    });
    const leases = [lease("b", "a=12/40/100,x=1/1/1"), lease("a", "b=9/9/1"), lease("x", "a=5000/5000/1")];
    const nowMs = Date.parse("2026-01-01T01:00:00Z");
    const status = summarizeMesh(PROFILE, { ...EMPTY, leases }, { version: "1.0.0", nowMs });
    expect(status.propagation).toEqual([
      { from: "a", to: "b", p50Ms: 12, p99Ms: 40, count: 100 },
      { from: "b", to: "a", p50Ms: 9, p99Ms: 9, count: 1 },
    ]);
    const text = renderMeshStatus(status, "text", nowMs);
    expect(text).toMatch(/NEWEST DATA +P50 +P99/);
    expect(text).toMatch(/a +Connected +never +12ms +40ms/);
  });

  it("names the members whose data path to another one is cut", () => {
    const annotations = { "fairlead.dev/cut-off": "b,x" };
    const leases = [{ metadata: { namespace: "fleet-member-a", name: "a", annotations } }];
    const status = summarizeMesh(PROFILE, { ...EMPTY, leases }, { version: "1.0.0", nowMs: 0 });
    expect(status.problems).toEqual(["a does not reach the endpoints of b: the data path is cut"]);
  });

  it("has the number of pods that others know of each member, the age of the newest data, and what is old", () => {
    const nowMs = Date.parse("2026-01-01T01:00:00Z");
    const status = summarizeMesh(PROFILE, EMPTY, { version: "1.0.0", nowMs, identities: IDENTITIES });
    expect(status.members.map(({ name, pods, lastSync }) => ({ name, pods, lastSync }))).toEqual([
      { name: "a", pods: 2, lastSync: "2026-01-01T00:58:00Z" },
      { name: "b", pods: 0, lastSync: undefined },
    ]);
    expect(status.problems).toEqual(["b: the member has not reported since 00:10"]);
    expect(renderMeshStatus(status, "text", nowMs)).toMatch(/a +Connected +2m/);
  });
});
