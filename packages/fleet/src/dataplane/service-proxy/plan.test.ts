import { describe, expect, it } from "vitest";
import type { Service, ServiceSpec } from "@fairlead/kube/api/core/v1/types.ts";
import type { Endpoint, EndpointPort, EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { type PlannedElement, planService, serviceNameOf } from "./plan.ts";

function service(spec: ServiceSpec, ingress: { ip: string; ipMode?: string }[] = []): Service {
  return {
    metadata: { name: "web", namespace: "work" },
    spec: { type: "ClusterIP", clusterIPs: ["10.96.0.1"], ports: [{ name: "http", port: 80 }], ...spec },
    status: { loadBalancer: { ingress } },
  };
}

function slice(endpoints: Endpoint[], ports: EndpointPort[] = [{ name: "http", port: 8080 }]): EndpointSlice {
  return { metadata: { name: "s" }, addressType: "IPv4", endpoints, ports };
}

const ready = (ip: string, nodeName = "other"): Endpoint => ({ addresses: [ip], nodeName });
const terminating = (ip: string): Endpoint => ({
  addresses: [ip],
  conditions: { ready: false, serving: true, terminating: true },
});

function plan(of: Service, ...slices: EndpointSlice[]): readonly string[] {
  const node = { name: "here", zone: "zone-1", addresses: ["192.0.2.33"] };
  return planService({ service: of, slices, node }).map(render);
}

function render({ set, key, value }: PlannedElement): string {
  return value === "" ? `${set} ${key}` : `${set} ${key} : ${value}`;
}

/** Those for an address: as a Service has one of its cluster in each family that it is served in, there are others. */
function elementsAt(address: string, elements: readonly string[]): readonly string[] {
  return elements.filter(
    (it) => it.split(/ (?:\d+ \. )?/)[1] === address || it.includes(` . ${address} . tcp`),
  );
}

describe("the plan of a Service", () => {
  it("is a chain by the number of endpoints and one slot for each", () => {
    expect(plan(service({}), slice([ready("10.1.0.2"), ready("10.1.0.1")]))).toEqual([
      "virtual-4 10.96.0.1",
      "services-4 10.96.0.1 . tcp . 80 : goto pick-2",
      "endpoints-4 0 . 10.96.0.1 . tcp . 80 : 10.1.0.1 . 8080",
      "endpoints-4 1 . 10.96.0.1 . tcp . 80 : 10.1.0.2 . 8080",
    ]);
  });

  it("takes the endpoint's port from its own slice, and only from a slice with a port of that name and protocol", () => {
    const elements = plan(
      service({}),
      slice([ready("10.1.0.1")], [{ name: "http", port: 1 }]),
      slice([ready("10.2.0.1")], [{ name: "http", port: 2 }]),
      slice([ready("10.3.0.1")], [{ name: "other", port: 3 }]),
      slice([ready("10.4.0.1")], [{ name: "http", protocol: "UDP", port: 4 }]),
    );
    expect(elements.filter((it) => it.startsWith("endpoints"))).toEqual([
      "endpoints-4 0 . 10.96.0.1 . tcp . 80 : 10.1.0.1 . 1",
      "endpoints-4 1 . 10.96.0.1 . tcp . 80 : 10.2.0.1 . 2",
    ]);
  });

  it("counts an endpoint of two slices once", () => {
    const elements = plan(service({}), slice([ready("10.1.0.1")]), slice([ready("10.1.0.1")]));
    expect(elements).toContain("services-4 10.96.0.1 . tcp . 80 : goto pick-1");
  });

  it("refuses without endpoints", () => {
    expect(plan(service({}))).toContain("services-4 10.96.0.1 . tcp . 80 : goto refuse");
    const notReady = { addresses: ["10.1.0.1"], conditions: { ready: false, serving: true } };
    expect(plan(service({}), slice([notReady]))).toContain("services-4 10.96.0.1 . tcp . 80 : goto refuse");
  });

  it("reads unknown readiness as ready", () => {
    const unknown = { addresses: ["10.1.0.1"], conditions: {} };
    expect(plan(service({}), slice([unknown]))).toContain("services-4 10.96.0.1 . tcp . 80 : goto pick-1");
  });

  it("uses endpoints that serve while they terminate only where none is ready (KEP-1669)", () => {
    const both = plan(service({}), slice([terminating("10.1.0.1"), ready("10.1.0.2")]));
    expect(both.filter((it) => it.startsWith("endpoints"))).toEqual([
      "endpoints-4 0 . 10.96.0.1 . tcp . 80 : 10.1.0.2 . 8080",
    ]);
    expect(plan(service({}), slice([terminating("10.1.0.1")]))).toContain(
      "endpoints-4 0 . 10.96.0.1 . tcp . 80 : 10.1.0.1 . 8080",
    );
  });

  it("gives each family its own slices", () => {
    const v6: EndpointSlice = { ...slice([ready("fd00::1")]), addressType: "IPv6" };
    const elements = plan(
      service({ clusterIPs: ["10.96.0.1", "fd00:96::0:1"] }),
      slice([ready("10.1.0.1")]),
      v6,
    );
    expect(elements).toContain("endpoints-4 0 . 10.96.0.1 . tcp . 80 : 10.1.0.1 . 8080");
    expect(elements).toContain("endpoints-6 0 . fd00:96::1 . tcp . 80 : fd00::1 . 8080");
  });

  it("serves a load balancer's address and masquerades there, unless the policy is Local", () => {
    const spec = { type: "LoadBalancer" } as const;
    const cluster = plan(service(spec, [{ ip: "192.0.2.1" }]), slice([ready("10.1.0.1")]));
    expect(cluster).toContain("masquerade-4 192.0.2.1 . tcp . 80");
    expect(cluster).toContain("services-4 192.0.2.1 . tcp . 80 : goto pick-1");
    const local = plan(
      service({ ...spec, externalTrafficPolicy: "Local" }, [{ ip: "192.0.2.1" }]),
      slice([ready("10.1.0.1"), ready("10.1.0.2", "here")]),
    );
    expect(local.filter((it) => it.startsWith("masquerade"))).toEqual([]);
    expect(local).toContain("services-4 192.0.2.1 . tcp . 80 : goto pick-2");
    expect(local).toContain("external-4 192.0.2.1 . tcp . 80 : goto pick-local-1");
    expect(local).toContain("endpoints-4 65536 . 192.0.2.1 . tcp . 80 : 10.1.0.2 . 8080");
  });

  it("drops for policy Local if the endpoints are on other nodes, and refuses without endpoints", () => {
    const local = service({ internalTrafficPolicy: "Local" });
    expect(plan(local, slice([ready("10.1.0.1")]))).toContain(
      "services-4 10.96.0.1 . tcp . 80 : goto no-local-endpoint",
    );
    expect(plan(local)).toContain("services-4 10.96.0.1 . tcp . 80 : goto refuse");
  });

  it("lets endpoints of this node be chosen for their own requests", () => {
    expect(plan(service({}), slice([ready("10.1.0.1", "here")]))).toContain("hairpin-4 10.1.0.1 . 10.1.0.1");
  });

  it("remembers whom a client with affinity was given, and shares a table among more endpoints than chains", () => {
    const sticky = plan(
      service({ sessionAffinity: "ClientIP" }),
      slice([ready("10.1.0.1"), ready("10.1.0.2")]),
    );
    expect(sticky).toContain("services-4 10.96.0.1 . tcp . 80 : goto sticky-2");
    expect(sticky).toContain("remember-4 10.96.0.1 . tcp . 80 . 10.1.0.2 . 8080 : goto remember-10800");
    const many = Array.from({ length: 65 }, (_, at) => ready(`10.1.0.${at + 1}`));
    expect(plan(service({}), slice(many))).toContain("services-4 10.96.0.1 . tcp . 80 : goto pick-1021");
  });

  it.each([
    ["a headless Service", service({ clusterIPs: ["None"], clusterIP: "None" })],
    ["an ExternalName", service({ type: "ExternalName", externalName: "example.org" })],
    ["an address that is a name", service({ clusterIPs: ["x; flush ruleset"] })],
  ])("has nothing for %s", (_, subject) => {
    expect(plan(subject, slice([ready("10.1.0.1")]))).toEqual([]);
  });

  it.each([
    ["SCTP", service({ ports: [{ port: 80, protocol: "SCTP" }] })],
    [
      "a load balancer that rewrites itself",
      service({ type: "LoadBalancer", ports: [] }, [{ ip: "192.0.2.1", ipMode: "Proxy" }]),
    ],
    ["an ingress that is a name", service({ type: "LoadBalancer", ports: [] }, [{ ip: "x; flush ruleset" }])],
  ])("has only the address of the cluster for %s", (_, subject) => {
    expect(plan(subject, slice([ready("10.1.0.1")]))).toEqual(["virtual-4 10.96.0.1"]);
  });

  it("leaves a family alone in which the Service has no address of the cluster, as kube-proxy does", () => {
    const spec: ServiceSpec = {
      type: "LoadBalancer",
      ports: [{ name: "http", port: 80, nodePort: 30_080 }],
      externalIPs: ["192.0.2.9", "2001:db8::9"],
    };
    const view = {
      service: service(spec, [{ ip: "192.0.2.1" }, { ip: "2001:db8::1" }]),
      slices: [slice([ready("10.1.0.1")])],
      node: { name: "here", zone: "zone-1", addresses: ["192.0.2.33", "2001:db8::33"] },
    };
    const elements = planService(view).map(render);
    expect(elements.filter((it) => it.includes(":db8:"))).toEqual([]);
    for (const address of ["192.0.2.1", "192.0.2.9", "192.0.2.33"])
      expect(elementsAt(address, elements)).not.toEqual([]);
  });

  it("has a node port on every address of the node, and masquerades there for everyone", () => {
    const ports = [{ name: "http", port: 80, nodePort: 30_080 }];
    const elements = plan(service({ type: "NodePort", ports }), slice([ready("10.1.0.1")]));
    expect(elementsAt("192.0.2.33", elements)).toEqual([
      "masquerade-all-4 192.0.2.33 . tcp . 30080",
      "services-4 192.0.2.33 . tcp . 30080 : goto pick-1",
      "endpoints-4 0 . 192.0.2.33 . tcp . 30080 : 10.1.0.1 . 8080",
    ]);
    const local = service({ type: "NodePort", ports, externalTrafficPolicy: "Local" });
    expect(elementsAt("192.0.2.33", plan(local, slice([ready("10.1.0.1")])))).toEqual([
      "services-4 192.0.2.33 . tcp . 30080 : goto pick-1",
      "endpoints-4 0 . 192.0.2.33 . tcp . 30080 : 10.1.0.1 . 8080",
      "external-4 192.0.2.33 . tcp . 30080 : goto no-local-endpoint",
    ]);
  });

  it("serves external addresses, whose other ports do not belong to the Service", () => {
    const elements = plan(service({ externalIPs: ["192.0.2.9"] }), slice([ready("10.1.0.1")]));
    expect(elements).toContain("services-4 192.0.2.9 . tcp . 80 : goto pick-1");
    expect(elements.filter((it) => it.startsWith("virtual"))).toEqual(["virtual-4 10.96.0.1"]);
  });

  it("guards a load balancer's address by the ranges of its family, the node's port by none", () => {
    const spec: ServiceSpec = {
      type: "LoadBalancer",
      ports: [{ name: "http", port: 80, nodePort: 30_080 }],
      loadBalancerSourceRanges: ["198.51.100.0/24", "2001:db8::/32", "nonsense"],
    };
    const elements = plan(service(spec, [{ ip: "192.0.2.1" }]), slice([ready("10.1.0.1")]));
    expect(elements.filter((it) => it.startsWith("guarded") || it.startsWith("allowed"))).toEqual([
      "guarded-4 192.0.2.1 . tcp . 80",
      "allowed-4 192.0.2.1 . tcp . 80 . 198.51.100.0/24",
      "allowed-4 192.0.2.1 . tcp . 80 . 192.0.2.1",
    ]);
    const open = service({ ...spec, loadBalancerSourceRanges: ["0.0.0.0/0"] }, [{ ip: "192.0.2.1" }]);
    expect(plan(open).filter((it) => it.startsWith("guarded"))).toEqual([]);
  });

  it("keeps traffic on its node or in its zone if every endpoint has hints", () => {
    const hinted = (ip: string, hints: NonNullable<Endpoint["hints"]>): Endpoint => ({ ...ready(ip), hints });
    const chosen = (...endpoints: Endpoint[]) =>
      plan(service({}), slice(endpoints))
        .filter((it) => it.startsWith("endpoints"))
        .map((it) => it.split(" : ")[1]);
    const near = hinted("10.1.0.1", { forZones: [{ name: "zone-1" }] });
    const far = hinted("10.1.0.2", { forZones: [{ name: "zone-2" }] });
    const here = hinted("10.1.0.3", { forZones: [{ name: "zone-1" }], forNodes: [{ name: "here" }] });
    const there = hinted("10.1.0.4", { forZones: [{ name: "zone-1" }], forNodes: [{ name: "there" }] });
    expect(chosen(near, far)).toEqual(["10.1.0.1 . 8080"]);
    expect(chosen(here, there)).toEqual(["10.1.0.3 . 8080"]);
    expect(chosen(there)).toEqual(["10.1.0.4 . 8080"]);
    expect(chosen(far)).toEqual(["10.1.0.2 . 8080"]);
    expect(chosen(near, far, ready("10.1.0.5"))).toHaveLength(3);
  });

  it("leaves Services of another proxy, and slices of headless Services, alone", () => {
    const other = service({});
    other.metadata.labels = { "service.kubernetes.io/service-proxy-name": "x" };
    expect(plan(other, slice([ready("10.1.0.1")]))).toEqual([]);
    const headless = slice([]);
    headless.metadata.labels = { "kubernetes.io/service-name": "web", "service.kubernetes.io/headless": "" };
    expect(serviceNameOf(headless)).toBeUndefined();
  });
});
