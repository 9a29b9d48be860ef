import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { MeshRelay } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { createMetrics } from "@fairlead/base/metrics.ts";
import { createPathMeters } from "./path-meters.ts";
import { measurePaths, planReport, type Tunnel } from "./path-report.ts";

const NOW = Date.parse("2026-01-01T00:00:00Z");
const RELAYS: readonly MeshRelay[] = [
  { name: "r", addresses: ["192.0.2.1", "2001:db8::1"], basePort: 30_000, publicKey: "" },
];

interface Options {
  readonly endpoint?: string;
  readonly isAlive?: boolean;
  readonly rttMs?: number;
  readonly loss?: number;
  readonly epoch?: number;
  readonly rxBytes?: number;
  readonly handshakeAgoMs?: number;
  readonly fleetAddress?: string | undefined;
}

/** A tunnel to gateway b-0 that works at a relay. */
function tunnel(of: Options = {}): Tunnel {
  const { endpoint = "192.0.2.1:30007", isAlive = true, rttMs = 20, loss = 0, epoch = 1, rxBytes = 0 } = of;
  const { handshakeAgoMs = 0 } = of;
  const fleetAddress = "fleetAddress" in of ? of.fleetAddress : "10.112.8.1";
  const remote = {
    cluster: "b",
    ordinal: 0,
    node: "n",
    ...(fleetAddress === undefined ? {} : { fleetAddress }),
  };
  return {
    pair: { id: `b/0/${epoch}`, epoch, remote },
    peer: { endpoint, latestHandshakeMs: NOW - handshakeAgoMs, rxBytes, txBytes: 0 },
    mtu: 1408,
    echo: { isAlive, rttMs, loss },
  };
}

function measure(...tunnels: readonly Tunnel[]) {
  return measurePaths(tunnels, RELAYS, NOW);
}

describe("the path of a tunnel", () => {
  it.each([
    ["192.0.2.1:30007", "relay"],
    ["[2001:db8::1]:30000", "relay"],
    ["192.0.2.1:31024", "direct"],
    ["198.51.100.1:30007", "direct"],
    ["[::1]:4000", "tcp"],
    ["127.0.0.1:4000", "tcp"],
  ])("to %s is %s", (endpoint, kind) => {
    expect(measure(tunnel({ endpoint })).map((it) => it.kind)).toEqual([kind]);
  });

  it('is "none" without answers, and by handshakes where the other gateway has no address for probes', () => {
    const kinds = (of: Options) => measure(tunnel(of)).map((it) => it.kind);
    expect(kinds({ isAlive: false })).toEqual(["none"]);
    const fleetAddress = undefined;
    expect(kinds({ isAlive: false, fleetAddress, handshakeAgoMs: 100_000 })).toEqual(["relay"]);
    expect(kinds({ isAlive: false, fleetAddress, handshakeAgoMs: 200_000 })).toEqual(["none"]);
  });

  it("is that of the newest keys that work", () => {
    const epochs = (...all: readonly Tunnel[]) => measure(...all).map((it) => it.tunnel.pair.epoch);
    expect(epochs(tunnel({ epoch: 1 }), tunnel({ epoch: 2 }))).toEqual([2]);
    expect(epochs(tunnel({ epoch: 1 }), tunnel({ epoch: 2, isAlive: false }))).toEqual([1]);
    expect(epochs(tunnel({ epoch: 1, isAlive: false }), tunnel({ epoch: 2, isAlive: false }))).toEqual([2]);
  });
});

describe("a report", () => {
  const first = planReport(measure(tunnel()), undefined, NOW);
  const next = (of: Options, afterMs = 5000) => planReport(measure(tunnel(of)), first, NOW + afterMs);

  it("says what is known of each tunnel", () => {
    expect(planReport(measure(tunnel({ rttMs: 0.2, loss: 0.054, rxBytes: 7 })), undefined, NOW)).toEqual({
      pathsReportedAt: "2026-01-01T00:00:00Z",
      paths: [
        {
          cluster: "b",
          ordinal: 0,
          path: "relay",
          keyEpoch: 1,
          mtu: 1408,
          rttMs: 1,
          lossPercent: 5,
          lastHandshake: "2026-01-01T00:00:00Z",
          sentBytes: 0,
          receivedBytes: 7,
        },
      ],
    });
  });

  it("is not written for bytes, handshakes, or a round trip and loss that vary a little", () => {
    expect(next({})).toBeUndefined();
    expect(next({ rxBytes: 1e9, handshakeAgoMs: -4000, rttMs: 29, loss: 0.025 })).toBeUndefined();
  });

  it.each([
    ["path", { endpoint: "198.51.100.1:31820" }],
    ["keys", { epoch: 2 }],
    ["round trip", { rttMs: 60 }],
    ["loss", { loss: 0.2 }],
    ["answers", { isAlive: false }],
  ])("is written for another %s", (_what, of) => {
    expect(next(of)).toBeDefined();
  });

  it("is written for a tunnel that ends, and every ten minutes, also after the clock was set", () => {
    expect(planReport([], first, NOW)).toEqual({ paths: [], pathsReportedAt: "2026-01-01T00:00:00Z" });
    expect(next({}, 599_000)).toBeUndefined();
    expect(next({}, 600_000)).toBeDefined();
    expect(next({}, -3_600_000)).toBeDefined();
    expect(planReport(measure(tunnel()), { ...first, pathsReportedAt: "?" }, NOW)).toBeDefined();
  });

  it("is not written by a gateway without tunnels", () => {
    expect(planReport([], undefined, NOW)).toBeUndefined();
  });
});

describe("the metrics of tunnels", () => {
  const metrics = createMetrics();
  const meters = createPathMeters(metrics);

  it("show what is measured, and nothing of a tunnel that is gone", async () => {
    meters.show(measure(tunnel({ rttMs: 20, rxBytes: 7 })));
    const text = await metrics.render();
    for (const line of [
      'fairlead_tunnel_path{member="b",gateway="b-0",path="relay"} 1',
      'fairlead_tunnel_path{member="b",gateway="b-0",path="direct"} 0',
      'fairlead_tunnel_rtt_seconds{member="b",gateway="b-0"} 0.02',
      'fairlead_tunnel_received_bytes{member="b",gateway="b-0"} 7',
    ])
      expect(text).toContain(line);
    meters.show([]);
    expect(await metrics.render()).not.toContain("b-0");
  });

  it("are those of their page", async () => {
    const page = new URL("../../../../../docs/guide/tunnels.md", import.meta.url);
    const documented = [...readFileSync(page, "utf8").matchAll(/^\| `(fairlead_tunnel_[a-z_]+)` \|/gm)];
    const served = [...(await metrics.render()).matchAll(/^# TYPE (\S+)/gm)];
    const names = (all: readonly RegExpExecArray[]) => new Set(all.map((it) => it[1]));
    expect(names(documented)).toEqual(names(served));
  });
});
