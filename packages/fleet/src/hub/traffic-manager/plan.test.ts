import { defined } from "@fairlead/base/defined.ts";
import type { DrainMode } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { array, assert, integer, property } from "fast-check";
import { describe, expect, it } from "vitest";
import type { InternalServiceExportSpec } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import type { TrafficManagerBackend } from "#api/networking.fleet.azure.com/v1beta1/traffic-manager.ts";
import { type BackendsView, planBackends } from "./plan.ts";
import { permittedTargets } from "./targets.ts";

type Facts = Partial<InternalServiceExportSpec>;

const PUBLIC: Facts = { type: "LoadBalancer", loadBalancerIngress: [{ ip: "192.0.2.1" }] };

function backend(weight: number | undefined, more: { readonly name?: string; readonly at?: string } = {}) {
  const { name = "hello", at = "2026-01-01T00:00:00Z" } = more;
  return {
    metadata: { namespace: "work", name, uid: `UID-${name}`, creationTimestamp: at },
    spec: {
      profile: { name: "profile" },
      backend: { name: "hello" },
      ...defined({ weight }),
    },
  } satisfies TrafficManagerBackend;
}

function view(exports: Readonly<Record<string, Facts>>, more: Partial<BackendsView> = {}): BackendsView {
  return {
    backends: [backend(100)],
    serviceImport: () => ({
      metadata: { namespace: "work", name: "hello" },
      status: { clusters: Object.keys(exports).map((cluster) => ({ cluster })) },
    }),
    exports: () =>
      Object.entries(exports).map(([cluster, facts]) => ({
        metadata: { namespace: `fleet-member-${cluster}`, name: "work-hello" },
        spec: { ports: [], serviceReference: {} as never, ...facts },
      })),
    drain: () => undefined,
    permits: permittedTargets([]),
    health: () => "Online",
    ...more,
  };
}

function planOne(of: BackendsView) {
  const [plan] = planBackends(of);
  if (plan === undefined) throw new Error("no plan");
  return plan;
}

const weights = (of: BackendsView): (number | undefined)[] =>
  planOne(of).endpoints.map((it) => it.status.weight);

describe("weights of endpoints", () => {
  it("are the parts of the backend's weight, rounded up: 500 over 100 and 200 is 167 and 334", () => {
    const exports = { a: { ...PUBLIC, weight: 100 }, b: { ...PUBLIC, weight: 200 } };
    expect(weights(view(exports, { backends: [backend(500)] }))).toEqual([167, 334]);
  });

  it("are those of the export that the hub accepts, where a cluster sent two of one service", () => {
    const of = view({ a: { ...PUBLIC, weight: 3 }, b: PUBLIC });
    const refused = { metadata: { namespace: "fleet-member-a", name: "work-hello-2" } };
    const spec = { ports: [], serviceReference: {} as never, ...PUBLIC, weight: 500 };
    for (const exports of [
      [...of.exports("hello"), { ...refused, spec }],
      [{ ...refused, spec }, ...of.exports("hello")],
    ])
      expect(weights({ ...of, exports: () => exports })).toEqual([75, 25]);
  });

  it("default to 1", () => {
    expect(weights(view({ a: PUBLIC, b: PUBLIC }, { backends: [backend(undefined)] }))).toEqual([1, 1]);
  });

  it("are shared among the valid exports alone", () => {
    const exports = {
      a: { ...PUBLIC, weight: 1 },
      b: { ...PUBLIC, weight: 3 },
      c: { type: "ClusterIP", weight: 96 },
    };
    expect(weights(view(exports))).toEqual([25, 75]);
  });

  it("sum up to the backend's, and at most one more for each endpoint but the first", () => {
    const share = integer({ min: 0, max: 1000 });
    assert(
      property(
        integer({ min: 1, max: 1000 }),
        array(share, { minLength: 1, maxLength: 12 }),
        (total, parts) => {
          const exports = Object.fromEntries(parts.map((weight, at) => [`c${at}`, { ...PUBLIC, weight }]));
          const { endpoints } = planOne(view(exports, { backends: [backend(total)] }));
          const positive = parts.filter((it) => it > 0);
          expect(endpoints).toHaveLength(positive.length);
          if (positive.length === 0) return;
          const sum = endpoints.reduce((all, it) => all + (it.status.weight ?? 0), 0);
          expect(sum).toBeGreaterThanOrEqual(total);
          expect(sum).toBeLessThanOrEqual(total + positive.length - 1);
          const whole = positive.reduce((all, it) => all + it, 0);
          for (const { status, target } of endpoints) {
            const exact = (total * (status.from?.weight ?? 0)) / whole;
            expect(status.weight).toBe(target.weight);
            expect((status.weight ?? 0) - exact).toBeGreaterThanOrEqual(0);
            expect((status.weight ?? 0) - exact).toBeLessThan(1);
          }
        },
      ),
    );
  });
});

