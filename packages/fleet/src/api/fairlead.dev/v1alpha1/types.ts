import type { IPFamily, SessionAffinityConfig } from "@fairlead/kube/api/core/v1/types.ts";
import { resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { LocalityAffinity } from "../../networking.fleet.azure.com/v1alpha1/types.ts";
import type { ServiceImportPort, ServiceImportType } from "../../multicluster.x-k8s.io/v1beta1/types.ts";

/** Objects of a member's mailbox that no other fleet API has a kind for. */

/**
 * Written by a member, once, under its own name: the namespaces it has. The hub sends it the services exported in these.
 * A mailbox without one belongs to an agent that imports by InternalServiceImport only.
 */
export interface NamespaceReport extends KubeObject {
  spec: {
    namespaces: string[];
    /** Namespace of the hub that the member reads: the hub does not copy its contents for this member. */
    view?: string;
    /** How many blocks of fleet addresses its nodes need, in a parallel network. */
    nodeBlocks?: number;
    /**
     * How far the member is with fleet addresses. "Ready": the endpoints that it exports have some, and other members know a
     * gateway of it. "InUse": its exports carry them.
     */
    fleetAddresses?: "Ready" | "InUse";
  };
}

/** One cluster of an imported service. */
export interface ImportedCluster {
  cluster: string;
  /**
   * Which ports of the import the cluster truly exposes: name of the port in that cluster, and in the import. A port of
   * the cluster's slices that is not listed must get no traffic.
   */
  ports: { name: string; importedAs: string }[];
  /** Share of the requests. Range: 0 to 1000; 0 means none. Absent means 1. */
  weight?: number;
  /** Range: 0 to 1000. Lower serves first. Absent means 0. */
  priority?: number;
  /** Whether global Services of other clusters use its endpoints. Absent means false. */
  global?: boolean;
}

/** Written by the hub: what a service of the fleet looks like, as the Multi-Cluster Services API merges its exports. */
export interface ImportedService extends KubeObject {
  spec: {
    service: { namespace: string; name: string };
    type: ServiceImportType;
    ports: ServiceImportPort[];
    /** Families that every exporter serves; empty when none said. */
    ipFamilies?: IPFamily[];
    sessionAffinity?: "None" | "ClientIP";
    sessionAffinityConfig?: SessionAffinityConfig;
    internalTrafficPolicy?: "Cluster" | "Local";
    trafficDistribution?: string;
    /** The clusters whose endpoints an importer prefers. Absent means "none". */
    affinity?: LocalityAffinity;
    labels?: Record<string, string>;
    annotations?: Record<string, string>;
    /** Virtual addresses of both families in a parallel network, the same in every cluster. */
    vips?: string[];
    clusters: ImportedCluster[];
  };
}

export const NAMESPACE_REPORTS = resource<NamespaceReport>(
  "fairlead.dev/v1alpha1",
  "NamespaceReport",
  "namespacereports",
);
export const IMPORTED_SERVICES = resource<ImportedService>(
  "fairlead.dev/v1alpha1",
  "ImportedService",
  "importedservices",
);
