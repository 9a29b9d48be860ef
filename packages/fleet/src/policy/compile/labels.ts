import { type Attribute, type Requirement, type Selector, selectorOf } from "../selector.ts";
import { isPresent, open, type Part, partsAt, type Refuse, shown, textOf } from "./part.ts";

/** The labels by which Cilium's policies, and NetworkPolicies on Cilium, select what is not a label of the pod. */
export const CLUSTER_LABEL = "io.cilium.k8s.policy.cluster";
export const NAMESPACE_LABEL = "io.kubernetes.pod.namespace";
const SERVICE_ACCOUNT_LABEL = "io.cilium.k8s.policy.serviceaccount";
const NAMESPACE_LABELS_PREFIX = "io.cilium.k8s.namespace.labels.";

export type AttributeOfKey = (key: string) => Attribute;

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
  const read = expressions.map((it) => expressionOf(it, attributeOf, refuse));
  if (labels === undefined || read.includes(undefined)) return undefined;
  const pairs = labels.map(([key, value]): Requirement => ({
    attribute: attributeOf(key),
    operator: "In",
    values: [value],
  }));
  return [...pairs, ...read.filter((it) => it !== undefined)];
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
  const parts = partsAt(fields, part.path, "values") ?? [];
  const values = parts.map((it) => textOf(it, refuse)).filter((it) => it !== undefined);
  if (values.length < parts.length) return undefined;
  switch (operator) {
    case "In":
    case "NotIn":
      if (values.length === 0) return refuse(`${part.path}.values`, `${operator} needs at least one value.`);
      return { attribute: attributeOf(key), operator, values };
    case "Exists":
    case "DoesNotExist":
      if (values.length > 0) return refuse(`${part.path}.values`, `${operator} takes no values.`);
      return { attribute: attributeOf(key), operator, values };
    default:
      return refuse(
        `${part.path}.operator`,
        `${shown(operator)} is not an operator; use In, NotIn, Exists or DoesNotExist.`,
      );
  }
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
