import { describe, expect, it } from "vitest";
import type { EndpointSliceExportSpec } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { readExport, writeExportFacts } from "./exported-service.ts";
import { findEndpointProblem, importPorts } from "./slice.ts";
import { readWeight } from "./weight.ts";

const reference = {
  clusterId: "east",
  kind: "Service",
  namespace: "work",
  name: "hello",
  resourceVersion: "1",
  generation: 1,
  uid: "u",
  namespacedName: "work/hello",
};

describe("the weight annotation", () => {
  it.each([
    [undefined, 1],
    ["0", 0],
    ["1000", 1000],
    ["+7", 7],
  ])("%s means %d", (text, weight) => {
    expect(readWeight(text)).toEqual({ kind: "valid", weight });
  });
  it.each(["", "-1", "1001", "1.5", "0x1", "ten", " 1"])("%j is refused", (text) => {
    expect(readWeight(text).kind).toBe("invalid");
  });
});

describe("an InternalServiceExport", () => {
  it("carries a Service to the hub and back", () => {
    const facts = writeExportFacts(
      {
        metadata: { name: "hello", namespace: "work" },
        spec: {
          type: "NodePort",
          clusterIP: "10.0.0.1",
          ipFamilies: ["IPv6"],
          ports: [{ name: "http", port: 80, targetPort: "web", nodePort: 30_000 }],
          sessionAffinity: "ClientIP",
          sessionAffinityConfig: { clientIP: { timeoutSeconds: 10 } },
          trafficDistribution: "PreferClose",
        },
      },
      [{ api: "mcs", createdAt: "2026-01-01T00:00:00Z", labels: { a: "b" }, annotations: {} }],
    );
    expect(facts.ports).toEqual([{ name: "http", protocol: "TCP", port: 80, targetPort: "web" }]);
    const read = readExport({
      metadata: { name: "x" },
      spec: { ...facts, serviceReference: reference },
    });
    expect(read).toMatchObject({
      cluster: "east",
      headless: false,
      ipFamilies: ["IPv6"],
      sessionAffinity: "ClientIP",
      affinityTimeoutSeconds: 10,
      trafficDistribution: "PreferClose",
      createdAt: "2026-01-01T00:00:00Z",
      apis: [{ api: "mcs", labels: { a: "b" } }],
    });
  });

  it("of an agent that does not report the API came through the fleet API when it was made", () => {
    const read = readExport({
      metadata: { name: "x", creationTimestamp: "2026-02-02T00:00:00Z" },
      spec: { ports: [{ port: 80 }], serviceReference: reference },
    });
    expect(read?.apis).toEqual([
      { api: "fleet", createdAt: "2026-02-02T00:00:00Z", labels: {}, annotations: {} },
    ]);
  });

  it("through both APIs is as old as the older of them", () => {
    const read = readExport({
      metadata: { name: "x" },
      spec: {
        ports: [],
        serviceReference: reference,
        doors: [
          { group: "networking.fleet.azure.com", createdAt: "2026-02-02T00:00:00Z" },
          { group: "multicluster.x-k8s.io", createdAt: "2026-01-01T00:00:00Z" },
          { group: "unknown.example", createdAt: "2020-01-01T00:00:00Z" },
        ],
      },
    });
    expect(read?.createdAt).toBe("2026-01-01T00:00:00Z");
    expect(read?.apis.map((it) => it.api)).toEqual(["fleet", "mcs"]);
  });
});

describe("a slice of another cluster", () => {
  const slice = (addressType: "IPv4" | "IPv6", ...addresses: string[]): EndpointSliceExportSpec => ({
    addressType,
    endpoints: addresses.map((it) => ({ addresses: [it] })),
    endpointSliceReference: reference,
    ownerServiceReference: { namespace: "work", name: "hello", namespacedName: "work/hello" },
  });

  it("keeps the ports that its cluster exposes, under the names of the import", () => {
    const ports = [{ name: "web", port: 8080 }, { name: "debug", port: 6060 }, { port: 1 }];
    expect(
      importPorts(ports, [
        { name: "web", importedAs: "http" },
        { name: "", importedAs: "x" },
      ]),
    ).toEqual([
      { name: "http", port: 8080 },
      { name: "x", port: 1 },
    ]);
  });

  it("may hold addresses of pods", () => {
    expect(findEndpointProblem(slice("IPv4", "10.1.2.3"))).toBeUndefined();
    expect(findEndpointProblem(slice("IPv6", "fd00::1"))).toBeUndefined();
  });

  it.each([
    ["IPv4", "127.0.0.1"],
    ["IPv4", "169.254.169.254"],
    ["IPv4", "224.0.0.1"],
    ["IPv4", "0.0.0.0"],
    ["IPv4", "255.255.255.255"],
    ["IPv4", "fd00::1"],
    ["IPv4", "10.0.0.1/32"],
    ["IPv4", "pod.example"],
    ["IPv6", "::1"],
    ["IPv6", "fe80::1"],
    ["IPv6", "ff02::1"],
    ["IPv6", "::ffff:127.0.0.1"],
    ["IPv6", "10.0.0.1"],
  ] as const)("of %s may not hold %s", (family, address) => {
    expect(findEndpointProblem(slice(family, "10.0.0.9", address))).toBeDefined();
  });

  it("is refused with endpoints without an address, or with more than a slice allows", () => {
    expect(findEndpointProblem({ ...slice("IPv4"), endpoints: [{ addresses: [] }] })).toContain(
      "0 addresses",
    );
    const many = Array.from({ length: 1001 }, () => "10.0.0.1");
    expect(findEndpointProblem(slice("IPv4", ...many))).toContain("1001 endpoints");
  });
});
