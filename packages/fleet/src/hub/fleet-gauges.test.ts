import { describe, expect, it } from "vitest";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { Condition, KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { createMetrics } from "@fairlead/base/metrics.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { createFleetGauges } from "./fleet-gauges.ts";
import { LeaseTracker } from "./membership/leases.ts";

type Fleet = Parameters<typeof createFleetGauges>[0];

const is = (type: string, status: "True" | "False"): Condition => ({
  type,
  status,
  reason: "Because",
  message: "",
  lastTransitionTime: "2026-01-01T00:00:00Z",
});
const member = (name: string, ...conditions: Condition[]): MemberCluster => ({
  metadata: { name },
  spec: { identity: { kind: "User", name } },
  status: { conditions },
});

/** Informers of which only what is read is there. */
function fleetOf(objects: Readonly<Record<keyof Fleet, KubeObject[]>>): Fleet {
  const informer = (list: KubeObject[]): unknown => ({
    store: {
      list: () => list,
      byIndex: (_index: string, namespace: string) =>
        list.filter((it) => it.metadata.namespace === namespace),
    },
  });
  return Object.fromEntries(
    Object.entries(objects).map(([name, list]) => [name, informer(list)]),
  ) as unknown as Fleet;
}

describe("the hub's metrics of its fleet", () => {
  const objects = {
    members: [
      member("a", is("Joined", "True"), is("Healthy", "True")),
      member("b", is("Joined", "True"), is("Healthy", "False")),
      member("c"),
    ] as KubeObject[],
    exports: [
      {
        metadata: { namespace: "fleet-member-a", name: "x" },
        spec: { serviceReference: { namespace: "work", name: "x" } },
        status: { conditions: [is("Conflict", "True")] },
      } as KubeObject,
    ],
    sliceExports: [
      {
        metadata: { namespace: "fleet-member-a", name: "x-1" },
        spec: { endpoints: [{ conditions: { ready: true } }, { conditions: { ready: false } }, {}] },
      } as KubeObject,
    ],
  };
  const network = {
    profiles: [
      {
        metadata: { name: "p" },
        status: {
          members: 2,
          addresses: { ipv4: "10.112.0.0/12", ipv6: "fd12:3456:789a::/48" },
          conditions: [is("Ready", "True")],
        },
      } as KubeObject,
    ],
    blocks: ["p", "q"].map((name) => ({
      metadata: { namespace: `fleet-view-${name}`, name: "a" },
      spec: { ipv4: ["10.112.0.0/21", "10.112.8.0/21"], ipv6: ["fd12:3456:789a::/56"] },
    })),
    gateways: ["fleet-view-p", "fleet-member-a"].map((namespace) => ({
      metadata: { namespace, name: "a-0" },
      ...(namespace === "fleet-view-p"
        ? {}
        : { status: { paths: ["relay", "none", "relay"].map((path) => ({ path })) } }),
    })),
  };
  const clock = new FakeClock();
  const metrics = createMetrics();
  const leases = new LeaseTracker();
  leases.observe("b", { renewTime: "1", leaseMs: 60_000 }, clock.monotonic());

  it("count members by state, silence, exports, conflicts, endpoints and services, as things are when asked", async () => {
    const gauges = createFleetGauges(fleetOf({ ...objects, ...network }), leases, { metrics, clock });
    await clock.advance(90_000);
    const text = await metrics.render();
    for (const line of [
      'fairlead_fleet_member_state{member="a",state="healthy"} 1',
      'fairlead_fleet_member_state{member="b",state="silent"} 1',
      'fairlead_fleet_member_state{member="c",state="joining"} 1',
      'fairlead_fleet_member_silence_seconds{member="b"} 90',
      'fairlead_fleet_exports{member="a"} 1',
      'fairlead_fleet_conflicts{member="a"} 1',
      'fairlead_fleet_endpoints{member="a"} 2',
      "fairlead_fleet_services 1",
      'fairlead_fleet_network_members{profile="p"} 2',
      'fairlead_fleet_network_ready{profile="p"} 1',
      'fairlead_fleet_network_gateways{profile="p"} 1',
      'fairlead_fleet_network_tunnels{member="a",path="relay"} 2',
      'fairlead_fleet_network_tunnels{member="a",path="none"} 1',
      'fairlead_fleet_network_tunnels{member="a",path="direct"} 0',
      'fairlead_fleet_network_free_blocks{profile="p",family="IPv4"} 478',
      'fairlead_fleet_network_free_blocks{profile="p",family="IPv6"} 254',
    ])
      expect(text).toContain(line);
    objects.members.splice(1, 2, member("c", is("Joined", "True"), is("Healthy", "True")));
    const later = await metrics.render();
    expect(later).not.toContain('member="b"');
    expect(later).not.toContain('state="joining"');
    gauges[Symbol.dispose]();
    expect(await metrics.render()).not.toContain("member=");
  });
});
