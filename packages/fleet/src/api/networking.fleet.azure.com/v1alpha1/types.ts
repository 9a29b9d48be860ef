import type {
  IPFamily,
  LoadBalancerIngress,
  Protocol,
  SessionAffinityConfig,
} from "@fairlead/kube/api/core/v1/types.ts";
import type { EndpointConditions, EndpointPort } from "@fairlead/kube/api/discovery/v1/types.ts";
import { resource } from "@fairlead/kube/api/meta/resource.ts";
import type { Condition, KubeObject } from "@fairlead/kube/api/meta/types.ts";

/**
 * The fleet networking API. Fields marked "addition" are Fairlead's: optional, and unknown to legacy agents, which neither
 * write nor need them.
 */

export const FLEET_NETWORKING_GROUP = "networking.fleet.azure.com";

export interface FleetServicePort {
  name?: string;
  protocol?: Protocol;
  appProtocol?: string;
  port: number;
  targetPort?: number | string;
}

/** The source of an object in a member namespace. */
export interface ExportedObjectReference {
  clusterId: string;
  apiVersion?: string;
  kind: string;
  namespace: string;
  name: string;
  resourceVersion: string;
  generation: number;
  uid: string;
  /** "namespace/name". */
  namespacedName: string;
  /** RFC 3339, whole seconds. */
  exportedSince?: string;
}

interface OwnerServiceReference {
  namespace: string;
  name: string;
  /** "namespace/name". */
  namespacedName: string;
}

export interface FleetServiceImportStatus {
  ips?: string[];
  type?: "ClusterSetIP" | "Headless";
  sessionAffinity?: string;
  sessionAffinityConfig?: SessionAffinityConfig;
  ports?: FleetServicePort[];
  clusters?: AcceptedCluster[];
  /** Families that the accepted clusters serve. In the member and its mailbox only. Addition. */
  ipFamilies?: IPFamily[];
  /** Why there is nothing to import, in words. In the member and its mailbox only. Addition. */
  message?: string;
}

export interface AcceptedCluster {
  cluster: string;
  /**
   * Where ports are united: which ports of the import the cluster exposes, by their names in that cluster and in the
   * import. Absent: all, under the same names. Addition.
   */
  ports?: { name: string; importedAs: string }[];
  /** Share of the requests. Absent means 1. Addition. */
  weight?: number;
}

export interface FleetServiceImport extends KubeObject {
  status?: FleetServiceImportStatus;
}

export interface MultiClusterService extends KubeObject {
  spec: { serviceImport?: { name: string } };
  status?: { loadBalancer?: { ingress?: LoadBalancerIngress[] }; conditions?: Condition[] };
}

/** One ServiceExport object that asks for the export of a service. Addition. */
export interface ExportDoor {
  /** API group of the ServiceExport. */
  group: string;
  /** When the ServiceExport was created: decides who is oldest. RFC 3339, whole seconds. */
  createdAt: string;
  exportedLabels?: Record<string, string>;
  exportedAnnotations?: Record<string, string>;
}

export interface InternalServiceExportSpec {
  ports: FleetServicePort[];
  serviceReference: ExportedObjectReference;
  /** Type of the exported Service. */
  type?: string;
  isDNSLabelConfigured?: boolean;
  isInternalLoadBalancer?: boolean;
  publicIPResourceID?: string;
  /** Range: 0 to 1000. Absent means 1. */
  weight?: number;
  /** Addition. Absent: exported by a fleet ServiceExport as old as this object. */
  doors?: ExportDoor[];
  /** Addition. Absent means "Strict". */
  portPolicy?: "Strict" | "Union";
  /** Addition. */
  headless?: boolean;
  /** Addition. */
  ipFamilies?: IPFamily[];
  /** Addition. */
  sessionAffinity?: "None" | "ClientIP";
  /** Addition. */
  sessionAffinityConfig?: SessionAffinityConfig;
  /** Addition. */
  internalTrafficPolicy?: "Cluster" | "Local";
  /** Addition. */
  trafficDistribution?: string;
  /** Range: 0 to 1000. Lower serves first. Absent means 0. Addition. */
  priority?: number;
  /** The clusters whose endpoints an importer prefers. Addition. */
  affinity?: LocalityAffinity;
  /** Sorted. The members that import from this cluster; absent means all. Addition. */
  exportTo?: string[];
  /** The addresses of the Service's load balancer. Addition. */
  loadBalancerIngress?: Pick<LoadBalancerIngress, "ip" | "hostname">[];
}

/** Own endpoints first, those of others first, or all alike. */
export type LocalityAffinity = "none" | "local" | "remote";

export interface InternalServiceExport extends KubeObject {
  spec?: InternalServiceExportSpec;
  status?: { conditions?: Condition[] };
}

export interface InternalServiceImport extends KubeObject {
  spec: {
    serviceImportReference: ExportedObjectReference;
    /** Whether other members may import the service at the same time. Addition. */
    shared?: boolean;
  };
  status?: FleetServiceImportStatus;
}

export interface ExportedEndpoint {
  addresses: string[];
  /** Addition. Absent: ready, because agents that do not know it send ready endpoints only. */
  conditions?: EndpointConditions;
  /** Addition. */
  hostname?: string;
  /** Addition. */
  nodeName?: string;
  /** Addition. */
  zone?: string;
}

export interface EndpointSliceExportSpec {
  /** IPv6 is an addition. */
  addressType: IPFamily;
  endpoints: ExportedEndpoint[];
  ports?: EndpointPort[];
  /** Of each endpoint, for global Services. Range: 0 to 65535; 0 means no new connections. Absent means 1. Addition. */
  weight?: number;
  endpointSliceReference: ExportedObjectReference;
  ownerServiceReference: OwnerServiceReference;
}

export interface EndpointSliceExport extends KubeObject {
  spec: EndpointSliceExportSpec;
}
export interface EndpointSliceImport extends KubeObject {
  spec: EndpointSliceExportSpec;
}

const V1ALPHA1 = "networking.fleet.azure.com/v1alpha1";

export const FLEET_SERVICE_IMPORTS = resource<FleetServiceImport>(
  V1ALPHA1,
  "ServiceImport",
  "serviceimports",
);
export const MULTI_CLUSTER_SERVICES = resource<MultiClusterService>(
  V1ALPHA1,
  "MultiClusterService",
  "multiclusterservices",
);
export const INTERNAL_SERVICE_EXPORTS = resource<InternalServiceExport>(
  V1ALPHA1,
  "InternalServiceExport",
  "internalserviceexports",
);
export const INTERNAL_SERVICE_IMPORTS = resource<InternalServiceImport>(
  V1ALPHA1,
  "InternalServiceImport",
  "internalserviceimports",
);
export const ENDPOINT_SLICE_EXPORTS = resource<EndpointSliceExport>(
  V1ALPHA1,
  "EndpointSliceExport",
  "endpointsliceexports",
);
export const ENDPOINT_SLICE_IMPORTS = resource<EndpointSliceImport>(
  V1ALPHA1,
  "EndpointSliceImport",
  "endpointsliceimports",
);
