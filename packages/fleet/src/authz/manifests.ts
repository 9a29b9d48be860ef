import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import {
  CLUSTER_ROLE_BINDINGS,
  CLUSTER_ROLES,
  type ClusterRole,
  type ClusterRoleBinding,
  type Role,
  ROLE_BINDINGS,
  type RoleBinding,
  ROLES,
  type Subject,
} from "@fairlead/kube/api/rbac/v1/types.ts";
import { rulesOf } from "./access.ts";
import { ACT_AS_MEMBERS, type ProgramAccess } from "./programs.ts";

export interface Manifest<T extends KubeObject = KubeObject> {
  readonly of: Resource<T>;
  readonly object: T;
}

/** The roles of a program and their bindings to `subject`, in the order in which they are applied. */
export function accessManifests(program: ProgramAccess, subject: Subject): Manifest[] {
  const { name } = program;
  const local = { name, namespace: FLEET_SYSTEM_NAMESPACE };
  const apiGroup = "rbac.authorization.k8s.io" as const;
  const clusterRole: ClusterRole = { metadata: { name }, rules: rulesOf(program.cluster) };
  const clusterBinding: ClusterRoleBinding = {
    metadata: { name },
    roleRef: { apiGroup, kind: "ClusterRole", name },
    subjects: [subject],
  };
  const role: Role = { metadata: local, rules: rulesOf(program.system) };
  const binding: RoleBinding = {
    metadata: local,
    roleRef: { apiGroup, kind: "Role", name },
    subjects: [subject],
  };
  const everywhere: Manifest[] = [
    { of: CLUSTER_ROLES, object: clusterRole },
    { of: CLUSTER_ROLE_BINDINGS, object: clusterBinding },
  ];
  const inSystem: Manifest[] = [
    { of: ROLES, object: role },
    { of: ROLE_BINDINGS, object: binding },
  ];
  return [
    ...(program.cluster.length === 0 ? [] : everywhere),
    ...(program.system.length === 0 ? [] : inSystem),
  ];
}

/** `ACT_AS_MEMBERS` for `subject`; no program's declaration has it. */
export function actAsMembersManifests(subject: Subject): Manifest[] {
  const name = "fairlead-hub-certifies";
  const roleRef = { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name } as const;
  const role: ClusterRole = { metadata: { name }, rules: rulesOf(ACT_AS_MEMBERS) };
  const binding: ClusterRoleBinding = { metadata: { name }, roleRef, subjects: [subject] };
  return [
    { of: CLUSTER_ROLES, object: role },
    { of: CLUSTER_ROLE_BINDINGS, object: binding },
  ];
}
