import type { ClusterRole, PolicyRule, RoleBinding, Subject } from "@fairlead/kube/api/rbac/v1/types.ts";
import { matchesLabels } from "#builtin/selectors.ts";
import type { ApiObject, UserInfo } from "#values/object.ts";
import { CompiledRule } from "./rules.ts";
import { serviceAccountUser } from "#values/service-account.ts";
import {
  type Attributes,
  type Authorizer,
  type Decision,
  type GrantedRules,
  MASTERS_GROUP,
  type PathRule,
  type ResourceRule,
} from "#values/authorizer.ts";

/** A binding, under one of its subjects. */
interface Grant {
  readonly binding: RoleBinding;
  readonly subject: Subject;
  readonly roleKey: string;
}

/** The roles that are bound to one subject: cluster-wide, and by namespace. */
interface SubjectGrants {
  readonly cluster: Map<string, Grant>;
  readonly namespaces: Map<string, Map<string, Grant>>;
}

interface CompiledRole {
  readonly role: ClusterRole;
  /** Undefined for an aggregated role whose parts changed. */
  rules: readonly CompiledRule[] | undefined;
}

const MASTERS_DECISION: Decision = { allowed: true, reason: "" };
const DENIED: Decision = { allowed: false, reason: "" };

/**
 * Role-based access control over an index from subjects to bindings: a request looks at the bindings of its user and
 * groups only. The index follows the store through `roleStored` and `bindingStored`.
 */
export class RbacAuthorizer implements Authorizer {
  /** By "namespace/name", with an empty namespace for ClusterRoles. */
  readonly #roles = new Map<string, CompiledRole>();
  readonly #subjects = new Map<string, SubjectGrants>();

  authorize(attributes: Attributes): Decision {
    if (attributes.user.groups.includes(MASTERS_GROUP)) return MASTERS_DECISION;
    const namespace = "resource" in attributes ? attributes.resource.namespace : undefined;
    for (const grant of this.#grantsOf(attributes.user, namespace)) {
      if (this.#rulesOf(grant.roleKey).some((it) => it.allows(attributes))) {
        return { allowed: true, reason: describeGrant(grant) };
      }
    }
    return DENIED;
  }

  rulesFor(user: UserInfo, namespace: string | undefined): GrantedRules {
    const resourceRules: ResourceRule[] = [];
    const nonResourceRules: PathRule[] = [];
    for (const rule of this.policyRulesFor(user, namespace)) {
      const { verbs } = rule;
      if ((rule.nonResourceURLs ?? []).length > 0) {
        nonResourceRules.push({ verbs, nonResourceURLs: rule.nonResourceURLs ?? [] });
      }
      if ((rule.resources ?? []).length === 0) continue;
      const { apiGroups = [], resources = [], resourceNames = [] } = rule;
      resourceRules.push({
        verbs,
        apiGroups,
        resources,
        ...(resourceNames.length === 0 ? {} : { resourceNames }),
      });
    }
    return { resourceRules, nonResourceRules };
  }

