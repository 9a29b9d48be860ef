import { describe, expect, it } from "vitest";
import type { ImportedService } from "#api/fairlead.dev/v1alpha1/types.ts";
import { planImportedSlices, type SliceImportView } from "./import-plan.ts";

const spec: ImportedService["spec"] = {
  service: { namespace: "work", name: "hello" },
  type: "ClusterSetIP",
  ports: [{ name: "http", protocol: "TCP", port: 80 }],
  clusters: [{ cluster: "a", ports: [{ name: "web", importedAs: "http" }] }],
};
const view = (more: Partial<SliceImportView> = {}): SliceImportView => ({
  source: {
    name: "a-work-hello-x",
    cluster: "a",
    isLocal: false,
    facts: {
      addressType: "IPv4",
      endpoints: [
        {
          addresses: ["10.0.0.1"],
          conditions: { ready: true },
          hostname: "h-0",
          nodeName: "node-1",
          zone: "z1",
        },
        {
          addresses: ["10.0.0.2"],
          conditions: { ready: false, serving: true, terminating: true },
          zone: "z2",
        },
      ],
      ports: [
        { name: "web", protocol: "TCP", port: 8080 },
        { name: "debug", protocol: "TCP", port: 6060 },
      ],
    },
  },
  isAlive: () => true,
  mcs: { spec, object: { metadata: { name: "hello", uid: "u" } } },
  serves: () => true,
  servesBalanced: () => true,
  loadBalancer: undefined,
  ...more,
});
const headless = {
  spec: { ...spec, type: "Headless" as const },
  object: { metadata: { name: "hello", uid: "u" } },
};

