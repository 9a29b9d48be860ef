import { resource } from "../../meta/resource.ts";
import type { KubeObject, LabelSelector } from "../../meta/types.ts";

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

export interface NetworkPolicyPort {
  /** Default: TCP. */
  protocol?: "TCP" | "UDP" | "SCTP";
  port?: number | string;
  endPort?: number;
}

export interface NetworkPolicyPeer {
  podSelector?: LabelSelector;
  namespaceSelector?: LabelSelector;
  ipBlock?: { cidr: string; except?: string[] };
}

export interface NetworkPolicy extends KubeObject {
  spec?: {
    podSelector?: LabelSelector;
    policyTypes?: ("Ingress" | "Egress")[];
    ingress?: { from?: NetworkPolicyPeer[]; ports?: NetworkPolicyPort[] }[];
    egress?: { to?: NetworkPolicyPeer[]; ports?: NetworkPolicyPort[] }[];
  };
}

export const NETWORK_POLICIES = resource<NetworkPolicy>(
  "networking.k8s.io/v1",
  "NetworkPolicy",
  "networkpolicies",
);
