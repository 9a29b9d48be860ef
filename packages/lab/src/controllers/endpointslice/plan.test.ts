import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Node, Pod, Service } from "@fairlead/kube/api/core/v1/types.ts";
import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { byText } from "@fairlead/base/text.ts";
import { endpointGroups } from "./endpoints.ts";
import { MAX_ENDPOINTS, planSlices, targetOf } from "./plan.ts";

const service: Service = {
  metadata: { name: "hello", namespace: "work", uid: "s-1", labels: { app: "hello" } },
  spec: {
    ports: [{ name: "http", port: 80, targetPort: 8080 }],
    ipFamilies: ["IPv4", "IPv6"],
    selector: { a: "b" },
  },
};
const node = { metadata: { name: "n1", labels: { "topology.kubernetes.io/zone": "z1" } } };
const nodeOf = (name: string): Node | undefined => (name === "n1" ? node : undefined);

interface PodParts {
  readonly ready?: boolean;
  readonly deleting?: boolean;
  readonly spec?: Partial<Pod["spec"]>;
  readonly phase?: "Running" | "Succeeded";
}

function pod(
  number: number,
  { ready = true, deleting = false, spec = {}, phase = "Running" }: PodParts = {},
): Pod {
  return {
    metadata: {
      name: `p-${number}`,
      namespace: "work",
      uid: `u-${number}`,
      ...(deleting ? { deletionTimestamp: "2026-01-01T00:00:00Z" } : {}),
    },
    spec: {
      nodeName: "n1",
      containers: [{ name: "c", ports: [{ name: "web", containerPort: 9000 + (number % 2) }] }],
      ...spec,
    },
    status: {
      phase,
      podIPs: [{ ip: `10.0.${number >> 8}.${number & 255}` }, { ip: `fd00::${(number + 1).toString(16)}` }],
      conditions: [{ type: "Ready", status: ready ? "True" : "False" }],
    },
  };
}

function plan(pods: readonly Pod[], existing: readonly EndpointSlice[] = [], of: Service = service) {
  return planSlices(targetOf(of), endpointGroups({ service: of, pods, nodeOf }), existing);
}

/** What the slices would be afterwards. */
function after(existing: readonly EndpointSlice[], it: ReturnType<typeof planSlices>): EndpointSlice[] {
  const gone = new Set(it.delete.map((slice) => slice.metadata.name));
  const updated = new Map(it.update.map((slice) => [slice.metadata.name, slice]));
  const kept = existing.filter((slice) => !gone.has(slice.metadata.name));
  return [...kept.map((slice) => updated.get(slice.metadata.name) ?? slice), ...it.create];
}

