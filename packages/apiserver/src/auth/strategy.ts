import type { PolicyRule, RoleBinding, Subject } from "@fairlead/kube/api/rbac/v1/types.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { invalid, notSupported, required } from "#values/field-errors.ts";
import { validateLabelSelector } from "#builtin/labels.ts";
import { subdomain } from "#builtin/names.ts";
import { filled } from "#builtin/rules.ts";
import { checkPathSegment } from "#values/names.ts";
import type { Strategy } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import type { FieldError } from "#status.ts";
import { checkBindingEscalation, checkRoleEscalation } from "./escalation.ts";
import type { RbacAuthorizer } from "./rbac.ts";

/** Roles and bindings. Source: k8s.io/kubernetes, pkg/apis/rbac/validation and pkg/registry/rbac. */

const SUBJECT_GROUP = "rbac.authorization.k8s.io";
const SUBJECT_KINDS: readonly string[] = ["ServiceAccount", "User", "Group"];

const shared = {
  generation: "none",
  allowCreateOnUpdate: true,
  checkName: checkPathSegment,
} as const;

export function roleStrategy(authorizer: RbacAuthorizer): Partial<Strategy> {
  return {
    ...shared,
    prepareForCreate: (object) => fillAggregated(object, authorizer),
    prepareForUpdate: (object) => fillAggregated(object, authorizer),
    validateCreate: (object, context) => {
      const errors = validateRole(object);
      if (errors.length === 0) checkRoleEscalation(object, context, authorizer);
      return errors;
    },
    validateUpdate: (object, old, context) => {
      const errors = validateRole(object);
      const isSame =
        sameJson(object["rules"], old["rules"]) &&
        sameJson(object["aggregationRule"], old["aggregationRule"]);
      if (errors.length === 0 && !isSame) checkRoleEscalation(object, context, authorizer);
      return errors;
    },
    onStored: (after, before) => authorizer.roleStored(after, before),
  };
}

/** The rules of an aggregated role are those of its parts; what a client wrote there is not looked at. */
function fillAggregated(object: ApiObject, authorizer: RbacAuthorizer): void {
  if (object["aggregationRule"] === undefined || object.kind !== "ClusterRole") return;
  object["rules"] = authorizer.aggregatedRules(object);
}

export function bindingStrategy(authorizer: RbacAuthorizer): Partial<Strategy> {
  return {
    ...shared,
    applyDefaults: (object) => defaultBinding(asBinding(object)),
    validateCreate: (object, context) => {
      const errors = validateBinding(asBinding(object));
      if (errors.length === 0) checkBindingEscalation(asBinding(object), context, authorizer);
      return errors;
    },
    validateUpdate: (object, old, context) => {
      const binding = asBinding(object);
      const errors = validateBinding(binding);
      if (!sameJson(binding.roleRef, asBinding(old).roleRef)) {
        // The text that users know has the names of the Go type.
        const { apiGroup: APIGroup, kind: Kind, name: Name } = binding.roleRef;
        errors.push(invalid("roleRef", { APIGroup, Kind, Name }, "cannot change roleRef"));
      }
      const isSame = sameJson(binding.subjects, asBinding(old).subjects);
      if (errors.length === 0 && !isSame) checkBindingEscalation(binding, context, authorizer);
      return errors;
    },
    onStored: (after, before) => authorizer.bindingStored(after, before),
  };
}

/** Its fields were checked against the schema. */
function asBinding(object: ApiObject): ApiObject & RoleBinding {
  return object as ApiObject & RoleBinding;
}

function defaultBinding(binding: RoleBinding): void {
  if (binding.roleRef !== undefined) binding.roleRef.apiGroup ||= SUBJECT_GROUP;
  for (const subject of binding.subjects ?? []) {
    if (subject.kind !== "ServiceAccount") subject.apiGroup ||= SUBJECT_GROUP;
  }
}

const NO_SELECTOR = "at least one clusterRoleSelector required if aggregationRule is non-nil";

