import { type Resource, resource } from "../../meta/resource.ts";
import type { KubeObject } from "../../meta/types.ts";
import type { ObjectReference, Protocol } from "../../core/v1/types.ts";

export interface EndpointConditions {
  /** Absent means unknown, to be read as true. */
  ready?: boolean;
  serving?: boolean;
  terminating?: boolean;
}

export interface Endpoint {
  addresses: string[];
  conditions?: EndpointConditions;
  hostname?: string;
  nodeName?: string;
  zone?: string;
  hints?: { forZones?: { name: string }[]; forNodes?: { name: string }[] };
  targetRef?: ObjectReference;
  deprecatedTopology?: Record<string, string>;
}

export interface EndpointPort {
  name?: string;
  protocol?: Protocol;
  port?: number;
  appProtocol?: string;
}

export interface EndpointSlice extends KubeObject {
  addressType: "IPv4" | "IPv6" | "FQDN";
  endpoints: Endpoint[];
  ports?: EndpointPort[];
}

/** The Service that a slice belongs to. */
export const SERVICE_NAME_LABEL = "kubernetes.io/service-name";
export const MANAGED_BY_LABEL = "endpointslice.kubernetes.io/managed-by";

export const ENDPOINT_SLICES: Resource<EndpointSlice> = {
  ...resource<EndpointSlice>("discovery.k8s.io/v1", "EndpointSlice", "endpointslices"),
  lists: ["endpoints"],
};
