import { describe, expect, it } from "vitest";
import type { Endpoint, EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import type { ServiceImport, ServiceImportPort } from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import { formatRecord } from "@fairlead/dns/record-text.ts";
import { namespaceContribution, serviceContribution, zoneContribution } from "./zone.ts";

const zone = { origin: "clusterset.local.", ttl: 5 };
const tcp: ServiceImportPort = { name: "tcp", port: 42, protocol: "TCP" };
const udp: ServiceImportPort = { name: "udp", port: 42, protocol: "UDP" };

function imported(spec: NonNullable<ServiceImport["spec"]>, name = "hello"): ServiceImport {
  return { metadata: { name, namespace: "work" }, spec };
}

function slice(
  cluster: string,
  endpoints: Endpoint[],
  more: Partial<Omit<EndpointSlice, "metadata">> = {},
): EndpointSlice {
  return {
    metadata: {
      name: `hello-${cluster}`,
      namespace: "work",
      labels: {
        "multicluster.kubernetes.io/service-name": "hello",
        "multicluster.kubernetes.io/source-cluster": cluster,
      },
    },
    addressType: "IPv4",
    endpoints,
    ports: [tcp, udp],
    ...more,
  };
}

function lines(of: ServiceImport, slices: readonly EndpointSlice[] = []): string[] {
  return serviceContribution(zone, of, slices).records.map(formatRecord).toSorted();
}

describe("an imported service with addresses", () => {
  it("has them at its name, and an SRV record for each named port and, once, for the bare name", () => {
    const spec = { type: "ClusterSetIP", ports: [tcp, udp], ips: ["10.96.0.9", "fd00::9"] } as const;
    expect(lines(imported({ ...spec, ports: [...spec.ports], ips: [...spec.ips] }))).toEqual([
      "_tcp._tcp.hello.work.svc.clusterset.local. 5 IN SRV 0 1 42 hello.work.svc.clusterset.local.",
      "_udp._udp.hello.work.svc.clusterset.local. 5 IN SRV 0 1 42 hello.work.svc.clusterset.local.",
      "hello.work.svc.clusterset.local. 5 IN A 10.96.0.9",
      "hello.work.svc.clusterset.local. 5 IN AAAA fd00::9",
      "hello.work.svc.clusterset.local. 5 IN SRV 0 1 42 hello.work.svc.clusterset.local.",
    ]);
  });

  it("has no _port._protocol name for a port without a name", () => {
    expect(lines(imported({ type: "ClusterSetIP", ports: [{ port: 80 }], ips: ["10.96.0.9"] }))).toEqual([
      "hello.work.svc.clusterset.local. 5 IN A 10.96.0.9",
      "hello.work.svc.clusterset.local. 5 IN SRV 0 1 80 hello.work.svc.clusterset.local.",
    ]);
  });

  it("has a name but no record while it has no address", () => {
    const contribution = serviceContribution(zone, imported({ type: "ClusterSetIP", ports: [tcp] }), []);
    expect(contribution).toEqual({ records: [], names: ["hello.work.svc.clusterset.local."] });
  });

  it("does not depend on the health of its endpoints", () => {
    const spec: ServiceImport["spec"] = { type: "ClusterSetIP", ports: [], ips: ["10.96.0.9"] };
    const unhealthy = slice("east", [{ addresses: ["10.1.0.1"], conditions: { ready: false } }]);
    expect(lines(imported(spec), [unhealthy])).toEqual(["hello.work.svc.clusterset.local. 5 IN A 10.96.0.9"]);
  });
});

describe("an imported headless service", () => {
  const headless = imported({ type: "Headless", ports: [] });

  it("has the ready endpoints of all clusters at its name, and each under its host name and cluster id", () => {
    const east = slice("east", [
      { addresses: ["10.1.0.1"], hostname: "hello-0" },
      { addresses: ["10.1.0.2"], hostname: "hello-1", conditions: { ready: false } },
    ]);
    const west = slice("west", [{ addresses: ["fd00:2::1"], conditions: { ready: true } }], {
      addressType: "IPv6",
      ports: [tcp],
    });
    expect(lines(headless, [east, west])).toEqual([
      "_tcp._tcp.hello.work.svc.clusterset.local. 5 IN SRV 0 1 42 fd00-2--1.west.hello.work.svc.clusterset.local.",
      "_tcp._tcp.hello.work.svc.clusterset.local. 5 IN SRV 0 1 42 hello-0.east.hello.work.svc.clusterset.local.",
      "_udp._udp.hello.work.svc.clusterset.local. 5 IN SRV 0 1 42 hello-0.east.hello.work.svc.clusterset.local.",
      "fd00-2--1.west.hello.work.svc.clusterset.local. 5 IN AAAA fd00:2::1",
      "hello-0.east.hello.work.svc.clusterset.local. 5 IN A 10.1.0.1",
      "hello.work.svc.clusterset.local. 5 IN A 10.1.0.1",
      "hello.work.svc.clusterset.local. 5 IN AAAA fd00:2::1",
      "hello.work.svc.clusterset.local. 5 IN SRV 0 1 42 fd00-2--1.west.hello.work.svc.clusterset.local.",
      "hello.work.svc.clusterset.local. 5 IN SRV 0 1 42 hello-0.east.hello.work.svc.clusterset.local.",
    ]);
  });

  it("gives one host name that several endpoints share all their addresses", () => {
    const v4 = slice("east", [{ addresses: ["10.1.0.1"], hostname: "db" }], { ports: [] });
    const v6 = slice("east", [{ addresses: ["fd00::1"], hostname: "db" }], {
      addressType: "IPv6",
      ports: [],
    });
    expect(lines(headless, [v4, v6]).filter((it) => it.startsWith("db."))).toEqual([
      "db.east.hello.work.svc.clusterset.local. 5 IN A 10.1.0.1",
      "db.east.hello.work.svc.clusterset.local. 5 IN AAAA fd00::1",
    ]);
  });

  it("lists an address that two slices have once", () => {
    const twice = slice("east", [{ addresses: ["10.1.0.1"] }, { addresses: ["10.1.0.1"] }], { ports: [] });
    expect(lines(headless, [twice, twice])).toEqual([
      "10-1-0-1.east.hello.work.svc.clusterset.local. 5 IN A 10.1.0.1",
      "hello.work.svc.clusterset.local. 5 IN A 10.1.0.1",
    ]);
  });

  it("keeps <clusterid>.<service> from existing", () => {
    const { reserved } = serviceContribution(zone, headless, [slice("east", [{ addresses: ["10.1.0.1"] }])]);
    expect(reserved).toEqual(["east.hello.work.svc.clusterset.local."]);
  });

  it("takes a cluster id of two labels", () => {
    const two = slice("prod.eu", [{ addresses: ["10.1.0.1"], hostname: "db" }], { ports: [] });
    expect(lines(headless, [two])).toContain("db.prod.eu.hello.work.svc.clusterset.local. 5 IN A 10.1.0.1");
  });

  it("does not exist without a ready endpoint", () => {
    const gone = slice("east", [{ addresses: ["10.1.0.1"], conditions: { ready: false, serving: true } }]);
    expect(serviceContribution(zone, headless, [gone])).toEqual({ records: [] });
  });
});

describe("text that does not belong into a zone", () => {
  const ready = { type: "ClusterSetIP", ports: [], ips: ["10.96.0.9"] } as const;
  const spec = (): NonNullable<ServiceImport["spec"]> => ({ ...ready, ports: [], ips: [...ready.ips] });

  it.each(["a.b", "a b", "A", "", "*", "a\\.b", "ä", "x".repeat(64), "-a", "a\n"])(
    "has no records for the invalid service name %j",
    (name) => {
      expect(lines(imported(spec(), name))).toEqual([]);
    },
  );

  it("omits records with invalid text and keeps the others", () => {
    const odd = slice("ea st", [{ addresses: ["10.1.0.1", "evil", "010.1.1.1"], hostname: "a.b" }], {
      ports: [{ name: "x y", port: 80 }],
    });
    expect(lines(imported({ type: "Headless", ports: [] }), [odd])).toEqual([
      "hello.work.svc.clusterset.local. 5 IN A 10.1.0.1",
    ]);
    const badIps = imported({ ...spec(), ips: ["10.96.0.9", "not an address"] });
    expect(lines(badIps)).toEqual(["hello.work.svc.clusterset.local. 5 IN A 10.96.0.9"]);
  });
});

describe("a cluster-set zone", () => {
  it("publishes its schema version, and has names for namespaces", () => {
    expect(zoneContribution(zone).records.map(formatRecord)).toEqual([
      'dns-version.clusterset.local. 28800 IN TXT "1.0.0"',
    ]);
    expect(namespaceContribution(zone, "work").names).toEqual(["work.svc.clusterset.local."]);
  });
});

describe("the numbers that a member chooses", () => {
  /** Each at another place, and as long as a pinned answer would want it. */
  const LONG = [604_800, 2_147_483_647, 4_294_967_295, -1];

  it.each(LONG)("never are the TTL of an answer: %d", (number) => {
    const port = { name: "tcp", port: number, protocol: "TCP" } as const;
    const one = slice("east", [{ addresses: ["10.1.0.1"], hostname: "hello-0" }], { ports: [port] });
    const annotated: EndpointSlice = {
      ...one,
      metadata: {
        ...one.metadata,
        generation: number,
        annotations: {
          "fairlead.dev/weight": `${number}`,
          "fairlead.dev/ttl": `${number}`,
          ttl: `${number}`,
        },
      },
    };
    const affinity = { sessionAffinityConfig: { clientIP: { timeoutSeconds: number } } };
    const two = slice("west", [{ addresses: ["10.2.0.1"], hostname: "hello-0" }]);
    for (const type of ["Headless", "ClusterSetIP"] as const) {
      const spec = { type, ports: [port], ips: ["10.96.0.9"], ...affinity };
      for (const hasClusterNames of [false, true]) {
        const of = { ...zone, isReverse: true, hasClusterNames };
        const { records } = serviceContribution(of, imported(spec), [annotated, two]);
        expect(records.length).toBeGreaterThan(0);
        expect(new Set(records.map((it) => it.ttl))).toEqual(new Set([zone.ttl]));
      }
    }
  });
});
