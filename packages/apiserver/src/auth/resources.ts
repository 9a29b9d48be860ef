import { bindingColumns, signingRequestColumns } from "#builtin/columns/other.ts";
import { define } from "#builtin/define.ts";
import type { ResourceDefinition } from "#registry/types.ts";
import { signingRequestStrategy } from "./certificates/strategy.ts";
import type { RbacAuthorizer } from "./rbac.ts";
import { bindingStrategy, roleStrategy } from "./strategy.ts";

const RBAC = "rbac.authorization.k8s.io/v1";

/** Roles and bindings, which the authorizer follows, and requests for certificates, for which it decides. */
export function accessResources(authorizer: RbacAuthorizer): readonly ResourceDefinition[] {
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
    define("certificates.k8s.io/v1", "CertificateSigningRequest", {
      plural: "certificatesigningrequests",
      clusterScoped: true,
      shortNames: ["csr"],
      columns: signingRequestColumns,
      hasStatus: true,
      strategy: signingRequestStrategy(authorizer),
    }),
  ];
}