function validateRole(object: ApiObject): FieldError[] {
  const rules = (object["rules"] ?? []) as readonly PolicyRule[];
  const isNamespaced = object.kind === "Role";
  const selectors = (object["aggregationRule"] as { clusterRoleSelectors?: object[] } | undefined)
    ?.clusterRoleSelectors;
  return [
    ...rules.flatMap((it, index) => validateRule(it, `rules[${index}]`, isNamespaced)),
    ...(object["aggregationRule"] !== undefined && (selectors ?? []).length === 0
      ? [required("aggregationRule.clusterRoleSelectors", NO_SELECTOR)]
      : []),
    ...(selectors ?? []).flatMap((it, index) =>
      validateLabelSelector(it, `aggregationRule.clusterRoleSelectors[${index}]`),
    ),
  ];
}

function validateRule(rule: PolicyRule, path: string, isNamespaced: boolean): FieldError[] {
  const errors: FieldError[] = [];
  if ((rule.verbs ?? []).length === 0)
    errors.push(required(`${path}.verbs`, "verbs must contain at least one value"));
  if ((rule.nonResourceURLs ?? []).length > 0) {
    if (isNamespaced) {
      const detail = "namespaced rules cannot apply to non-resource URLs";
      errors.push(invalid(`${path}.nonResourceURLs`, rule.nonResourceURLs, detail));
    }
    if (hasResourceParts(rule)) {
      const detail = "rules cannot apply to both regular resources and non-resource URLs";
      errors.push(invalid(`${path}.nonResourceURLs`, rule.nonResourceURLs, detail));
    }
    return errors;
  }
  if ((rule.apiGroups ?? []).length === 0) {
    errors.push(required(`${path}.apiGroups`, "resource rules must supply at least one api group"));
  }
  if ((rule.resources ?? []).length === 0) {
    errors.push(required(`${path}.resources`, "resource rules must supply at least one resource"));
  }
  return errors;
}

function hasResourceParts(rule: PolicyRule): boolean {
  return [rule.apiGroups, rule.resources, rule.resourceNames].some((it) => (it ?? []).length > 0);
}

function validateBinding(binding: ApiObject & RoleBinding): FieldError[] {
  const kinds = binding.kind === "ClusterRoleBinding" ? ["ClusterRole"] : ["Role", "ClusterRole"];
  const ref = binding.roleRef as RoleBinding["roleRef"] | undefined;
  const errors: FieldError[] = [];
  errors.push(...roleName(ref?.name ?? "", "roleRef.name"));
  if (ref !== undefined && ref.apiGroup !== SUBJECT_GROUP) {
    errors.push(notSupported("roleRef.apiGroup", ref.apiGroup, [SUBJECT_GROUP]));
  }
  if (ref !== undefined && !kinds.includes(ref.kind))
    errors.push(notSupported("roleRef.kind", ref.kind, kinds));
  const subjects = binding.subjects ?? [];
  return [
    ...errors,
    ...subjects.flatMap((it, index) =>
      validateSubject(it, `subjects[${index}]`, binding.kind === "RoleBinding"),
    ),
  ];
}

const roleName = filled("", (value, path) => {
  const problem = checkPathSegment(String(value));
  return problem === undefined ? [] : [invalid(path, value, problem)];
});

function validateSubject(subject: Partial<Subject>, path: string, isNamespaced: boolean): FieldError[] {
  const { name = "", namespace = "", apiGroup = "" } = subject;
  const kind: string = subject.kind ?? "";
  const checkName = kind === "ServiceAccount" ? filled("", subdomain) : filled();
  const errors = [...checkName(name, `${path}.name`)];
  if (!SUBJECT_KINDS.includes(kind)) return [...errors, notSupported(`${path}.kind`, kind, SUBJECT_KINDS)];
  const group = kind === "ServiceAccount" ? "" : SUBJECT_GROUP;
  if (apiGroup !== group) errors.push(notSupported(`${path}.apiGroup`, apiGroup, [group]));
  const needsNamespace = kind === "ServiceAccount" && !isNamespaced;
  return needsNamespace && namespace === "" ? [...errors, required(`${path}.namespace`)] : errors;
}