describe("a backend", () => {
  it("whose ServiceImport is missing is invalid", () => {
    const plan = planOne(view({ a: PUBLIC }, { serviceImport: () => undefined }));
    expect(plan.accepted).toMatchObject({ status: "False", reason: "Invalid" });
    expect(plan.endpoints).toEqual([]);
  });

  it("of weight 0 is accepted without endpoints, whatever its exports are", () => {
    const plan = planOne(view({ a: { type: "ClusterIP" } }, { backends: [backend(0)] }));
    expect(plan.accepted).toMatchObject({ status: "True", reason: "Accepted" });
    expect(plan.endpoints).toEqual([]);
  });

  it("of weight 0 whose ServiceImport is missing is invalid: that is looked at first", () => {
    const plan = planOne(view({}, { serviceImport: () => undefined, backends: [backend(0)] }));
    expect(plan.accepted).toMatchObject({ status: "False", reason: "Invalid" });
  });

  it("waits while no export is accepted, or one that is accepted is not there", () => {
    expect(planOne(view({})).accepted).toMatchObject({ status: "Unknown", reason: "Pending" });
    const gone = planOne(view({ a: PUBLIC, b: PUBLIC }, { exports: () => [] }));
    expect(gone.accepted).toMatchObject({ status: "Unknown", reason: "Pending" });
    expect(gone.endpoints).toEqual([]);
  });

  it.each<[string, Facts, string]>([
    ["of another type", { type: "ClusterIP" }, "service type"],
    [
      "of a load balancer inside the network",
      { ...PUBLIC, isInternalLoadBalancer: true },
      "internal load balancer",
    ],
    ["of a load balancer without an address", { type: "LoadBalancer" }, "no address yet"],
    [
      "told of by an agent that knows Azure's ids alone",
      { type: "LoadBalancer", publicIPResourceID: "/x", isDNSLabelConfigured: true },
      "reports the resource",
    ],
    [
      "with an address that is not a host address",
      { type: "LoadBalancer", loadBalancerIngress: [{ ip: "169.254.169.254" }] },
      "no address to which this hub connects",
    ],
    [
      "with an address of a private network that is not permitted",
      { type: "LoadBalancer", loadBalancerIngress: [{ ip: "10.96.0.1" }] },
      "no address to which this hub connects: see --traffic-private-ranges",
    ],
    [
      "with a domain that leads to the hub itself",
      { type: "LoadBalancer", loadBalancerIngress: [{ hostname: "hub.localhost" }] },
      "no address yet",
    ],
  ])("reports the first export %s, and keeps the others", (_, facts, why) => {
    const plan = planOne(view({ b: facts, c: facts, d: PUBLIC }));
    expect(plan.accepted).toMatchObject({ status: "False", reason: "Invalid" });
    expect(plan.accepted.message).toMatch(/^2 service\(s\).*from b: /);
    expect(plan.accepted.message).toContain(why);
    expect(plan.endpoints.map((it) => it.status.from?.cluster)).toEqual(["d"]);
  });

  it("names its endpoints as others do, in lower case, and where they lead", () => {
    const exports = {
      a: { type: "LoadBalancer", loadBalancerIngress: [{ ip: "2001:DB8::1" }, { ip: "192.0.2.1" }] },
      b: { type: "LoadBalancer", loadBalancerIngress: [{ hostname: "LB.example.net" }] },
    };
    expect(planOne(view(exports)).endpoints).toMatchObject([
      {
        status: { name: "fleet-uid-hello#hello#a", target: "192.0.2.1", from: { cluster: "a", weight: 1 } },
        target: { addresses: ["192.0.2.1", "2001:db8::1"] },
      },
      { status: { target: "lb.example.net" }, target: { hostname: "lb.example.net" } },
    ]);
  });

  it("for a service that an older one has is invalid, until the older one goes or weighs nothing", () => {
    const [old, young] = [backend(100), backend(100, { name: "again", at: "2026-01-02T00:00:00Z" })];
    const both = planBackends(view({ a: PUBLIC }, { backends: [young, old] }));
    expect(both.map((it) => [it.backend.metadata.name, it.accepted.status, it.endpoints.length])).toEqual([
      ["hello", "True", 1],
      ["again", "False", 0],
    ]);
    expect(both[1]?.accepted.message).toContain("hello");
    const light = planBackends(view({ a: PUBLIC }, { backends: [young, backend(0)] }));
    expect(light.map((it) => it.endpoints.length)).toEqual([0, 1]);
  });

  it("says in its message which endpoints are degraded", () => {
    const health: BackendsView["health"] = (name) => (name.endsWith("#b") ? "Degraded" : "Online");
    const plan = planOne(view({ a: PUBLIC, b: PUBLIC }, { health }));
    expect(plan.accepted).toMatchObject({ status: "True" });
    expect(plan.accepted.message).toContain("degraded: b");
    expect(plan.endpoints.map((it) => it.target.degraded)).toEqual([undefined, true]);
  });
});

