/** What every lab cluster with nodes is given before its programs start: its DNS Service, and what the DNS servers may read. */

import { objectKey } from "#api/meta/key.ts";
import { NAMESPACES, SERVICES, type Service } from "#api/core/v1/types.ts";
import {
  ENDPOINT_SLICES,
  type EndpointSlice,
  MANAGED_BY_LABEL,
  SERVICE_NAME_LABEL,
} from "#api/discovery/v1/types.ts";
import { CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES } from "#api/rbac/v1/types.ts";
import type { Applied, KubeClient } from "#kube/types.ts";
import { DNS_USER } from "./certificates.ts";
import type { LabCluster } from "./topology.ts";

const MANAGER = { fieldManager: "fairlead-lab" } as const;
const DNS_PORTS = [
  { name: "dns", protocol: "UDP", port: 53 },
  { name: "dns-tcp", protocol: "TCP", port: 53 },
] as const;

/** Applies the objects; a second time changes nothing. */
export async function applyClusterObjects(
  client: KubeClient,
  cluster: LabCluster,
  signal: AbortSignal,
): Promise<void> {
  const options = { ...MANAGER, signal };
  // The server makes this namespace when it starts; asking for it tells a clear story when it has not.
  await client.get(NAMESPACES, objectKey(undefined, "kube-system"), { signal });
  await Promise.all([
    client.apply(SERVICES, dnsService(cluster), options),
    client.apply(ENDPOINT_SLICES, dnsSlice(cluster, "IPv4"), options),
    client.apply(ENDPOINT_SLICES, dnsSlice(cluster, "IPv6"), options),
    client.apply(CLUSTER_ROLES, DNS_ROLE, options),
    client.apply(CLUSTER_ROLE_BINDINGS, DNS_BINDING, options),
  ]);
}

function dnsService(cluster: LabCluster): Applied<Service> {
  return {
    metadata: { name: "kube-dns", namespace: "kube-system", labels: { "k8s-app": "kube-dns" } },
    spec: {
      clusterIP: cluster.dnsService.v4,
      clusterIPs: [cluster.dnsService.v4, cluster.dnsService.v6],
      ipFamilies: ["IPv4", "IPv6"],
      ipFamilyPolicy: "PreferDualStack",
      ports: DNS_PORTS.map((it) => ({ ...it, targetPort: it.port })),
    },
  };
}

function dnsSlice(cluster: LabCluster, family: "IPv4" | "IPv6"): Applied<EndpointSlice> {
  const address = family === "IPv4" ? cluster.clusterDns.v4 : cluster.clusterDns.v6;
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

const DNS_ROLE = {
  metadata: { name: "fairlead:lab-dns" },
  rules: [
    { apiGroups: [""], resources: ["services", "namespaces", "pods"], verbs: READ },
    { apiGroups: ["discovery.k8s.io"], resources: ["endpointslices"], verbs: READ },
    { apiGroups: ["multicluster.x-k8s.io"], resources: ["serviceimports"], verbs: READ },
    // The cluster-set DNS server waits for the definition of ServiceImports, which comes when the cluster joins.
    { apiGroups: ["apiextensions.k8s.io"], resources: ["customresourcedefinitions"], verbs: READ },
  ],
};

const DNS_BINDING = {
  metadata: { name: "fairlead:lab-dns" },
  roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "fairlead:lab-dns" },
  subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name: DNS_USER }],
} as const;
