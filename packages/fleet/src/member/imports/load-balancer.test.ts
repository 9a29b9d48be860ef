import { describe, expect, it } from "vitest";
import type { Service } from "@fairlead/kube/api/core/v1/types.ts";
import { LOAD_BALANCER_ANNOTATION_PREFIXES } from "#api/fairlead.dev/multi-cluster-service.ts";
import type { FleetServiceImportStatus } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { planLeftovers } from "./leftovers.ts";
import { type LoadBalancerPlan, planLoadBalancer } from "./load-balancer.ts";

const status: FleetServiceImportStatus = { ports: [{ name: "http", protocol: "TCP", port: 80 }] };
const plan = (
  annotations: Record<string, string>,
  more: {
    readonly status?: FleetServiceImportStatus;
    readonly derived?: Service;
    readonly isLegacyHub?: boolean;
  } = {},
): LoadBalancerPlan =>
  planLoadBalancer({
    object: {
      metadata: { namespace: "work", name: "web", annotations },
      spec: { serviceImport: { name: "hello" } },
    },
    status: more.status ?? status,
    name: "work-web",
    derived: more.derived,
    passOn: LOAD_BALANCER_ANNOTATION_PREFIXES,
    isLegacyHub: more.isLegacyHub ?? false,
  });
const internal = "service.beta.kubernetes.io/azure-load-balancer-internal";

describe("the families of the load balancer of a MultiClusterService", () => {
  type Families = NonNullable<FleetServiceImportStatus["ipFamilies"]>;
  const having = (...ipFamilies: Families): Service => ({
    metadata: { namespace: "fleet-system", name: "work-web" },
    spec: { ipFamilies },
  });
  const single = (family: Families[number]) => ({ ipFamilyPolicy: "SingleStack", ipFamilies: [family] });
  const dual = { ipFamilyPolicy: "PreferDualStack" };
  it.each<readonly [Families, Service | undefined, object]>([
    [["IPv4"], undefined, single("IPv4")],
    [["IPv6"], undefined, single("IPv6")],
    [["IPv4", "IPv6"], undefined, dual],
    // An address once given stays, and one more may come.
    [["IPv4"], having("IPv4", "IPv6"), dual],
    [["IPv6"], having("IPv4"), dual],
    [["IPv4", "IPv6"], having("IPv4"), dual],
    [["IPv4"], having("IPv4"), single("IPv4")],
  ])(
    "are those that the exports serve, %j, and those that it already has",
    (ipFamilies, derived, expected) => {
      const { service } = plan({}, { status: { ...status, ipFamilies }, ...(derived && { derived }) });
      const { ipFamilyPolicy, ipFamilies: families } = service?.spec ?? {};
      expect({ ipFamilyPolicy, ...(families && { ipFamilies: families }) }).toEqual(expected);
    },
  );

  it("are only IPv4 with a legacy hub, and all if an older hub does not report them", () => {
    expect(plan({}, { isLegacyHub: true }).service?.spec).toMatchObject(single("IPv4"));
    expect(plan({}).service?.spec).toMatchObject(dual);
  });
});

