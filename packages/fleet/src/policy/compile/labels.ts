import type { Fields } from "@fairlead/base/fields.ts";
import { type Attribute, type Requirement, type Selector, selectorOf } from "../selector.ts";
import { isPresent, open, type Part, partsAt, type Refuse, shown, textOf } from "./part.ts";

/** The labels by which Cilium's policies, and NetworkPolicies on Cilium, select what is not a label of the pod. */
export const CLUSTER_LABEL = "io.cilium.k8s.policy.cluster";
export const NAMESPACE_LABEL = "io.kubernetes.pod.namespace";
const SERVICE_ACCOUNT_LABEL = "io.cilium.k8s.policy.serviceaccount";
const NAMESPACE_LABELS_PREFIX = "io.cilium.k8s.namespace.labels.";

/** Undefined: no pod or node can have such a label. */
export type AttributeOfKey = (key: string) => Attribute | undefined;

export function podAttribute(key: string): Attribute {
  if (key === CLUSTER_LABEL) return "cluster";
  if (key === NAMESPACE_LABEL) return "namespace";
  if (key === SERVICE_ACCOUNT_LABEL) return "serviceaccount";
  if (key.startsWith(NAMESPACE_LABELS_PREFIX)) return `ns:${key.slice(NAMESPACE_LABELS_PREFIX.length)}`;
  return `pod:${key}`;
}

export function namespaceAttribute(key: string): Attribute {
  return `ns:${key}`;
}

export function nodeAttribute(key: string): Attribute {
  return key === CLUSTER_LABEL ? "cluster" : `node:${key}`;
}

const SELECTOR_FIELDS = ["matchLabels", "matchExpressions"];
const EXPRESSION_FIELDS = ["key", "operator", "values"];

/** The requirements of a LabelSelector; an empty one has none. */
export function requirementsOf(
  part: Part,
  attributeOf: AttributeOfKey,
  refuse: Refuse,
): readonly Requirement[] | undefined {
  const fields = open(part, SELECTOR_FIELDS, refuse);
  if (fields === undefined) return undefined;
  const labels = pairsOf({ path: `${part.path}.matchLabels`, value: fields["matchLabels"] }, refuse);
  const expressions = partsAt(fields, part.path, "matchExpressions") ?? [];
  const pairs = labels?.map(([key, value]): Requirement | undefined => {
    const attribute = attributeOf(key) ?? refuseKey(`${part.path}.matchLabels`, key, refuse);
    return attribute && isIn(attribute, value);
  });
  const read = [...(pairs ?? []), ...expressions.map((it) => expressionOf(it, attributeOf, refuse))];
  const found = read.filter((it) => it !== undefined);
  return pairs === undefined || found.length < read.length ? undefined : found;
}

function refuseKey(path: string, key: string, refuse: Refuse): undefined {
  return refuse(path, `${shown(key)} is not a label that pods have here; use the source "k8s" or none.`);
}

function pairsOf({ path, value }: Part, refuse: Refuse): readonly [string, string][] | undefined {
  if (!isPresent(value)) return [];
  if (typeof value !== "object" || Array.isArray(value))
    return refuse(path, `${path} is not a map of labels.`);
  const pairs = Object.entries(value as object);
  const wrong = pairs.find(([, it]) => typeof it !== "string");
  if (wrong !== undefined) return refuse(path, `The value of ${shown(wrong[0])} is not a text.`);
  return pairs as [string, string][];
}

function expressionOf(part: Part, attributeOf: AttributeOfKey, refuse: Refuse): Requirement | undefined {
  const fields = open(part, EXPRESSION_FIELDS, refuse);
  if (fields === undefined) return undefined;
  const { key, operator } = fields;
  if (typeof key !== "string" || key === "") return refuse(`${part.path}.key`, "A label key is required.");
  const attribute = attributeOf(key) ?? refuseKey(`${part.path}.key`, key, refuse);
  if (!isOperator(operator)) {
    const reason = `${shown(operator)} is not an operator; use In, NotIn, Exists or DoesNotExist.`;
    return refuse(`${part.path}.operator`, reason);
  }
  const values = valuesOf(fields, part.path, operator, refuse);
  return attribute && values && { attribute, operator, values };
}

type Operator = Requirement["operator"];

function isOperator(value: unknown): value is Operator {
  return value === "In" || value === "NotIn" || value === "Exists" || value === "DoesNotExist";
}

function valuesOf(
  { values: list }: Fields,
  path: string,
  operator: Operator,
  refuse: Refuse,
): readonly string[] | undefined {
  const parts = partsAt({ values: list }, path, "values") ?? [];
  const values = parts.map((it) => textOf(it, refuse)).filter((it) => it !== undefined);
  if (values.length < parts.length) return undefined;
  const needsValues = operator === "In" || operator === "NotIn";
  if (needsValues === values.length > 0) return values;
  return refuse(
    `${path}.values`,
    `${operator} ${needsValues ? "needs at least one value" : "takes no values"}.`,
  );
}

/** Where peers are that do not name a cluster: in the own one, or in all. */
export interface ClusterSettings {
  /** Name of the own cluster. */
  readonly cluster: string;
  /** `policyDefaultLocalCluster` of the profile. */
  readonly isLocalByDefault: boolean;
}

/** The selector of a peer, with the own cluster unless the requirements name one. */
export function peerSelector(requirements: readonly Requirement[], settings: ClusterSettings): Selector {
  const isOpen = !settings.isLocalByDefault || requirements.some((it) => it.attribute === "cluster");
  return selectorOf(isOpen ? requirements : [...requirements, isIn("cluster", settings.cluster)]);
}

export function isIn(attribute: Attribute, value: string): Requirement {
  return { attribute, operator: "In", values: [value] };
}
