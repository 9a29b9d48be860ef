import type { LabelSelector } from "@fairlead/kube/api/meta/types.ts";
import { matchesLabels } from "#builtin/selectors.ts";
import type { Catalog } from "#registry/catalog.ts";
import type { Attributes, GroupVersionKind } from "#registry/admission.ts";
import type { ResourceDefinition } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import { apiVersionOf } from "#registry/write.ts";
import { notFound } from "#status.ts";

/** Which requests a webhook or a policy is for. Source: k8s.io/apiserver, pkg/admission/plugin/webhook/predicates. */

/** `admissionregistration.k8s.io/v1 RuleWithOperations`, and the same with names. */
export interface Rule {
  readonly operations?: readonly string[];
  readonly apiGroups?: readonly string[];
  readonly apiVersions?: readonly string[];
  /** "pods", "pods/status", "*", with a subresource or all of them behind a slash. */
  readonly resources?: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly scope?: string;
}

export interface Selectors {
  readonly namespaceSelector?: LabelSelector;
  readonly objectSelector?: LabelSelector;
}

/** The version of a resource in which the webhook or policy receives the request. */
export interface Match {
  readonly resource: ResourceDefinition;
  readonly kind: GroupVersionKind;
}

export interface Request {
  readonly attributes: Attributes;
  readonly catalog: Catalog;
}

/** The first of `rules` that the request falls under, in its own version or, if that may be, in an equivalent one. */
export function matchRules(
  rules: readonly Rule[],
  isEquivalentToo: boolean,
  { attributes, catalog }: Request,
): Match | undefined {
  const { definition } = attributes;
  if (rules.some((it) => matchesRule(it, attributes, definition))) {
    return { resource: definition, kind: attributes.kind };
  }
  if (!isEquivalentToo) return undefined;
  const equivalents = catalog.equivalentsOf(definition);
  for (const rule of rules) {
    const found = equivalents.find((it) => matchesRule(rule, attributes, it));
    if (found !== undefined) return { resource: found, kind: kindIn(attributes, found) };
  }
  return undefined;
}

/** Subresources with a kind of their own have the same in all versions. */
function kindIn({ kind, definition }: Attributes, other: ResourceDefinition): GroupVersionKind {
  return kind.kind === definition.kind && kind.group === definition.group ? other : kind;
}

/** Whether `matchRules` may find a rule for such a request, whatever its object. */
export function mayMatchRules(
  rules: readonly Rule[],
  isEquivalentToo: boolean,
  { attributes, catalog }: Request,
): boolean {
  const { definition } = attributes;
  const resources = isEquivalentToo ? [definition, ...catalog.equivalentsOf(definition)] : [definition];
  return rules.some((rule) => resources.some((it) => mayMatchRule(rule, attributes, it)));
}

function matchesRule(rule: Rule, attributes: Attributes, resource: ResourceDefinition): boolean {
  const { resourceNames = [], scope = "*" } = rule;
  return (
    mayMatchRule(rule, attributes, resource) &&
    (resourceNames.length === 0 || resourceNames.includes(attributes.name)) &&
    isInScope(scope, attributes)
  );
}

function mayMatchRule(
  rule: Rule,
  { operation, subresource }: Pick<Attributes, "operation" | "subresource">,
  resource: ResourceDefinition,
): boolean {
  const { operations = [], resources = [] } = rule;
  return (
    holds(operations, operation) &&
    isOfVersion(rule, resource) &&
    resources.some((it) => matchesResource(it, resource.plural, subresource))
  );
}

function isOfVersion({ apiGroups = [], apiVersions = [] }: Rule, resource: ResourceDefinition): boolean {
  return holds(apiGroups, resource.group) && holds(apiVersions, resource.version);
}

function holds(items: readonly string[], wanted: string): boolean {
  return items.includes("*") || items.includes(wanted);
}

function matchesResource(text: string, plural: string, subresource: string): boolean {
  const slash = text.indexOf("/");
  const resource = slash < 0 ? text : text.slice(0, slash);
  const sub = slash < 0 ? "" : text.slice(slash + 1);
  return (resource === "*" || resource === plural) && (sub === "*" || sub === subresource);
}

export function isNamespaceItself({ definition }: Attributes): boolean {
  return definition.group === "" && definition.plural === "namespaces";
}

function isInScope(scope: string, attributes: Attributes): boolean {
  if (scope === "*") return true;
  const isClusterWide = isNamespaceItself(attributes) || attributes.namespace === "";
  return scope === "Cluster" ? isClusterWide : scope === "Namespaced" && !isClusterWide;
}

/** @throws {StatusError} 404 when labels of a namespace are asked for that is not there. */
export function matchesNamespace({ namespaceSelector = {} }: Selectors, attributes: Attributes): boolean {
  if (attributes.namespace === "" && !isNamespaceItself(attributes)) return true;
  return isEmptySelector(namespaceSelector) || matchesLabels(namespaceSelector, namespaceLabels(attributes));
}

function isEmptySelector({ matchLabels = {}, matchExpressions = [] }: LabelSelector): boolean {
  return Object.keys(matchLabels).length === 0 && matchExpressions.length === 0;
}

/** A namespace that is being written has the labels that it is given. */
function namespaceLabels(attributes: Attributes): Readonly<Record<string, string>> {
  const { object, namespace, reader, subresource } = attributes;
  if (isNamespaceItself(attributes) && subresource === "" && object !== undefined) {
    return object.metadata.labels ?? {};
  }
  const found = reader.get("", "namespaces", undefined, namespace);
  if (found === undefined) throw notFound({ group: "", plural: "namespaces" }, namespace);
  return found.metadata.labels ?? {};
}

export function matchesObject({ objectSelector = {} }: Selectors, { object, old }: Attributes): boolean {
  if (isEmptySelector(objectSelector)) return true;
  return [object, old].some(
    (it) => it !== undefined && matchesLabels(objectSelector, it.metadata?.labels ?? {}),
  );
}

const CONFIGURATIONS = new Set([
  "ValidatingWebhookConfiguration",
  "MutatingWebhookConfiguration",
  "ValidatingAdmissionPolicy",
  "ValidatingAdmissionPolicyBinding",
  "MutatingAdmissionPolicy",
  "MutatingAdmissionPolicyBinding",
]);

/** Admission configuration is exempt from configured admission, so that users cannot lock themselves out. */
export function isExempt({ group, kind }: Pick<GroupVersionKind, "group" | "kind">): boolean {
  return group === "admissionregistration.k8s.io" && CONFIGURATIONS.has(kind);
}

/** Policies and their bindings are under no policy. */
export function isPolicy({ group, kind }: Pick<GroupVersionKind, "group" | "kind">): boolean {
  return isExempt({ group, kind }) && !kind.endsWith("WebhookConfiguration");
}

/**
 * `object` in the version of another definition of the same resource. Subresources' own kinds stay as they are.
 *
 * @throws {Pending} when a webhook has to convert it.
 */
export function convertObject(
  object: ApiObject,
  from: ResourceDefinition,
  to: ResourceDefinition,
): ApiObject {
  if (from === to || object.kind !== from.kind || object.apiVersion !== apiVersionOf(from)) return object;
  const stored = from.toStored?.(object) ?? object;
  if (to.fromStored !== undefined) return to.fromStored(stored);
  return { ...stored, kind: to.kind, apiVersion: apiVersionOf(to) };
}
