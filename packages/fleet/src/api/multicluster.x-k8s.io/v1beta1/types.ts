import type { IPFamily, Protocol, SessionAffinityConfig } from "@fairlead/kube/api/core/v1/types.ts";
import { resource } from "@fairlead/kube/api/meta/resource.ts";
import type { Condition, KubeObject } from "@fairlead/kube/api/meta/types.ts";

/** Multi-Cluster Services API (KEP-1645). v1alpha1 has the same shape. */

export interface ServiceExport extends KubeObject {
  spec?: {
    /** Copied to the ServiceImport; labels of the Service and of the export itself never are. */
    exportedLabels?: Record<string, string>;
    exportedAnnotations?: Record<string, string>;
  };
  status?: { conditions?: Condition[] };
}

export type ServiceImportType = "ClusterSetIP" | "Headless";

export interface ServiceImportPort {
  name?: string;
  protocol?: Protocol;
  appProtocol?: string;
  port: number;
}

export interface ServiceImport extends KubeObject {
  spec?: {
    type: ServiceImportType;
    ports: ServiceImportPort[];
    /** The VIPs, at most one per family, in the order of `ipFamilies`. None for Headless. */
    ips?: string[];
    ipFamilies?: IPFamily[];
    sessionAffinity?: "None" | "ClientIP";
    sessionAffinityConfig?: SessionAffinityConfig;
    internalTrafficPolicy?: "Cluster" | "Local";
    trafficDistribution?: string;
  };
  status?: {
    clusters?: { cluster: string }[];
    conditions?: Condition[];
    endpointSliceObjects?: "Present" | "Absent";
  };
}

/** On imported EndpointSlices: the ServiceImport, in the same namespace, that they belong to. */
export const MCS_SERVICE_NAME_LABEL = "multicluster.kubernetes.io/service-name";
/** On imported EndpointSlices: the one cluster that the endpoints are in. */
export const MCS_SOURCE_CLUSTER_LABEL = "multicluster.kubernetes.io/source-cluster";
/** On a ServiceImport: the local Service that carries its VIP. */
export const MCS_DERIVED_SERVICE_ANNOTATION = "multicluster.kubernetes.io/derived-service";

export const MCS_GROUP = "multicluster.x-k8s.io";
export const MCS_SERVICE_EXPORTS = resource<ServiceExport>(
  "multicluster.x-k8s.io/v1beta1",
  "ServiceExport",
  "serviceexports",
);
export const MCS_SERVICE_IMPORTS = resource<ServiceImport>(
  "multicluster.x-k8s.io/v1beta1",
  "ServiceImport",
  "serviceimports",
);
