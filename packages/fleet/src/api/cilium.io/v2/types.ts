import { resource } from "@fairlead/kube/api/meta/resource.ts";
import type { Condition, KubeObject, LabelSelector } from "@fairlead/kube/api/meta/types.ts";

/** Cilium's kinds of network policies, served where Cilium is not installed. Source: its CustomResourceDefinitions. */

export interface CiliumPort {
  port?: string;
  endPort?: number;
  /** Default: ANY, which is TCP, UDP and SCTP. */
  protocol?: string;
}

export interface CiliumFqdn {
  matchName?: string;
  matchPattern?: string;
}

export interface CiliumPortRule {
  ports?: CiliumPort[];
  rules?: { http?: object[]; dns?: CiliumFqdn[]; kafka?: object[]; l7proto?: string; l7?: object[] };
  serverNames?: string[];
  listener?: object;
  terminatingTLS?: object;
  originatingTLS?: object;
}

export interface CiliumCidrRule {
  cidr?: string;
  cidrGroupRef?: string;
  cidrGroupSelector?: LabelSelector;
  except?: string[];
}

export interface CiliumIcmpRule {
  fields?: { family?: "IPv4" | "IPv6"; type: number | string }[];
}

interface CommonRule {
  toPorts?: CiliumPortRule[];
  icmps?: CiliumIcmpRule[];
  authentication?: { mode: "disabled" | "required" | "test-always-fail" };
}

export interface CiliumIngressRule extends CommonRule {
  fromEndpoints?: LabelSelector[];
  fromRequires?: LabelSelector[];
  fromCIDR?: string[];
  fromCIDRSet?: CiliumCidrRule[];
  fromEntities?: string[];
  fromGroups?: object[];
  fromNodes?: LabelSelector[];
}

export interface CiliumService {
  k8sService?: { serviceName?: string; namespace?: string };
  k8sServiceSelector?: { selector: LabelSelector; namespace?: string };
}

export interface CiliumEgressRule extends CommonRule {
  toEndpoints?: LabelSelector[];
  toRequires?: LabelSelector[];
  toCIDR?: string[];
  toCIDRSet?: CiliumCidrRule[];
  toEntities?: string[];
  toServices?: CiliumService[];
  toFQDNs?: CiliumFqdn[];
  toGroups?: object[];
  toNodes?: LabelSelector[];
}

export interface CiliumPolicySpec {
  endpointSelector?: LabelSelector;
  nodeSelector?: LabelSelector;
  ingress?: CiliumIngressRule[];
  ingressDeny?: CiliumIngressRule[];
  egress?: CiliumEgressRule[];
  egressDeny?: CiliumEgressRule[];
  enableDefaultDeny?: { ingress?: boolean; egress?: boolean };
  labels?: object[];
  description?: string;
  log?: { value?: string };
}

export interface CiliumNetworkPolicy extends KubeObject {
  spec?: CiliumPolicySpec;
  specs?: CiliumPolicySpec[];
  status?: { conditions?: Condition[] };
}

export interface CiliumCidrGroup extends KubeObject {
  spec?: { externalCIDRs?: string[] };
}

export const CILIUM_NETWORK_POLICIES = resource<CiliumNetworkPolicy>(
  "cilium.io/v2",
  "CiliumNetworkPolicy",
  "ciliumnetworkpolicies",
);
export const CILIUM_CLUSTERWIDE_NETWORK_POLICIES = resource<CiliumNetworkPolicy>(
  "cilium.io/v2",
  "CiliumClusterwideNetworkPolicy",
  "ciliumclusterwidenetworkpolicies",
  "Cluster",
);
export const CILIUM_CIDR_GROUPS = resource<CiliumCidrGroup>(
  "cilium.io/v2",
  "CiliumCIDRGroup",
  "ciliumcidrgroups",
  "Cluster",
);
