import { resource } from "@fairlead/kube/api/meta/resource.ts";
import type { Condition, KubeObject } from "@fairlead/kube/api/meta/types.ts";

/** Exports the Service of the same namespace and name. It has no spec. v1alpha1 has the same shape. */
export interface FleetServiceExport extends KubeObject {
  status?: { conditions?: Condition[] };
}

export const FLEET_SERVICE_EXPORTS = resource<FleetServiceExport>(
  "networking.fleet.azure.com/v1beta1",
  "ServiceExport",
  "serviceexports",
);
