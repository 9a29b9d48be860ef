import { bindingColumns } from "../builtin/columns/other.ts";
import { define } from "../builtin/define.ts";
import type { ResourceDefinition } from "../registry/types.ts";
import type { RbacAuthorizer } from "./rbac.ts";
import { bindingStrategy, roleStrategy } from "./strategy.ts";

const RBAC = "rbac.authorization.k8s.io/v1";

/** Roles and bindings, which the authorizer follows. */
export function rbacResources(authorizer: RbacAuthorizer): readonly ResourceDefinition[] {
  const roles = roleStrategy(authorizer);
  const bindings = bindingStrategy(authorizer);
  return [
    define(RBAC, "Role", { plural: "roles", strategy: roles }),
    define(RBAC, "ClusterRole", { plural: "clusterroles", clusterScoped: true, strategy: roles }),
    define(RBAC, "RoleBinding", { plural: "rolebindings", columns: bindingColumns, strategy: bindings }),
    define(RBAC, "ClusterRoleBinding", {
      plural: "clusterrolebindings",
      clusterScoped: true,
      columns: bindingColumns,
      strategy: bindings,
    }),
  ];
}
