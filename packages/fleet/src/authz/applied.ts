import {
  CLUSTER_ROLE_BINDINGS,
  type ClusterRoleBinding,
  type Subject,
} from "@fairlead/kube/api/rbac/v1/types.ts";
import type { Manifest } from "./manifests.ts";

/** What placements may write in a member: the rights of a ClusterRole there. As in KubeFleet, all of them by default. */
export const EVERYTHING = "cluster-admin";

const NAME = "fairlead-member-applies";

/** By the name of the role: a binding cannot change its role. */
export function appliesAs(role: string, subject: Subject): Manifest<ClusterRoleBinding> {
  return {
    of: CLUSTER_ROLE_BINDINGS,
    object: {
      metadata: { name: `${NAME}-${role}` },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: role },
      subjects: [subject],
    },
  };
}

export function isAppliesBinding({ metadata }: ClusterRoleBinding): boolean {
  return metadata.name.startsWith(`${NAME}-`);
}
