import { describe, expect, it } from "vitest";
import type { Service, ServiceSpec } from "@fairlead/kube/api/core/v1/types.ts";
import type { Endpoint, EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { formatRecord } from "@fairlead/dns/record-text.ts";
import { serviceContribution, zoneContribution } from "./zone.ts";

const zone = { origin: "cluster.local.", ttl: 5 };

function service(spec: ServiceSpec): Service {
  return { metadata: { name: "web", namespace: "work" }, spec };
}

function slice(endpoints: Endpoint[], addressType: "IPv4" | "IPv6" = "IPv4"): EndpointSlice {
  return {
    metadata: { name: "web-1", namespace: "work", labels: { "kubernetes.io/service-name": "web" } },
    addressType,
    endpoints,
    ports: [{ name: "http", port: 8080, protocol: "TCP" }],
  };
}

function lines(of: Service, slices: readonly EndpointSlice[] = []): string[] {
  return serviceContribution(zone, of, slices).records.map(formatRecord).toSorted();
}

describe("a Service in the cluster's zone", () => {
  it("has its cluster addresses, an SRV record for each named port, and reverse names", () => {
    const ports = [{ name: "http", port: 80, protocol: "TCP" as const, targetPort: 8080 }];
    expect(lines(service({ clusterIP: "10.96.0.1", clusterIPs: ["10.96.0.1", "fd00::a"], ports }))).toEqual([
      "1.0.96.10.in-addr.arpa. 5 IN PTR web.work.svc.cluster.local.",
      "_http._tcp.web.work.svc.cluster.local. 5 IN SRV 0 1 80 web.work.svc.cluster.local.",
      "a.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa. 5 IN PTR web.work.svc.cluster.local.",
      "web.work.svc.cluster.local. 5 IN A 10.96.0.1",
      "web.work.svc.cluster.local. 5 IN AAAA fd00::a",
      "web.work.svc.cluster.local. 5 IN SRV 0 1 80 web.work.svc.cluster.local.",
    ]);
  });

  it("without a cluster address is its ready endpoints, each with a name and a reverse name", () => {
    const ready = { addresses: ["10.1.0.1"], hostname: "web-0" };
    const unready = { addresses: ["10.1.0.2"], hostname: "web-1", conditions: { ready: false } };
    const nameless = { addresses: ["10.1.0.3"] };
    expect(lines(service({ clusterIP: "None" }), [slice([ready, unready, nameless])])).toEqual([
      "1.0.1.10.in-addr.arpa. 5 IN PTR web-0.web.work.svc.cluster.local.",
      "10-1-0-3.web.work.svc.cluster.local. 5 IN A 10.1.0.3",
      "3.0.1.10.in-addr.arpa. 5 IN PTR 10-1-0-3.web.work.svc.cluster.local.",
      "_http._tcp.web.work.svc.cluster.local. 5 IN SRV 0 1 8080 10-1-0-3.web.work.svc.cluster.local.",
      "_http._tcp.web.work.svc.cluster.local. 5 IN SRV 0 1 8080 web-0.web.work.svc.cluster.local.",
      "web-0.web.work.svc.cluster.local. 5 IN A 10.1.0.1",
      "web.work.svc.cluster.local. 5 IN A 10.1.0.1",
      "web.work.svc.cluster.local. 5 IN A 10.1.0.3",
      "web.work.svc.cluster.local. 5 IN SRV 0 1 8080 10-1-0-3.web.work.svc.cluster.local.",
      "web.work.svc.cluster.local. 5 IN SRV 0 1 8080 web-0.web.work.svc.cluster.local.",
    ]);
  });

  it("with an external name is an alias of it", () => {
    const external = (externalName: string) => lines(service({ type: "ExternalName", externalName }));
    expect(external("Hello.work.svc.clusterset.local")).toEqual([
      "web.work.svc.cluster.local. 5 IN CNAME hello.work.svc.clusterset.local.",
    ]);
    expect(external("not a name")).toEqual([]);
    expect(external("")).toEqual([]);
  });

  it("has a name but no record before it has an address", () => {
    expect(serviceContribution(zone, service({}), [])).toEqual({
      records: [],
      names: ["web.work.svc.cluster.local."],
    });
  });
});

describe("the cluster's zone", () => {
  it("has its schema version", () => {
    expect(zoneContribution(zone).records.map(formatRecord)).toEqual([
      'dns-version.cluster.local. 5 IN TXT "1.1.0"',
    ]);
  });
});
