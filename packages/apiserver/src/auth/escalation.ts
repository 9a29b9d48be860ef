import type { PolicyRule, RoleBinding } from "@fairlead/kube/api/rbac/v1/types.ts";
import { isObject } from "@fairlead/base/json.ts";
import type { WriteContext } from "#registry/types.ts";
import type { ApiObject, UserInfo } from "#values/object.ts";
import { forbidden, notFound } from "#status.ts";
import type { RbacAuthorizer } from "./rbac.ts";
import { uncoveredRules } from "./rules.ts";
import { MASTERS_GROUP } from "#values/authorizer.ts";

/**
 * Users can only grant permissions that they have. Source: k8s.io/kubernetes, pkg/registry/rbac, `EscalationAllowed` and
 * `policybased` storages.
 */

const GROUP = "rbac.authorization.k8s.io";
const EVERYTHING: readonly PolicyRule[] = [
  { verbs: ["*"], apiGroups: ["*"], resources: ["*"] },
  { verbs: ["*"], nonResourceURLs: ["*"] },
];

/** @throws {StatusError} 403 when the role grants what the user neither has nor may `escalate` to. */
export function checkRoleEscalation(
  role: ApiObject,
  context: WriteContext,
  authorizer: RbacAuthorizer,
): void {
  const { user } = context;
  const { namespace, name } = role.metadata;
  const plural = role.kind === "ClusterRole" ? "clusterroles" : "roles";
  if (isTrusted(user) || mayDo(user, "escalate", { plural, namespace, name }, authorizer)) return;
  // The selector of an aggregated role decides what the role grants, now and later.
  const wanted = role["aggregationRule"] === undefined ? rulesOf(role) : EVERYTHING;
  refuseUncovered(role, plural, wanted, { user, authorizer });
}

/** @throws {StatusError} 403 when the binding grants what the user neither has nor may `bind`. */
export function checkBindingEscalation(
  binding: ApiObject & RoleBinding,
  context: WriteContext,
  authorizer: RbacAuthorizer,
): void {
  const { user } = context;
  if (isTrusted(user)) return;
  const { namespace } = binding.metadata;
  const { kind, name } = binding.roleRef;
  const ref = { plural: kind === "ClusterRole" ? "clusterroles" : "roles", namespace, name };
  if (mayDo(user, "bind", ref, authorizer)) return;
  const wanted = authorizer.rulesOfRole(kind, namespace, name);
  if (wanted === undefined) throw notFound({ group: GROUP, plural: ref.plural }, name);
  const plural = binding.kind === "ClusterRoleBinding" ? "clusterrolebindings" : "rolebindings";
  refuseUncovered(binding, plural, wanted, { user, authorizer });
}

function isTrusted(user: UserInfo): boolean {
  return user.groups.includes(MASTERS_GROUP);
}

function mayDo(
  user: UserInfo,
  verb: string,
  of: { readonly plural: string; readonly namespace: string | undefined; readonly name: string },
  authorizer: RbacAuthorizer,
): boolean {
  const resource = {
    group: GROUP,
    resource: of.plural,
    subresource: "",
    namespace: of.namespace,
    name: of.name,
  };
  return authorizer.authorize({ user, verb, resource }).allowed;
}

function refuseUncovered(
  object: ApiObject,
  plural: string,
  wanted: readonly PolicyRule[],
  { user, authorizer }: { readonly user: UserInfo; readonly authorizer: RbacAuthorizer },
): void {
  const held = authorizer.policyRulesFor(user, object.metadata.namespace);
  const missing = uncoveredRules(held, wanted);
  if (missing.length === 0) return;
  const groups = user.groups.map((it) => JSON.stringify(it)).join(" ");
  const why =
    `user ${JSON.stringify(user.name)} (groups=[${groups}]) is attempting to grant RBAC permissions not currently ` +
    `held:\n${missing.map(describeRule).join("\n")}`;
  throw forbidden({ group: GROUP, plural }, object.metadata.name, why);
}

function rulesOf(role: ApiObject): readonly PolicyRule[] {
  const rules = role["rules"];
  return Array.isArray(rules) ? rules.filter(isObject).map((it) => it as unknown as PolicyRule) : [];
}

const PARTS = [
  ["APIGroups", "apiGroups"],
  ["Resources", "resources"],
  ["ResourceNames", "resourceNames"],
  ["NonResourceURLs", "nonResourceURLs"],
  ["Verbs", "verbs"],
] as const;

function describeRule(rule: PolicyRule): string {
  const parts = PARTS.filter(([, key]) => (rule[key] ?? []).length > 0).map(([name, key]) => {
    const values = (rule[key] ?? []).map((it) => JSON.stringify(it)).join(" ");
    return `${name}:[${values}]`;
  });
  return `{${parts.join(", ")}}`;
}
