import { resource } from "../../meta/resource.ts";
import type { KubeObject, LabelSelector } from "../../meta/types.ts";

export interface PolicyRule {
  verbs: string[];
  apiGroups?: string[];
  resources?: string[];
  resourceNames?: string[];
  nonResourceURLs?: string[];
}

export interface Subject {
  kind: "User" | "Group" | "ServiceAccount";
  apiGroup?: string;
  name: string;
  namespace?: string;
}

export interface RoleRef {
  apiGroup: "rbac.authorization.k8s.io";
  kind: "Role" | "ClusterRole";
  name: string;
}

export interface Role extends KubeObject {
  rules?: PolicyRule[];
}
export interface ClusterRole extends KubeObject {
  rules?: PolicyRule[];
  aggregationRule?: { clusterRoleSelectors?: LabelSelector[] };
}
export interface RoleBinding extends KubeObject {
  subjects?: Subject[];
  roleRef: RoleRef;
}
export type ClusterRoleBinding = RoleBinding;

export const ROLES = resource<Role>("rbac.authorization.k8s.io/v1", "Role", "roles");
export const CLUSTER_ROLES = resource<ClusterRole>(
  "rbac.authorization.k8s.io/v1",
  "ClusterRole",
  "clusterroles",
  "Cluster",
);
export const ROLE_BINDINGS = resource<RoleBinding>(
  "rbac.authorization.k8s.io/v1",
  "RoleBinding",
  "rolebindings",
);
export const CLUSTER_ROLE_BINDINGS = resource<ClusterRoleBinding>(
  "rbac.authorization.k8s.io/v1",
  "ClusterRoleBinding",
  "clusterrolebindings",
  "Cluster",
);
