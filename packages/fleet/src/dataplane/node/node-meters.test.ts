import { describe, expect, it } from "vitest";
import { createMetrics } from "@fairlead/base/metrics.ts";
import { createNodeMeters, nodeFigures } from "./node-meters.ts";

const BLOCK = { profile: "p", cluster: "a", node: "n", ipv4: ["10.112.8.0/29"], ipv6: ["fd00:112:8::/112"] };
const allocation = (podUID: string, releasedAt?: string) => ({
  podUID,
  ipv4: "10.112.8.2",
  ipv6: "fd00:112:8::2",
  ...(releasedAt === undefined ? {} : { releasedAt }),
});

describe("the metrics of a node", () => {
  const figures = nodeFigures(BLOCK, {
    allocations: [
      allocation("attached"),
      allocation("translated"),
      allocation("starting"),
      allocation("gone", "2026-01-01T00:00:00Z"),
    ],
    attached: { isAttached: (it) => it !== "translated", isReachable: (it) => it !== "starting" },
    exhausted: 1,
    exposed: 3,
  });

  it("count pods and addresses by their state", () => {
    expect(figures.pods).toEqual({ attached: 1, translated: 1, starting: 1, without_address: 1 });
    expect(figures.addresses).toEqual({ used: 3, released: 1, free: 1 });
    expect(figures.own).toEqual({ IPv4: "10.112.8.1", IPv6: "fd00:112:8::1" });
  });

  it("say that the self-test fails", async () => {
    const metrics = createMetrics();
    const view = { node: figures, host: undefined as { status: "True" | "False" } | undefined };
    using _meters = createNodeMeters(metrics, () => ({
      ...view,
      host: view.host && { ...CONDITION, ...view.host },
    }));
    expect(await metrics.render()).toMatch(/^fairlead_node_host_route_broken 0$/m);
    view.host = { status: "False" };
    const text = await metrics.render();
    expect(text).toMatch(/^fairlead_node_host_route_broken 1$/m);
    expect(text).toMatch(/^fairlead_node_pods\{state="translated"\} 1$/m);
    expect(text).toMatch(/^fairlead_node_exposed_ports 3$/m);
  });
});

const CONDITION = { type: "HostRouted", reason: "Answered", message: "" };