describe("C6: the load balancer of a MultiClusterService", () => {
  it.each([
    ["load-balancer-class", "example.com/lb", { loadBalancerClass: "example.com/lb" }],
    ["load-balancer-ip", "192.0.2.7", { loadBalancerIP: "192.0.2.7" }],
    [
      "source-ranges",
      "192.0.2.0/24, 2001:db8::/32",
      { loadBalancerSourceRanges: ["192.0.2.0/24", "2001:db8::/32"] },
    ],
    ["external-traffic-policy", "Local", { externalTrafficPolicy: "Local" }],
    ["internal-traffic-policy", "Local", { internalTrafficPolicy: "Local" }],
    ["health-check-node-port", "32000", { healthCheckNodePort: 32_000 }],
    ["allocate-node-ports", "false", { allocateLoadBalancerNodePorts: false }],
    ["session-affinity", "ClientIP", { sessionAffinity: "ClientIP" }],
  ])("has what annotation fairlead.dev/%s asks for", (name, text, spec) => {
    const { service, problems } = plan({ [`fairlead.dev/${name}`]: text });
    expect(problems).toEqual([]);
    expect(service?.spec).toMatchObject(spec);
    expect(Object.keys(service?.spec ?? {})).toHaveLength(4);
  });

  it.each([
    ["load-balancer-class", ""],
    ["load-balancer-ip", "lb.example"],
    ["source-ranges", "192.0.2.0"],
    ["source-ranges", "192.0.2.0/24,"],
    ["external-traffic-policy", "local"],
    ["internal-traffic-policy", "Zone"],
    ["health-check-node-port", "0"],
    ["allocate-node-ports", "no"],
    ["session-affinity", "Cookie"],
  ])("is not made without an option that cannot be read (fairlead.dev/%s: %j)", (name, text) => {
    const { service, problems } = plan({ [`fairlead.dev/${name}`]: text });
    expect(service).toBeUndefined();
    expect(problems).toHaveLength(1);
    expect(problems[0]).toContain(`annotation fairlead.dev/${name} is ${JSON.stringify(text)}; it must be `);
  });

  it("stays as closed as it was when an option cannot be read any more, and follows in all else", () => {
    const derived: Service = {
      metadata: { name: "work-web" },
      spec: { loadBalancerSourceRanges: ["192.0.2.0/24"] },
    };
    const { service, problems } = plan({ "fairlead.dev/source-ranges": "all" }, { derived });
    expect(problems).toHaveLength(1);
    expect(service?.spec).toMatchObject({
      loadBalancerSourceRanges: ["192.0.2.0/24"],
      ports: [{ port: 80 }],
    });
  });

  it("has the affinity that the exports agree on, unless an annotation wants another one", () => {
    const sticky: FleetServiceImportStatus = {
      ...status,
      sessionAffinity: "ClientIP",
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } },
    };
    expect(plan({}, { status: sticky }).service?.spec).toMatchObject({
      sessionAffinity: "ClientIP",
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } },
    });
    const none = plan({ "fairlead.dev/session-affinity": "None" }, { status: sticky });
    expect(none.service?.spec).toMatchObject({ sessionAffinity: "None" });
    expect(none.service?.spec).not.toHaveProperty("sessionAffinityConfig");
  });

  it("is given the annotations of the allow-list, and no others", () => {
    const passed = {
      "service.beta.kubernetes.io/aws-load-balancer-type": "external",
      "service.beta.kubernetes.io/azure-pip-name": "pip",
      "metallb.io/address-pool": "public",
      "networking.gke.io/load-balancer-type": "Internal",
    };
    const { service } = plan({
      ...passed,
      "kubectl.kubernetes.io/last-applied-configuration": "{}",
      "external-dns.alpha.kubernetes.io/hostname": "bank.example",
      "service.kubernetes.io/topology-mode": "Auto",
      "fairlead.dev/import": "shared",
    });
    expect(service?.metadata.annotations).toEqual(passed);
  });

  it("has no annotations unless requested", () => {
    expect(plan({}).service?.metadata).not.toHaveProperty("annotations");
  });

  it.each([
    ["true", true],
    ["T", true],
    ["1", true],
    ["yes", false],
    ["", false],
  ])("is internal where its annotation is what Go takes for true (%j)", (text, isInternal) => {
    const { service } = plan({ "networking.fleet.azure.com/azure-load-balancer-internal": text });
    expect(service?.metadata.annotations).toEqual(isInternal ? { [internal]: "true" } : undefined);
  });
});

describe("A12: what another agent wrote on the Service", () => {
  const wanted = plan({}).service!;
  const legacy = (more: Partial<Service>): Service => ({
    metadata: { name: "work-web", ...more.metadata },
    spec: { ports: [{ name: "http", port: 80, nodePort: 30_000 }], ...more.spec },
  });

  it("is removed if it makes the load balancer internal and this is no longer requested", () => {
    const annotations = { [internal]: "true", other: "x" };
    expect(planLeftovers(legacy({ metadata: { name: "work-web", annotations } }), wanted)?.patch).toEqual({
      metadata: { annotations: { [internal]: null } },
    });
    const isWanted = plan({ "networking.fleet.azure.com/azure-load-balancer-internal": "true" }).service!;
    expect(planLeftovers(legacy({ metadata: { name: "work-web", annotations } }), isWanted)).toBeUndefined();
  });

  it("goes, where it is a port that the import has no longer; the others keep their node ports", () => {
    const ports = [
      { name: "http", port: 80, nodePort: 30_000 },
      { name: "old", port: 81 },
    ];
    expect(planLeftovers(legacy({ spec: { ports } }), wanted)).toEqual({
      fields: ["spec.ports 81/TCP"],
      patch: { spec: { ports: [{ ...ports[0], protocol: "TCP" }] } },
    });
  });

  it("stays, where it is what is wanted", () => {
    expect(planLeftovers(legacy({}), wanted)).toBeUndefined();
  });
});
