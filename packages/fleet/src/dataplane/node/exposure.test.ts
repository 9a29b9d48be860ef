import { describe, expect, it } from "vitest";
import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { planExposed, planPods } from "./exposure.ts";

const ALLOCATIONS = new Map([
  ["uid-a", { podUID: "uid-a", ipv4: "10.112.8.2", ipv6: "fd00::2" }],
  ["uid-b", { podUID: "uid-b", ipv4: "10.112.8.3", ipv6: "fd00::3" }],
]);
const isExported = (service: string): boolean => service === "work/hello";

function slice(labels: Readonly<Record<string, string>>, more: Partial<EndpointSlice> = {}): EndpointSlice {
  return {
    metadata: { namespace: "work", name: "hello-abcde", labels },
    addressType: "IPv4",
    ports: [{ name: "http", port: 8080 }],
    endpoints: [{ addresses: ["10.1.0.2"], targetRef: { kind: "Pod", uid: "uid-a" } }],
    ...more,
  };
}
const HELLO = { "kubernetes.io/service-name": "hello" };
const exposed = (...slices: readonly EndpointSlice[]) => planExposed(slices, isExported, ALLOCATIONS);

describe("what other clusters may reach", () => {
  it("is each port of each endpoint of an exported Service, at the fleet address of its family", () => {
    const ports = [
      { name: "http", port: 8080 },
      { name: "dns", protocol: "UDP" as const, port: 53 },
    ];
    expect(exposed(slice(HELLO, { ports }), slice(HELLO, { addressType: "IPv6" }))).toEqual([
      { address: "10.112.8.2", protocol: "TCP", port: 8080 },
      { address: "10.112.8.2", protocol: "UDP", port: 53 },
      { address: "fd00::2", protocol: "TCP", port: 8080 },
    ]);
  });

  it("is the same for a headless Service", () => {
    const headless = { ...HELLO, "service.kubernetes.io/headless": "" };
    expect(exposed(slice(headless))).toEqual([{ address: "10.112.8.2", protocol: "TCP", port: 8080 }]);
  });

  it("is nothing of other Services, of imported slices, and of endpoints without a fleet address", () => {
    const none = [
      slice({ "kubernetes.io/service-name": "hidden" }),
      slice({ "multicluster.kubernetes.io/service-name": "hello" }),
      slice(HELLO, { metadata: { namespace: "other", name: "hello-abcde", labels: HELLO } }),
      slice(HELLO, { endpoints: [{ addresses: ["10.1.0.9"], targetRef: { kind: "Pod", uid: "uid-x" } }] }),
      slice(HELLO, { endpoints: [{ addresses: ["10.1.0.9"] }] }),
      slice(HELLO, { ports: [{ name: "all" }] }),
    ];
    expect(exposed(...none)).toEqual([]);
  });
});

it("translates addresses of pods of both families", () => {
  const pod = {
    metadata: { name: "a", uid: "uid-a" },
    status: { podIPs: [{ ip: "10.1.0.2" }, { ip: "fd01::2" }] },
  };
  expect(planPods([pod], ALLOCATIONS, () => true)).toEqual([
    { fleetAddress: "10.112.8.2", podAddress: "10.1.0.2", isAttached: true },
    { fleetAddress: "fd00::2", podAddress: "fd01::2", isAttached: true },
  ]);
});
