import { resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";

/** The targets of one name of the traffic manager's zone. It has addresses or a host name. */
export interface TrafficTarget {
  name: string;
  /** Share of the answers, at least 1. */
  weight: number;
  /** Lower serves first. Absent means 0. */
  priority?: number;
  addresses?: string[];
  hostname?: string;
  /** Its health checks fail. */
  degraded?: boolean;
  /** Its cluster is being drained. */
  drained?: boolean;
}

/**
 * The answers for one name, which is the object's. The hub writes it into its view, members copy it into `fleet-system`,
 * and DNS servers read it in either place. Targets whose entries others own are left alone.
 */
export interface TrafficRoute extends KubeObject {
  spec: {
    /** "namespace/name". */
    profile: string;
    /** Unit: seconds. */
    ttl: number;
    targets?: TrafficTarget[];
  };
}

export const TRAFFIC_ROUTES = resource<TrafficRoute>(
  "fairlead.dev/v1alpha1",
  "TrafficRoute",
  "trafficroutes",
);
