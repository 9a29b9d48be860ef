import { resource } from "@fairlead/kube/api/meta/resource.ts";
import type { Condition, KubeObject, LabelSelector } from "@fairlead/kube/api/meta/types.ts";

/** ClusterNetworkPolicy of the Network Policy API. Source: kubernetes-sigs/network-policy-api, apis/v1alpha2. */

export interface SelectedPods {
  namespaceSelector: LabelSelector;
  podSelector: LabelSelector;
}

/** Exactly one field. */
export interface ClusterPolicyPeer {
  namespaces?: LabelSelector;
  pods?: SelectedPods;
  /** These are of egress only. */
  nodes?: LabelSelector;
  networks?: string[];
  domainNames?: string[];
}

interface TransportPorts {
  destinationPort?: { number?: number; range?: { start: number; end: number } };
}

/** Exactly one field. */
export interface ClusterPolicyProtocol {
  tcp?: TransportPorts;
  udp?: TransportPorts;
  sctp?: TransportPorts;
  destinationNamedPort?: string;
}

export interface ClusterPolicyRule {
  name?: string;
  action: "Accept" | "Deny" | "Pass";
  from?: ClusterPolicyPeer[];
  to?: ClusterPolicyPeer[];
  protocols?: ClusterPolicyProtocol[];
}

export interface ClusterNetworkPolicy extends KubeObject {
  spec?: {
    tier: "Admin" | "Baseline";
    /** 0 to 1000; lower decides first. */
    priority: number;
    subject: { namespaces?: LabelSelector; pods?: SelectedPods };
    ingress?: ClusterPolicyRule[];
    egress?: ClusterPolicyRule[];
  };
  status?: { conditions?: Condition[] };
}

export const CLUSTER_NETWORK_POLICIES = resource<ClusterNetworkPolicy>(
  "policy.networking.k8s.io/v1alpha2",
  "ClusterNetworkPolicy",
  "clusternetworkpolicies",
  "Cluster",
);
