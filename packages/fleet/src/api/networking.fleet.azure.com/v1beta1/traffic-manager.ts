import { resource } from "@fairlead/kube/api/meta/resource.ts";
import type { Condition, KubeObject } from "@fairlead/kube/api/meta/types.ts";

/** The health check of the endpoints of a profile. Absent fields have the defaults given here. */
export interface MonitorConfig {
  /** Unit: seconds. Default: 30. */
  intervalInSeconds?: 10 | 30;
  /** Default: "/". */
  path?: string;
  /** Default: 80. */
  port?: number;
  /** Default: "HTTP". */
  protocol?: "HTTP" | "HTTPS" | "TCP";
  customHeaders?: { name: string; value: string }[];
  /** Unit: seconds. Default: 10; 9 with an interval of 10. */
  timeoutInSeconds?: number;
  /** Default: 3. */
  toleratedNumberOfFailures?: number;
}

/** One DNS name in front of services of the fleet. v1alpha1 has the same shape. */
export interface TrafficManagerProfile extends KubeObject {
  /** The resource group has no meaning here. Others require it, and their own example lacks it. */
  spec: { resourceGroup?: string; monitorConfig?: MonitorConfig };
  status?: { dnsName?: string; resourceID?: string; conditions?: Condition[] };
}

export type EndpointHealth = "Online" | "Degraded" | "CheckingEndpoint";

export interface TrafficManagerEndpointStatus {
  name: string;
  resourceID?: string;
  weight?: number;
  target?: string;
  from?: { cluster: string; weight?: number };
  /** Addition. */
  health?: EndpointHealth;
}

/** Puts an exported service behind a profile. v1alpha1 has the same shape. */
export interface TrafficManagerBackend extends KubeObject {
  spec: {
    profile: { name: string };
    backend: { name: string };
    /** Range: 0 to 1000. Default: 1. */
    weight?: number;
  };
  status?: { endpoints?: TrafficManagerEndpointStatus[]; conditions?: Condition[] };
}

const V1BETA1 = "networking.fleet.azure.com/v1beta1";

export const TRAFFIC_MANAGER_PROFILES = resource<TrafficManagerProfile>(
  V1BETA1,
  "TrafficManagerProfile",
  "trafficmanagerprofiles",
);
export const TRAFFIC_MANAGER_BACKENDS = resource<TrafficManagerBackend>(
  V1BETA1,
  "TrafficManagerBackend",
  "trafficmanagerbackends",
);
