import { beforeEach, describe, expect, it } from "vitest";
import type { ServiceSpec } from "@fairlead/kube/api/core/v1/types.ts";
import type { ApiObject } from "#values/object.ts";
import { define } from "../define.ts";
import { FakeKind } from "../strategy.fake.ts";
import { ServiceAllocations } from "./allocations.ts";
import { serviceStrategy } from "./strategy.ts";

const PORTS = [{ port: 80 }];

function service(spec: object, name = "web"): ApiObject {
  return { apiVersion: "v1", kind: "Service", metadata: { name, namespace: "n" }, spec };
}

function kindWith(...serviceRanges: readonly string[]): FakeKind {
  const strategy = serviceStrategy(new ServiceAllocations({ serviceRanges }));
  return new FakeKind(define("v1", "Service", { plural: "services", strategy }));
}

describe("a Service", () => {
  let services = kindWith("10.96.0.0/16", "fd00:96::/112");
  beforeEach(() => {
    services = kindWith("10.96.0.0/16", "fd00:96::/112");
  });
  const write = (spec: object, name = "web"): ServiceSpec => {
    const { object, errors } = services.write(service(spec, name));
    expect(errors).toEqual([]);
    return object["spec"] as ServiceSpec;
  };
  const errorsOf = (spec: object, name = "web"): readonly string[] => services.errorsOf(service(spec, name));

  it("gets the defaults of upstream", () => {
    const spec = write({ ports: PORTS, selector: { app: "web" } });
    expect(spec).toEqual({
      type: "ClusterIP",
      sessionAffinity: "None",
      internalTrafficPolicy: "Cluster",
      ipFamilies: ["IPv4"],
      ipFamilyPolicy: "SingleStack",
      clusterIP: expect.stringMatching(/^10\.96\./) as string,
      clusterIPs: [spec.clusterIP],
      ports: [{ port: 80, protocol: "TCP", targetPort: 80 }],
      selector: { app: "web" },
    });
    expect(services.get("n/web")?.["status"]).toEqual({ loadBalancer: {} });
  });

  it("gets an address of each family when it prefers or requires both", () => {
    for (const ipFamilyPolicy of ["PreferDualStack", "RequireDualStack"]) {
      const spec = write({ ports: PORTS, ipFamilyPolicy }, ipFamilyPolicy.toLowerCase());
      expect(spec.ipFamilies).toEqual(["IPv4", "IPv6"]);
      expect(spec.clusterIPs).toEqual([spec.clusterIP, expect.stringMatching(/^fd00:96::/)]);
    }
  });

  it("gets the families in the order of spec.ipFamilies", () => {
    const spec = write({ ports: PORTS, ipFamilies: ["IPv6"], ipFamilyPolicy: "PreferDualStack" });
    expect(spec.ipFamilies).toEqual(["IPv6", "IPv4"]);
    expect(spec.clusterIP).toMatch(/^fd00:96::/);
    expect(errorsOf({ ports: PORTS, ipFamilies: ["IPv6", "IPv4"] }, "other")).toEqual([
      "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
    ]);
  });

  it("in a single-stack cluster gets one family with PreferDualStack, and is rejected with RequireDualStack", () => {
    services = kindWith("10.96.0.0/16");
    expect(write({ ports: PORTS, ipFamilyPolicy: "PreferDualStack" }).ipFamilies).toEqual(["IPv4"]);
    expect(errorsOf({ ports: PORTS, ipFamilyPolicy: "RequireDualStack" }, "other")).toEqual([
      'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services',
    ]);
    expect(errorsOf({ ports: PORTS, ipFamilies: ["IPv6"] }, "other")).toEqual([
      'spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster',
    ]);
  });

  it("may be headless without ports, and dual-stack if it has no selector", () => {
    expect(write({ clusterIP: "None", selector: { a: "b" } }, "a")).toMatchObject({
      clusterIPs: ["None"],
      ipFamilies: ["IPv4"],
      ipFamilyPolicy: "SingleStack",
    });
    expect(write({ clusterIP: "None" }, "b")).toMatchObject({
      ipFamilies: ["IPv4", "IPv6"],
      ipFamilyPolicy: "RequireDualStack",
    });
  });

  it("keeps its addresses and node ports when a client replaces the spec without them", () => {
    const before = write({ type: "NodePort", ports: PORTS, ipFamilyPolicy: "PreferDualStack" });
    const after = write({ type: "NodePort", ports: [{ port: 81 }] });
    expect(after.clusterIPs).toEqual(before.clusterIPs);
    expect(after.ports?.[0]?.nodePort).toBe(before.ports?.[0]?.nodePort);
    expect([after.ipFamilies, after.ipFamilyPolicy]).toEqual([before.ipFamilies, "PreferDualStack"]);
  });

  it("cannot change its address", () => {
    write({ ports: PORTS, clusterIP: "10.96.0.10" });
    expect(errorsOf({ ports: PORTS, clusterIP: "10.96.0.11" })).toEqual([
      'spec.clusterIPs[0]: Invalid value: ["10.96.0.11"]: may not change once set',
    ]);
  });

  it("gets a second address when it becomes dual-stack, and releases it with SingleStack", () => {
    const single = write({ ports: PORTS });
    const dual = write({ ...single, ipFamilyPolicy: "PreferDualStack" });
    expect(dual.clusterIPs).toEqual([single.clusterIP, expect.stringMatching(/^fd00:96::/)]);
    const again = write({ ...dual, ipFamilyPolicy: "SingleStack" });
    expect([again.clusterIPs, again.ipFamilies]).toEqual([[single.clusterIP], ["IPv4"]]);
  });

  it("is rejected with an address or port of another Service, until that Service is deleted", () => {
    write({ type: "NodePort", clusterIP: "10.96.0.10", ports: [{ port: 80, nodePort: 30_001 }] }, "first");
    const second = { type: "NodePort", clusterIP: "10.96.0.10", ports: [{ port: 80, nodePort: 30_001 }] };
    expect(errorsOf(second)).toEqual([
      'spec.clusterIPs: Invalid value: ["10.96.0.10"]: failed to allocate IP 10.96.0.10: provided IP is already allocated',
    ]);
    services.remove("n/first");
    expect(errorsOf(second)).toEqual([]);
  });

  it("releases its address when it becomes ExternalName, and gets one when it changes back", () => {
    const before = write({ ports: PORTS });
    const named = write({ ...before, type: "ExternalName", externalName: "example.com" });
    expect(named.clusterIP ?? named.clusterIPs ?? named.ipFamilies).toBeUndefined();
    const taken = write({ ports: PORTS, clusterIP: before.clusterIP }, "other");
    expect(taken.clusterIP).toBe(before.clusterIP);
    const after = write({ ...named, type: "ClusterIP" });
    expect(after.externalName).toBe("example.com");
    expect(after.clusterIP).toMatch(/^10\.96\./);
  });

  it("of type LoadBalancer has a node port for each port, unless allocateLoadBalancerNodePorts is false", () => {
    const ports = [
      { name: "a", port: 80 },
      { name: "b", port: 81 },
    ];
    const spec = write({ type: "LoadBalancer", ports, externalTrafficPolicy: "Local" }, "a");
    const nodePorts = [...(spec.ports ?? []).map((it) => it.nodePort), spec.healthCheckNodePort];
    expect(new Set(nodePorts).size).toBe(3);
    expect(nodePorts.every((it) => it !== undefined && it >= 30_000 && it <= 32_767)).toBe(true);
    const bare = write({ type: "LoadBalancer", ports, allocateLoadBalancerNodePorts: false }, "b");
    expect((bare.ports ?? []).some((it) => it.nodePort !== undefined)).toBe(false);
    const cluster = write({ ...spec, type: "ClusterIP" }, "a");
    expect(
      cluster.externalTrafficPolicy ?? cluster.healthCheckNodePort ?? cluster.ports?.[0]?.nodePort,
    ).toBeUndefined();
  });

  it("has a ClientIP affinity timeout of three hours by default", () => {
    const spec = write({ ports: PORTS, sessionAffinity: "ClientIP" });
    expect(spec.sessionAffinityConfig).toEqual({ clientIP: { timeoutSeconds: 10_800 } });
  });

  it.each<[string, object, string]>([
    ["ports", {}, "spec.ports: Required value"],
    ["names for several ports", { ports: [{ port: 1 }, { port: 2 }] }, "spec.ports[0].name: Required value"],
    [
      "ports that differ",
      {
        ports: [
          { name: "a", port: 1 },
          { name: "b", port: 1 },
        ],
      },
      'spec.ports[1]: Duplicate value: {"protocol":"TCP","port":1}',
    ],
    [
      "a type",
      { type: "X", ports: PORTS },
      'spec.type: Unsupported value: "X": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"',
    ],
    ["an external name", { type: "ExternalName" }, "spec.externalName: Required value"],
    [
      "no node port inside of the cluster",
      { ports: [{ port: 1, nodePort: 30_001 }] },
      "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
    ],
    [
      "a node port in range",
      { type: "NodePort", ports: [{ port: 1, nodePort: 80 }] },
      "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767",
    ],
    [
      "an address of its family",
      { ports: PORTS, ipFamilies: ["IPv6"], clusterIP: "10.96.0.9" },
      'spec.clusterIPs[0]: Invalid value: "10.96.0.9": expected an IPv6 value as indicated by `ipFamilies[0]`',
    ],
    [
      "an address that is one",
      { ports: PORTS, clusterIP: "10.96.0.x" },
      'spec.clusterIPs[0]: Invalid value: "10.96.0.x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
    ],
    [
      "a load balancer for its fields",
      { ports: PORTS, loadBalancerClass: "a/b" },
      "spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'",
    ],
    [
      "no headless node ports",
      { type: "NodePort", clusterIP: "None", ports: PORTS },
      "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services",
    ],
    [
      "a known distribution",
      { ports: PORTS, trafficDistribution: "Far" },
      'spec.trafficDistribution: Unsupported value: "Far": supported values: "PreferClose", "PreferSameZone", "PreferSameNode"',
    ],
    [
      "external addresses that are some",
      { ports: PORTS, externalIPs: ["127.0.0.1"] },
      'spec.externalIPs[0]: Invalid value: "127.0.0.1": may not be unspecified, loopback, link-local or multicast',
    ],
  ])("requires %s", (_what, spec, error) => {
    expect(errorsOf(spec)).toContain(error);
  });
});
