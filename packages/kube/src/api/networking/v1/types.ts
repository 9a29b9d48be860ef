import { resource } from "../../meta/resource.ts";
import type { KubeObject } from "../../meta/types.ts";

export interface ServiceCidr extends KubeObject {
  spec?: { cidrs?: string[] };
}

/** Served by default since Kubernetes 1.33 (KEP-1880). */
export const SERVICE_CIDRS = resource<ServiceCidr>(
  "networking.k8s.io/v1",
  "ServiceCIDR",
  "servicecidrs",
  "Cluster",
);
