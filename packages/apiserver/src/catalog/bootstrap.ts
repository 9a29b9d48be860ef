import { bootstrapRoles, CLIENT_AUTHORITIES } from "#auth/bootstrap-roles.ts";
import type { ApiObject } from "#values/object.ts";
import { SYSTEM_PRIORITIES } from "#builtin/pod/admission.ts";
import type { ServiceAllocations } from "#builtin/service/allocations.ts";

const NAMESPACES = ["default", "kube-node-lease", "kube-public", "kube-system"];
const HTTPS_PORT = 443;

export interface BootstrapOptions {
  readonly allocations: ServiceAllocations;
  /** Port on which the API server listens, behind the Service `kubernetes`. */
  readonly port: number;
  /** PEM of each authority that signs client certificates. */
  readonly clientCa: readonly string[];
}

/** The objects that exist in every cluster from the start, in an order in which they can be created. */
export function bootstrapObjects(options: BootstrapOptions): readonly ApiObject[] {
  const namespaces = NAMESPACES.map((name) => ({ apiVersion: "v1", kind: "Namespace", metadata: { name } }));
  return [
    ...namespaces,
    ...bootstrapRoles(),
    ...systemPriorities(),
    serviceCidr(options),
    kubernetesService(options),
    clientAuthorities(options),
  ];
}

/** For pods without which a cluster, or a node, does not work. */
function systemPriorities(): readonly ApiObject[] {
  return Object.entries(SYSTEM_PRIORITIES).map(([name, value]) => ({
    apiVersion: "scheduling.k8s.io/v1",
    kind: "PriorityClass",
    metadata: { name },
    value,
    description: "Used for system critical pods that must not be moved from their current node.",
  }));
}

/** Says where the addresses of Services come from, for those who have to keep clear of them (KEP-1880). */
function serviceCidr({ allocations }: BootstrapOptions): ApiObject {
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "ServiceCIDR",
    metadata: { name: "kubernetes" },
    spec: { cidrs: [...allocations.ranges] },
  };
}

/** For programs that know their clients by the certificates that the API server takes. */
function clientAuthorities({ clientCa }: BootstrapOptions): ApiObject {
  return {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: CLIENT_AUTHORITIES, namespace: "kube-system" },
    data: { "client-ca-file": clientCa.map((it) => `${it.trimEnd()}\n`).join("") },
  };
}

/** The API server itself, at the first address of the first range. */
function kubernetesService({ allocations, port }: BootstrapOptions): ApiObject {
  const clusterIP = allocations.firstIpOf(allocations.defaultFamily) ?? "None";
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: {
      name: "kubernetes",
      namespace: "default",
      labels: { component: "apiserver", provider: "kubernetes" },
    },
    spec: {
      type: "ClusterIP",
      clusterIP,
      ipFamilyPolicy: "SingleStack",
      ports: [{ name: "https", protocol: "TCP", port: HTTPS_PORT, targetPort: port }],
      sessionAffinity: "None",
    },
  };
}
