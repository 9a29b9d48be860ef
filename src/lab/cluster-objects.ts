/** What every lab cluster is given before its programs start: what these may do, and where there are nodes a DNS Service. */

import { objectKey } from "#api/meta/key.ts";
import { NAMESPACES, SERVICES, type Service } from "#api/core/v1/types.ts";
import {
  ENDPOINT_SLICES,
  type EndpointSlice,
  MANAGED_BY_LABEL,
  SERVICE_NAME_LABEL,
} from "#api/discovery/v1/types.ts";
import { CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES } from "#api/rbac/v1/types.ts";
import { HUB_CRDS } from "#api/crds/all.ts";
import { accessManifests, actAsMembersManifests } from "#api/fairlead.dev/access/manifests.ts";
import {
  DNS_ACCESS,
  HUB_ACCESS,
  MEMBER_ACCESS,
  type ProgramAccess,
} from "#api/fairlead.dev/access/programs.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { HUB_MANAGER } from "#controllers/hub/informers.ts";
import { installPolicies } from "#controllers/hub/policies.ts";
import { installCrds } from "#kube/crds.ts";
import type { RuntimeDeps } from "#kube/deps.ts";
import type { Applied, KubeClient } from "#kube/types.ts";
import { DNS_USER, userOf } from "./certificates.ts";
import { type LabCluster, type LabSpec, used } from "./topology.ts";
import { applyWarnings } from "./warnings.ts";

const MANAGER = { fieldManager: "fairlead-lab" } as const;
/** What whoever installs a hub does: its kinds, its policies, and the rights of its program. */
export async function applyHubObjects(
  client: KubeClient,
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<void> {
  await Promise.all([
    installCrds(client, { crds: HUB_CRDS, fieldManager: HUB_MANAGER }, deps, signal),
    installPolicies(client, deps.log, signal),
    grant(client, [HUB_ACCESS], signal),
    certify(client, signal),
  ]);
}

async function certify(client: KubeClient, signal: AbortSignal): Promise<void> {
  const user = { kind: "User", apiGroup: "rbac.authorization.k8s.io", name: userOf(HUB_ACCESS) } as const;
  for (const { of, object } of actAsMembersManifests(user))
    await client.apply(of, object, { ...MANAGER, signal });
}

async function grant(
  client: KubeClient,
  programs: readonly ProgramAccess[],
  signal: AbortSignal,
): Promise<void> {
  const options = { ...MANAGER, signal };
  await client.apply(NAMESPACES, { metadata: { name: FLEET_SYSTEM_NAMESPACE } }, options);
  for (const program of programs) {
    const user = { kind: "User", apiGroup: "rbac.authorization.k8s.io", name: userOf(program) } as const;
    for (const { of, object } of accessManifests(program, user)) await client.apply(of, object, options);
  }
}

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
  // The server makes this namespace when it starts; asking for it tells a clear story when it has not.
  await client.get(NAMESPACES, objectKey(undefined, "kube-system"), { signal });
  await Promise.all([
    client.apply(SERVICES, dnsService(used(spec, cluster.dnsService)), options),
    ...used(spec, cluster.clusterDns).map((it) => client.apply(ENDPOINT_SLICES, dnsSlice(it), options)),
    client.apply(CLUSTER_ROLES, DNS_ROLE, options),
    client.apply(CLUSTER_ROLE_BINDINGS, DNS_BINDING, options),
    grant(client, [MEMBER_ACCESS, DNS_ACCESS], signal),
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
      ...(selector === undefined ? {} : { selector }),
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