describe("the endpoints of a Service", () => {
  it("are its pods, with conditions, node, zone and target, once for each family", () => {
    const [v4, v6] = plan([pod(1)]).create;
    expect(v4).toMatchObject({
      metadata: {
        namespace: "work",
        labels: {
          app: "hello",
          "kubernetes.io/service-name": "hello",
          "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        },
        ownerReferences: [{ kind: "Service", name: "hello", uid: "s-1", controller: true }],
      },
      addressType: "IPv4",
      ports: [{ name: "http", protocol: "TCP", port: 8080 }],
      endpoints: [
        {
          addresses: ["10.0.0.1"],
          conditions: { ready: true, serving: true, terminating: false },
          nodeName: "n1",
          zone: "z1",
          targetRef: { kind: "Pod", namespace: "work", name: "p-1", uid: "u-1" },
        },
      ],
    });
    expect(v6).toMatchObject({ addressType: "IPv6", endpoints: [{ addresses: ["fd00::2"] }] });
    expect(v4?.metadata.name).toMatch(/^hello-[a-z0-9]{5}$/);
  });

  it.each([
    [{ ready: false }, { ready: false, serving: false, terminating: false }],
    [{ deleting: true }, { ready: false, serving: true, terminating: true }],
    [
      { deleting: true, ready: false },
      { ready: false, serving: false, terminating: true },
    ],
  ])("of a pod that is %j are %j", (parts, conditions) => {
    expect(plan([pod(1, parts)]).create[0]?.endpoints[0]?.conditions).toEqual(conditions);
  });

  it("are ready for any state of the pods if the Service has publishNotReadyAddresses", () => {
    const publishing = { ...service, spec: { ...service.spec, publishNotReadyAddresses: true } };
    const [slice] = plan([pod(1, { ready: false, deleting: true })], [], publishing).create;
    expect(slice?.endpoints[0]?.conditions).toEqual({ ready: true, serving: false, terminating: true });
  });

  it("are not pods that ended, have no address, or whose node is gone", () => {
    const unaddressed = pod(3);
    unaddressed.status = { phase: "Pending" };
    const pods = [pod(1, { phase: "Succeeded" }), pod(2, { spec: { nodeName: "gone" } }), unaddressed];
    expect(plan(pods).create.map((slice) => slice.endpoints)).toEqual([[], []]);
  });

  it("carry a pod's hostname when its subdomain is the Service", () => {
    const named = pod(1, { spec: { hostname: "db-0", subdomain: "hello" } });
    const stranger = pod(2, { spec: { hostname: "db-1", subdomain: "other" } });
    expect(plan([named, stranger]).create[0]?.endpoints.map((it) => it.hostname)).toEqual([
      "db-0",
      undefined,
    ]);
  });

  it("are split by port if a named target port differs between pods", () => {
    const named = {
      ...service,
      spec: { ...service.spec, ports: [{ port: 80, targetPort: "web" }], ipFamilies: ["IPv4" as const] },
    };
    const slices = plan([pod(1), pod(2), pod(3)], [], named).create;
    expect(slices.map((slice) => [slice.ports?.[0]?.port, slice.endpoints.length])).toEqual([
      [9001, 2],
      [9000, 1],
    ]);
  });

  it("have hints for their zone if the Service has trafficDistribution, and only while they are ready", () => {
    const close = { ...service, spec: { ...service.spec, trafficDistribution: "PreferClose" } };
    const hints = plan([pod(1), pod(2, { ready: false })], [], close).create[0]?.endpoints.map(
      (it) => it.hints,
    );
    expect(hints).toEqual([{ forZones: [{ name: "z1" }] }, undefined]);
  });
});

describe("the slices of a Service", () => {
  const pods = (count: number, from = 0): Pod[] => Array.from({ length: count }, (_, at) => pod(from + at));
  const writes = (it: ReturnType<typeof planSlices>) => [
    it.create.length,
    it.update.length,
    it.delete.length,
  ];

  it("hold a hundred endpoints at most", () => {
    const sizes = plan(pods(250)).create.map((slice) => slice.endpoints.length);
    expect(sizes).toEqual([100, 100, 50, 100, 100, 50]);
  });

  it("are one of each family and empty when there are no endpoints, and filled when there are", () => {
    const empty = plan([]).create;
    expect(empty.map((slice) => [slice.addressType, slice.endpoints])).toEqual([
      ["IPv4", []],
      ["IPv6", []],
    ]);
    expect(writes(plan([], empty))).toEqual([0, 0, 0]);
    const first = plan(pods(1), empty);
    expect(writes(first)).toEqual([0, 2, 0]);
    const full = after(empty, first);
    expect(full.map((slice) => [slice.endpoints.length, slice.ports?.[0]?.port])).toEqual([
      [1, 8080],
      [1, 8080],
    ]);
    expect(writes(plan([], full))).toEqual([0, 2, 0]);
    expect(plan(pods(150), empty).create.length + plan(pods(150), empty).delete.length).toBe(6);
  });

  it("change only if a pod changed", () => {
    const existing = plan(pods(250)).create;
    const changed = [...pods(249), pod(249, { ready: false })];
    expect(writes(plan(changed, existing))).toEqual([0, 2, 0]);
  });

  it("take one new pod with one write each, into a slice that has room", () => {
    const existing = plan(pods(250)).create;
    expect(writes(plan(pods(251), existing))).toEqual([0, 2, 0]);
  });

  it("are rewritten when the Service's labels change", () => {
    const existing = plan(pods(1)).create;
    const relabelled = { ...service, metadata: { ...service.metadata, labels: { app: "other" } } };
    const it = plan(pods(1), existing, relabelled);
    expect(writes(it)).toEqual([0, 2, 0]);
    expect(it.update[0]?.metadata.labels?.["app"]).toBe("other");
  });

  it("of ports that the Service no longer has go", () => {
    const existing = plan(pods(1)).create;
    const moved = { ...service, spec: { ...service.spec, ports: [{ port: 81 }] } };
    expect(writes(plan(pods(1), existing, moved))).toEqual([2, 0, 2]);
  });

  const somePods = fc.uniqueArray(fc.integer({ min: 0, max: 400 }), { maxLength: 260 });
  it("converge to each endpoint once from any state, and are then not written again", () => {
    fc.assert(
      fc.property(somePods, somePods, fc.boolean(), (before, now, ready) => {
        const existing = plan(before.map((it) => pod(it))).create;
        const wanted = now.map((it) => pod(it, { ready }));
        const slices = after(existing, plan(wanted, existing));
        for (const family of ["IPv4", "IPv6"]) {
          const own = slices.filter((slice) => slice.addressType === family);
          const held = own.flatMap((slice) => slice.endpoints.map((it) => it.targetRef?.name ?? ""));
          expect(held.toSorted(byText)).toEqual(wanted.map((it) => it.metadata.name).toSorted(byText));
          expect(Math.max(...own.map((slice) => slice.endpoints.length))).toBeLessThanOrEqual(MAX_ENDPOINTS);
        }
        expect(new Set(slices.map((slice) => slice.metadata.name)).size).toBe(slices.length);
        expect(writes(plan(wanted, slices))).toEqual([0, 0, 0]);
      }),
      { numRuns: 60 },
    );
  });

  it("keep endpoints that stay in the slice that has them", () => {
    fc.assert(
      fc.property(somePods, somePods, (before, now) => {
        const existing = plan(before.map((it) => pod(it))).create;
        const placeOf = (slices: readonly EndpointSlice[]) =>
          new Map(
            slices.flatMap((slice) => slice.endpoints.map((it) => [it.addresses[0], slice.metadata.name])),
          );
        const [old, next] = [
          placeOf(existing),
          placeOf(
            after(
              existing,
              plan(
                now.map((it) => pod(it)),
                existing,
              ),
            ),
          ),
        ];
        for (const [address, name] of next) if (old.has(address)) expect(name).toBe(old.get(address));
      }),
      { numRuns: 60 },
    );
  });
});
