import { expect, it } from "vitest";
import type { Service, ServiceSpec } from "@fairlead/kube/api/core/v1/types.ts";
import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { diffTable } from "@fairlead/os/nft/diff.ts";
import { renderScript } from "@fairlead/os/nft/render.ts";
import { DesiredElements } from "./desired.ts";
import { PROXY_TABLE } from "./names.ts";
import { planCluster } from "./plan-cluster.ts";
import { planService } from "./plan.ts";
import { renderTable } from "./table.ts";

const NODE = { name: "node-1", zone: "zone-1", addresses: ["192.0.2.33", "2001:db8::33"] };

function service(name: string, spec: ServiceSpec, ...ingress: readonly string[]): Service {
  return {
    metadata: { name, namespace: "work" },
    spec,
    status: { loadBalancer: { ingress: ingress.map((ip) => ({ ip })) } },
  };
}

function slice(addressType: "IPv4" | "IPv6", endpoints: Readonly<Record<string, string>>): EndpointSlice {
  return {
    metadata: { name: addressType, namespace: "work" },
    addressType,
    endpoints: Object.entries(endpoints).map(([ip, nodeName]) => ({ addresses: [ip], nodeName })),
    ports: [{ name: "http", port: 8080, protocol: "TCP" }],
  };
}

const HTTP = { name: "http", port: 80, protocol: "TCP" } as const;

/** One Service of each kind; `wild` has no endpoints. */
const SERVICES: ReadonlyMap<Service, readonly EndpointSlice[]> = new Map([
  [
    service("web", { type: "ClusterIP", clusterIPs: ["10.96.0.1", "fd00:96::1"], ports: [HTTP] }),
    [
      slice("IPv4", { "10.244.0.2": "node-1", "10.244.1.2": "node-2" }),
      slice("IPv6", { "fd00:244::2": "node-1" }),
    ],
  ],
  [
    service(
      "shop",
      {
        type: "LoadBalancer",
        clusterIPs: ["10.96.0.2"],
        ports: [{ ...HTTP, nodePort: 30_080 }],
        externalTrafficPolicy: "Local",
        loadBalancerSourceRanges: ["198.51.100.0/24"],
      },
      "203.0.113.1",
    ),
    [slice("IPv4", { "10.244.0.3": "node-1", "10.244.1.3": "node-2" })],
  ],
  [
    service("cart", {
      type: "ClusterIP",
      clusterIPs: ["10.96.0.3"],
      ports: [HTTP],
      sessionAffinity: "ClientIP",
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 600 } },
    }),
    [slice("IPv4", { "10.244.0.4": "node-1", "10.244.1.4": "node-2" })],
  ],
  [service("wild", { type: "ClusterIP", clusterIPs: ["10.96.0.4"], ports: [HTTP] }), []],
]);

it("the table for a ClusterIP, a LoadBalancer, an affinity and a Service without endpoints", async () => {
  const desired = new DesiredElements();
  desired.set("cluster", planCluster("cluster", ["10.244.0.0/16", "fd00:244::/64"]));
  desired.set("own", planCluster("own", ["10.244.0.0/24", "fd00:244::/80"]));
  for (const [of, slices] of SERVICES)
    desired.set(of.metadata.name, planService({ service: of, slices, node: NODE }));
  const script = renderScript(PROXY_TABLE, diffTable(undefined, renderTable(desired.elements)));
  await expect(script).toMatchFileSnapshot("goldens/table.nft");
});
