import { resource } from "../../meta/resource.ts";
import type { KubeObject } from "../../meta/types.ts";

export interface Lease extends KubeObject {
  spec?: {
    holderIdentity?: string;
    /** Unit: seconds. */
    leaseDurationSeconds?: number;
    /** RFC 3339 with exactly six fractional digits. */
    acquireTime?: string;
    renewTime?: string;
    leaseTransitions?: number;
  };
}

export const LEASES = resource<Lease>("coordination.k8s.io/v1", "Lease", "leases");
