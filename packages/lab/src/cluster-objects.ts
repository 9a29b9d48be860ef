/** Objects of the lab in a cluster with nodes, applied before its programs start: the DNS Service and the rights of its server. */

import { defined } from "@fairlead/base/defined.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { NAMESPACES, SERVICES, type Service } from "@fairlead/kube/api/core/v1/types.ts";
import {
  ENDPOINT_SLICES,
  type EndpointSlice,
  MANAGED_BY_LABEL,
  SERVICE_NAME_LABEL,
} from "@fairlead/kube/api/discovery/v1/types.ts";
import { CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES } from "@fairlead/kube/api/rbac/v1/types.ts";
import type { Applied, KubeClient } from "@fairlead/kube/types.ts";
import { DNS_USER } from "./certificates.ts";
import { type LabCluster, type LabSpec, used } from "./topology.ts";
import { applyWarnings } from "./warnings.ts";

const MANAGER = { fieldManager: "fairlead-lab" } as const;
export const DNS_PORTS = [
  { name: "dns", protocol: "UDP", port: 53 },
  { name: "dns-tcp", protocol: "TCP", port: 53 },
] as const;

/** Applies the objects; a second time changes nothing. */
export async function applyClusterObjects(
  client: KubeClient,
  cluster: LabCluster,
  spec: Pick<LabSpec, "ipFamily">,
  signal: AbortSignal,
): Promise<void> {
  const options = { ...MANAGER, signal };
  // The server makes this namespace when it starts; asking for it shows clearly when it has not.
  await client.get(NAMESPACES, objectKey(undefined, "kube-system"), { signal });
  await Promise.all([
    client.apply(SERVICES, dnsService(used(spec, cluster.dnsService)), options),
    ...used(spec, cluster.clusterDns).map((it) => client.apply(ENDPOINT_SLICES, dnsSlice(it), options)),
    client.apply(CLUSTER_ROLES, DNS_ROLE, options),
    client.apply(CLUSTER_ROLE_BINDINGS, DNS_BINDING, options),
    applyWarnings(client, options),
  ]);
}

/** @param selector - Of its pods; none where the lab's DNS server is not one. */
export function dnsService(addresses: readonly string[], selector?: Record<string, string>): Service {
  return {
    metadata: { name: "kube-dns", namespace: "kube-system", labels: { "k8s-app": "kube-dns" } },
    spec: {
      clusterIP: addresses[0] ?? "",
      clusterIPs: [...addresses],
      ipFamilies: addresses.map((it) => familyOf(it)),
      ipFamilyPolicy: "PreferDualStack" as const,
      ports: DNS_PORTS.map((it) => ({ ...it, targetPort: it.port })),
      ...defined({ selector }),
    },
  };
}

function familyOf(address: string): "IPv4" | "IPv6" {
  return address.includes(":") ? "IPv6" : "IPv4";
}

function dnsSlice(address: string): Applied<EndpointSlice> {
  const family = familyOf(address);
  return {
    metadata: {
      name: `kube-dns-${family.toLowerCase()}`,
      namespace: "kube-system",
      labels: { [SERVICE_NAME_LABEL]: "kube-dns", [MANAGED_BY_LABEL]: "fairlead-lab" },
    },
    addressType: family,
    ports: [...DNS_PORTS],
    endpoints: [{ addresses: [address], conditions: { ready: true, serving: true, terminating: false } }],
  };
}

const READ = ["get", "list", "watch"];

export const DNS_RULES = [
  { apiGroups: [""], resources: ["services", "namespaces", "pods"], verbs: READ },
  { apiGroups: ["discovery.k8s.io"], resources: ["endpointslices"], verbs: READ },
];

const DNS_ROLE = { metadata: { name: "fairlead:lab-dns" }, rules: DNS_RULES };

const DNS_BINDING = {
  metadata: { name: "fairlead:lab-dns" },
  roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "fairlead:lab-dns" },
  subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name: DNS_USER }],
} as const;