describe("who serves first", () => {
  it("is decided by the backend's priority, then by the export's", () => {
    const exports = { a: { ...PUBLIC, priority: 2 }, b: PUBLIC };
    const first = backend(1);
    const second = {
      ...backend(1),
      metadata: { ...backend(1).metadata, annotations: { "fairlead.dev/priority": "1" } },
    };
    const of = (it: TrafficManagerBackend) =>
      planOne(view(exports, { backends: [it] })).endpoints.map((one) => one.target.priority ?? 0);
    const [firstA = -1, firstB = -1] = of(first);
    const [secondA = -1, secondB = -1] = of(second);
    expect([secondA, firstA, secondB, firstB].toSorted((x, y) => x - y)).toEqual([
      firstB,
      firstA,
      secondB,
      secondA,
    ]);
    expect(new Set([firstA, firstB, secondA, secondB]).size).toBe(4);
  });

  it.each(["-1", "1001", "first", "1.5"])(
    "counts 0 if the annotation is %s, and the condition of the backend reports it",
    (text) => {
      const metadata = { ...backend(1).metadata, annotations: { "fairlead.dev/priority": text } };
      const plan = planOne(view({ a: PUBLIC }, { backends: [{ ...backend(1), metadata }] }));
      expect(plan.endpoints[0]?.target.priority).toBeUndefined();
      expect(plan.accepted).toMatchObject({ status: "True" });
      expect(plan.accepted.message).toContain("fairlead.dev/priority");
    },
  );

  it.each<[DrainMode, readonly (boolean | undefined)[]]>([
    ["Soft", [true, undefined]],
    ["Hard", [undefined]],
  ])("is not a cluster that is drained (%s)", (kind, expected) => {
    const drain = (cluster: string) => (cluster === "a" ? kind : undefined);
    expect(
      planOne(view({ a: PUBLIC, b: PUBLIC }, { drain })).endpoints.map((it) => it.target.drained),
    ).toEqual(expected);
  });
});
