/** Keys, conditions and reasons of the fleet networking API that users and other agents see. */

const PREFIX = "networking.fleet.azure.com";

/** Annotation of a ServiceExport: a whole number from 0 to 1000; absent means 1. */
export const WEIGHT_ANNOTATION = `${PREFIX}/weight`;
/** Annotation of the hub's ServiceImport: which member imports it, as JSON (see `claim.ts`). */
export const SERVICE_IN_USE_BY_ANNOTATION = `${PREFIX}/service-in-use-by`;
/** Annotation of a MultiClusterService: a Go boolean; true asks for a load balancer inside the network. */
export const INTERNAL_LOAD_BALANCER_ANNOTATION = `${PREFIX}/azure-load-balancer-internal`;
/** What the derived Service gets then. */
export const AZURE_INTERNAL_ANNOTATION = "service.beta.kubernetes.io/azure-load-balancer-internal";

/** Labels of a MultiClusterService. */
export const DERIVED_SERVICE_LABEL = `${PREFIX}/derived-service`;
export const SERVICE_IMPORT_LABEL = `${PREFIX}/service-import`;
/** Labels of a derived Service: the MultiClusterService that it belongs to. */
export const MULTI_CLUSTER_SERVICE_NAME_LABEL = `${PREFIX}/multi-cluster-service-name`;
export const MULTI_CLUSTER_SERVICE_NAMESPACE_LABEL = `${PREFIX}/multi-cluster-service-namespace`;

/** Value of `endpointslice.kubernetes.io/managed-by` on the slices behind a MultiClusterService. */
export const FLEET_SLICE_MANAGER = "endpointsliceimport-controller.networking.fleet.azure.com";

export const FINALIZERS = {
  serviceExport: `${PREFIX}/svc-export-cleanup`,
  internalServiceExport: `${PREFIX}/internal-svc-export-cleanup`,
  endpointSliceExport: `${PREFIX}/endpointsliceexport-cleanup`,
  endpointSliceImport: `${PREFIX}/endpointsliceimport-cleanup`,
  internalServiceImport: `${PREFIX}/internalsvcimport-cleanup`,
  serviceImport: `${PREFIX}/serviceimport-cleanup`,
  multiClusterService: `${PREFIX}/service-resources-cleanup`,
  trafficManagerProfile: `${PREFIX}/traffic-manager-profile-cleanup`,
  trafficManagerBackend: `${PREFIX}/traffic-manager-backend-cleanup`,
  /** Set on profiles and backends by legacy controllers; ours removes it together with its own. */
  trafficManagerMetrics: `${PREFIX}/metrics-cleanup`,
} as const;

/**
 * Leases of the managers, in each manager's own cluster. The hub's Lease and the first of a member's have the same name, so
 * that a hub manager and a member manager exclude each other.
 */
export const MANAGER_LEASES = {
  hub: `2bf2b407.hub.${PREFIX}`,
  member: `2bf2b407.member.${PREFIX}`,
  mcsHub: `2bf2b407.mcs.hub.${PREFIX}`,
  mcsMember: `2bf2b407.mcs.member.${PREFIX}`,
} as const;

/** Reserved in every cluster. */
export const FLEET_SYSTEM_NAMESPACE = "fleet-system";
export const MAILBOX_PREFIX = "fleet-member-";
/** Of namespaces on the hub that it alone writes, and members read. */
export const VIEW_PREFIX = "fleet-view-";

/** In the place of a profile's name, for members without one. */
export const DEFAULT_VIEW = "default";

/** The namespace that the members of a ClusterMeshProfile read; those without a profile read `VIEW_NAMESPACE`. */
export function viewNamespaceOf(profile: string = DEFAULT_VIEW): string {
  return `${VIEW_PREFIX}${profile}`;
}

export function isViewNamespace(namespace: string | undefined): boolean {
  return namespace?.startsWith(VIEW_PREFIX) === true;
}

/** The namespace on the hub that belongs to a member. */
export function mailboxOf(cluster: string): string {
  return `${MAILBOX_PREFIX}${cluster}`;
}

/** The member that a namespace of the hub belongs to; undefined if it is not a member namespace. */
export function clusterOfMailbox(namespace: string | undefined): string | undefined {
  if (namespace?.startsWith(MAILBOX_PREFIX) !== true || namespace.length === MAILBOX_PREFIX.length)
    return undefined;
  return namespace.slice(MAILBOX_PREFIX.length);
}

/** Namespaces in which fleet programs keep their own objects: nothing is exported from them or imported into them. */
export function isReservedNamespace(namespace: string): boolean {
  return (
    namespace === FLEET_SYSTEM_NAMESPACE ||
    namespace.startsWith(MAILBOX_PREFIX) ||
    namespace.startsWith(VIEW_PREFIX)
  );
}