describe("a slice of another cluster", () => {
  it("becomes a slice next to the import: with the import's port names, and with all fields of its endpoints", () => {
    expect(planImportedSlices(view())).toEqual([
      {
        metadata: {
          namespace: "work",
          name: "a-work-hello-x",
          labels: {
            "multicluster.kubernetes.io/service-name": "hello",
            "multicluster.kubernetes.io/source-cluster": "a",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-import.fairlead.dev",
            "kubernetes.io/service-name": "derived-1opb3qturs",
          },
          ownerReferences: [
            {
              apiVersion: "multicluster.x-k8s.io/v1beta1",
              kind: "ServiceImport",
              name: "hello",
              uid: "u",
              controller: false,
            },
          ],
        },
        addressType: "IPv4",
        endpoints: [
          { addresses: ["10.0.0.1"], conditions: { ready: true }, hostname: "h-0", zone: "z1" },
          {
            addresses: ["10.0.0.2"],
            conditions: { ready: false, serving: true, terminating: true },
            zone: "z2",
          },
        ],
        ports: [{ name: "http", protocol: "TCP", port: 8080 }],
      },
    ]);
  });

  it("loses its node name, which could equal the name of a local node; a slice of this cluster keeps it", () => {
    const local = view();
    const [mine] = planImportedSlices({ ...local, source: { ...local.source, isLocal: true } });
    expect(mine?.endpoints?.[0]?.nodeName).toBe("node-1");
    expect(planImportedSlices(local)[0]?.endpoints?.[0]).not.toHaveProperty("nodeName");
  });

  it("without a port of the import is left out behind a virtual address, and kept where DNS serves it", () => {
    const none = [{ cluster: "a", ports: [] }];
    expect(planImportedSlices(view({ mcs: { ...headless, spec: { ...spec, clusters: none } } }))).toEqual([]);
    const [kept] = planImportedSlices(
      view({ mcs: { ...headless, spec: { ...headless.spec, clusters: none } } }),
    );
    expect(kept?.ports).toEqual([]);
    expect(kept?.endpoints).toHaveLength(2);
  });

  it("of a headless service belongs to no Service of this cluster", () => {
    expect(planImportedSlices(view({ mcs: headless }))[0]?.metadata.labels).not.toHaveProperty(
      "kubernetes.io/service-name",
    );
  });

  it("of a cluster that is not an exporter becomes nothing", () => {
    expect(planImportedSlices(view({ mcs: { ...headless, spec: { ...spec, clusters: [] } } }))).toEqual([]);
  });

  it("loses endpoints that do not answer; those of this cluster are never asked", () => {
    const isAlive = (addresses: readonly string[]): boolean => addresses[0] !== "10.0.0.1";
    expect(planImportedSlices(view({ isAlive }))[0]?.endpoints).toHaveLength(1);
    const local = view({ isAlive });
    expect(
      planImportedSlices({ ...local, source: { ...local.source, isLocal: true } })[0]?.endpoints,
    ).toHaveLength(2);
  });

  it("has zone hints for the proxy if the service prefers near endpoints", () => {
    const near = { ...headless, spec: { ...spec, trafficDistribution: "PreferClose" } };
    expect(planImportedSlices(view({ mcs: near }))[0]?.endpoints?.[0]?.hints).toEqual({
      forZones: [{ name: "z1" }],
    });
  });

  it.each(["PreferSameZone", "PreferSameNode"])(
    "has a hint for its zone, and none for its node, with %s (C3)",
    (trafficDistribution) => {
      const near = { ...headless, spec: { ...spec, trafficDistribution } };
      const [slice] = planImportedSlices(view({ mcs: near }));
      expect(slice?.endpoints?.map((it) => it.hints)).toEqual([
        { forZones: [{ name: "z1" }] },
        { forZones: [{ name: "z2" }] },
      ]);
    },
  );

  it("has no hint for an endpoint without a zone, so that no proxy follows any (C3)", () => {
    const near = { ...headless, spec: { ...spec, trafficDistribution: "PreferClose" } };
    const { source } = view();
    const endpoints = source.facts.endpoints.map(({ addresses }) => ({ addresses }));
    const placeless = { ...source, facts: { ...source.facts, endpoints } };
    expect(planImportedSlices(view({ mcs: near, source: placeless }))[0]?.endpoints).toEqual(
      endpoints.map((it) => ({ ...it, conditions: {} })),
    );
  });

  it("has only the ports that its cluster serves here, and does not exist without any (C3)", () => {
    const both = [
      {
        cluster: "a",
        ports: [
          { name: "web", importedAs: "http" },
          { name: "debug", importedAs: "d" },
        ],
      },
    ];
    const mcs = { ...headless, spec: { ...spec, clusters: both } };
    const [some] = planImportedSlices(view({ mcs, serves: (port) => port === "d" }));
    expect(some?.ports).toEqual([{ name: "d", protocol: "TCP", port: 6060 }]);
    expect(planImportedSlices(view({ mcs, serves: () => false }))).toEqual([]);
    expect(planImportedSlices(view({ mcs: headless, serves: (port) => port !== "" }))).toEqual([]);
    const balanced = view({
      mcs,
      serves: () => false,
      loadBalancer: "lb",
      servesBalanced: (it) => it === "web",
    });
    expect(planImportedSlices(balanced)).toMatchObject([{ ports: [{ name: "web" }] }]);
    expect(planImportedSlices({ ...balanced, servesBalanced: () => false })).toEqual([]);
  });

  it("carries the weight of its cluster, for proxies that support weights (C3)", () => {
    const heavy = { ...headless, spec: { ...spec, clusters: [{ cluster: "a", ports: [], weight: 7 }] } };
    heavy.spec.type = "Headless";
    const [slice] = planImportedSlices(view({ mcs: heavy }));
    expect(slice?.metadata.annotations).toEqual({ "fairlead.dev/weight": "7" });
    expect(planImportedSlices(view())[0]?.metadata).not.toHaveProperty("annotations");
  });

  it("of IPv6 is imported in addition to that of IPv4 (C2)", () => {
    const { source } = view();
    const facts = { ...source.facts, addressType: "IPv6" as const, endpoints: [{ addresses: ["fd00::1"] }] };
    expect(planImportedSlices(view({ source: { ...source, facts } }))).toMatchObject([
      { addressType: "IPv6", endpoints: [{ addresses: ["fd00::1"] }] },
    ]);
  });

  it("is added to a load balancer too, with its ports unchanged", () => {
    const [, fleet] = planImportedSlices(view({ loadBalancer: "work-web" }));
    expect(fleet).toMatchObject({
      metadata: {
        namespace: "fleet-system",
        name: "a-work-hello-x",
        labels: {
          "kubernetes.io/service-name": "work-web",
          "endpointslice.kubernetes.io/managed-by":
            "endpointsliceimport-controller.networking.fleet.azure.com",
        },
      },
      ports: [{ name: "web" }, { name: "debug" }],
    });
    expect(fleet?.metadata.labels).not.toHaveProperty("multicluster.kubernetes.io/service-name");
    expect(planImportedSlices(view({ mcs: undefined, loadBalancer: "work-web" }))).toHaveLength(1);
  });

  it("A8: is added to a load balancer with only the ports that are imported from its cluster", () => {
    const balanced = { mcs: undefined, loadBalancer: "work-hello" };
    const [all] = planImportedSlices(view(balanced));
    expect(all?.ports).toHaveLength(2);
    const exposed = { ...balanced, balancedPorts: [{ name: "web", importedAs: "http" }] };
    const [some] = planImportedSlices(view(exposed));
    expect(some?.ports).toEqual([{ name: "http", protocol: "TCP", port: 8080 }]);
    expect(planImportedSlices(view({ ...balanced, balancedPorts: [] }))).toEqual([]);
  });
});
