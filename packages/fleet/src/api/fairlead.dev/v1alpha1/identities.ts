import { resource } from "@fairlead/kube/api/meta/resource.ts";
import type { Condition, KubeObject, LabelSelector } from "@fairlead/kube/api/meta/types.ts";

/** What members know of the pods, namespaces and nodes of each other, for network policies. docs/design/identities.md */

export const IDENTITY_SLICE_TYPES = ["Pods", "Namespace", "Nodes", "Addresses"] as const;

/** A pod that other clusters recognize by its addresses. */
export interface IdentityPod {
  name: string;
  /** Its own ones in a flat network, its fleet addresses in a parallel one; both while the network changes its mode. */
  addresses: string[];
  /** Labels that the others in the slice do not have, or have with other values: of pods of one workload, or changed since. */
  labels?: Record<string, string>;
  /** Keys of labels of the slice that this pod does not have. */
  without?: string[];
}

/** A node of another cluster. */
export interface IdentityNode {
  name: string;
  addresses: string[];
  labels?: Record<string, string>;
}

/**
 * "Pods": some pods of one namespace with the same labels, service account and named ports. "Namespace": the labels of a
 * namespace. "Nodes": some nodes. "Addresses": some that no selector of pods selects, so that others know them as such: of pods in namespaces that
 * are not global, and of hosts, among the addresses that others take for those of pods. In the mailbox, written by the member; checked by the hub and shown in the view; copied
 * by the members that need it to their `fleet-system`, where nodes read it.
 */
export interface IdentitySlice extends KubeObject {
  spec: {
    cluster: string;
    type: (typeof IDENTITY_SLICE_TYPES)[number];
    /** Absent for nodes and addresses. */
    namespace?: string;
    /** Of the pods, or of the namespace. */
    labels?: Record<string, string>;
    serviceAccount?: string;
    /** Named container ports. */
    ports?: { name: string; protocol: "TCP" | "UDP" | "SCTP"; port: number }[];
    pods?: IdentityPod[];
    nodes?: IdentityNode[];
    addresses?: string[];
    /** When the member wrote these contents. RFC 3339. */
    publishedAt: string;
  };
  /** In the view: what the last write changed (`domain/identity-change.ts`). */
  change?: string;
}

/** Some pods of global namespaces of other clusters. What is absent matches all. */
export interface IdentityRequest {
  clusters?: string[];
  namespaces?: string[];
  namespaceSelector?: LabelSelector;
  podSelector?: LabelSelector;
  /** Whether addresses of what is not such a pod are needed, too. */
  addresses?: boolean;
}

/** Pods and nodes that policies may match. */
export interface IdentityWants {
  requests: IdentityRequest[];
  /** Whether nodes are needed, too. */
  nodes?: boolean;
}

/** In the mailbox, under the member's name: what its policies need to know of other members. Written by its agent. */
export interface IdentityDemand extends KubeObject {
  spec: IdentityWants;
  /** Written by the hub. */
  status?: {
    /** What other members need to know of this one. */
    wanted?: IdentityWants;
    /** "Accepted": whether the hub shows all that the member published, and why not. */
    conditions?: Condition[];
  };
}

export const IDENTITY_SLICES = resource<IdentitySlice>(
  "fairlead.dev/v1alpha1",
  "IdentitySlice",
  "identityslices",
);
export const IDENTITY_DEMANDS = resource<IdentityDemand>(
  "fairlead.dev/v1alpha1",
  "IdentityDemand",
  "identitydemands",
);

/** How many labels of a pod may be others than those of its slice, and how many absent. */
export const MAX_IDENTITY_POD_LABELS = 8;
/** Bounds of one slice. */
export const MAX_IDENTITY_PODS = 64;
export const MAX_IDENTITY_NODES = 64;
export const MAX_IDENTITY_ADDRESSES = 256;
export const MAX_IDENTITY_PORTS = 64;
/** Bound of one demand. */
export const MAX_IDENTITY_REQUESTS = 256;