  /** The rules in the format of roles, to compare with the rules that a user wants to grant. */
  policyRulesFor(user: UserInfo, namespace: string | undefined): PolicyRule[] {
    const rules: PolicyRule[] = [];
    for (const grant of this.#grantsOf(user, namespace)) {
      for (const rule of this.#rulesOf(grant.roleKey)) rules.push(rule.source);
    }
    return rules;
  }

  /** The rules of a role, including aggregation; undefined if the role does not exist. */
  rulesOfRole(kind: string, namespace: string | undefined, name: string): PolicyRule[] | undefined {
    const key = roleKeyOf(kind, namespace, name);
    return this.#roles.has(key) ? this.#rulesOf(key).map((it) => it.source) : undefined;
  }

  /** The combined rules of the ClusterRoles that the aggregation rule of `role` selects. */
  aggregatedRules(role: ClusterRole): PolicyRule[] {
    const selectors = role.aggregationRule?.clusterRoleSelectors ?? [];
    const parts = [...this.#roles.values()]
      .map((it) => it.role)
      .filter((it) => it.metadata.namespace === undefined && it.metadata.name !== role.metadata.name)
      .filter((it) => selectors.some((selector) => matchesLabels(selector, it.metadata.labels ?? {})))
      .toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
    const seen = new Map<string, PolicyRule>();
    for (const rule of parts.flatMap((it) => it.rules ?? [])) seen.set(JSON.stringify(rule), rule);
    return [...seen.values()];
  }

  /** Follows Roles and ClusterRoles. */
  roleStored(after: ApiObject | undefined, before: ApiObject | undefined): void {
    const object = after ?? before;
    if (object === undefined) return;
    const key = roleKeyOf(object.kind, object.metadata.namespace, object.metadata.name);
    if (after === undefined) this.#roles.delete(key);
    else this.#roles.set(key, { role: after, rules: undefined });
    if (object.metadata.namespace !== undefined) return;
    for (const it of this.#roles.values()) if (it.role.aggregationRule !== undefined) it.rules = undefined;
  }

  /** Follows RoleBindings and ClusterRoleBindings. */
  bindingStored(after: ApiObject | undefined, before: ApiObject | undefined): void {
    if (before !== undefined) this.#forget(before as unknown as RoleBinding);
    if (after !== undefined) this.#index(after as unknown as RoleBinding);
  }

  *#grantsOf(user: UserInfo, namespace: string | undefined): Generator<Grant> {
    yield* this.#grantsUnder(`u:${user.name}`, namespace);
    for (const group of user.groups) yield* this.#grantsUnder(`g:${group}`, namespace);
  }

  *#grantsUnder(subject: string, namespace: string | undefined): Generator<Grant> {
    const grants = this.#subjects.get(subject);
    if (grants === undefined) return;
    yield* grants.cluster.values();
    if (namespace !== undefined) yield* grants.namespaces.get(namespace)?.values() ?? [];
  }

  #rulesOf(roleKey: string): readonly CompiledRule[] {
    const entry = this.#roles.get(roleKey);
    if (entry === undefined) return [];
    if (entry.rules === undefined) {
      const { role } = entry;
      const rules = role.aggregationRule === undefined ? (role.rules ?? []) : this.aggregatedRules(role);
      entry.rules = rules.map((it) => new CompiledRule(it));
    }
    return entry.rules;
  }

  #index(binding: RoleBinding): void {
    const { namespace, name } = binding.metadata;
    const roleKey = roleKeyOf(binding.roleRef.kind, namespace, binding.roleRef.name);
    for (const subject of binding.subjects ?? []) {
      const key = subjectKeyOf(subject, namespace);
      const grants = this.#subjects.get(key) ?? noGrants();
      this.#subjects.set(key, grants);
      if (namespace === undefined) grants.cluster.set(name, { binding, subject, roleKey });
      else {
        const byName = grants.namespaces.get(namespace) ?? new Map<string, Grant>();
        grants.namespaces.set(namespace, byName.set(name, { binding, subject, roleKey }));
      }
    }
  }

  #forget(binding: RoleBinding): void {
    const { namespace, name } = binding.metadata;
    for (const subject of binding.subjects ?? []) {
      const key = subjectKeyOf(subject, namespace);
      const grants = this.#subjects.get(key);
      if (grants === undefined) continue;
      if (namespace === undefined) grants.cluster.delete(name);
      else {
        const byName = grants.namespaces.get(namespace);
        byName?.delete(name);
        if (byName?.size === 0) grants.namespaces.delete(namespace);
      }
      if (grants.cluster.size === 0 && grants.namespaces.size === 0) this.#subjects.delete(key);
    }
  }
}

function noGrants(): SubjectGrants {
  return { cluster: new Map(), namespaces: new Map() };
}

function roleKeyOf(kind: string, namespace: string | undefined, name: string): string {
  return kind === "ClusterRole" ? `/${name}` : `${namespace ?? ""}/${name}`;
}

/** ServiceAccounts are users with a name of a fixed form; the binding's namespace stands in for an absent one. */
function subjectKeyOf(subject: Subject, namespace: string | undefined): string {
  switch (subject.kind) {
    case "User":
      return `u:${subject.name}`;
    case "Group":
      return `g:${subject.name}`;
    case "ServiceAccount":
      return `u:${serviceAccountUser(subject.namespace ?? namespace ?? "", subject.name)}`;
    default:
      return subject.kind satisfies never;
  }
}

function describeGrant({ binding, subject }: Grant): string {
  const { namespace, name } = binding.metadata;
  const bindingText =
    namespace === undefined ? `ClusterRoleBinding "${name}"` : `RoleBinding "${name}/${namespace}"`;
  const subjectName =
    subject.kind === "ServiceAccount" ? `${subject.name}/${subject.namespace ?? ""}` : subject.name;
  return (
    `RBAC: allowed by ${bindingText} of ${binding.roleRef.kind} "${binding.roleRef.name}" ` +
    `to ${subject.kind} "${subjectName}"`
  );
}
