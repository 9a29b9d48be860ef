/**
 * Selectors in canonical form: what selects the same in the same words has the same `key`, whichever kind of policy it comes from.
 *
 * A requirement concerns an attribute of a pod:
 *
 * - `cluster`, `namespace`, `serviceaccount`: names, which every pod has;
 * - `pod:<key>`: a label of the pod; `ns:<key>`: a label of its namespace;
 * - `node:<key>`: a label of a node (in selectors of nodes; `cluster` is the only other attribute there).
 *
 * Attributes other than labels come from the object, never from a label of the same name, so that no pod can claim to be of another cluster.
 */
export type Attribute =
  | "cluster"
  | "namespace"
  | "serviceaccount"
  | `pod:${string}`
  | `ns:${string}`
  | `node:${string}`;

export interface Requirement {
  readonly attribute: Attribute;
  readonly operator: "In" | "NotIn" | "Exists" | "DoesNotExist";
  /** Sorted, without repetition. Empty for Exists and DoesNotExist. */
  readonly values: readonly string[];
}

/** All requirements have to be met; none of them: everything is selected. */
export interface Selector {
  readonly key: string;
  readonly requirements: readonly Requirement[];
}

/** The value of an attribute; undefined where the pod, or its namespace, does not have the label. */
export type AttributeReader = (attribute: Attribute) => string | undefined;

const NAMES: ReadonlySet<string> = new Set(["cluster", "namespace", "serviceaccount"]);

/** Requirements that say the same are merged; those that are always met are left out. */
export function selectorOf(requirements: readonly Requirement[]): Selector {
  const byKey = new Map(
    requirements
      .map(canonical)
      .filter((it) => it !== undefined)
      .map((it) => [keyOf(it), it]),
  );
  const sorted = [...byKey].toSorted(([a], [b]) => (a < b ? -1 : 1));
  return { key: sorted.map(([key]) => key).join("&"), requirements: sorted.map(([, it]) => it) };
}

export const EVERYTHING: Selector = selectorOf([]);

export function selects(selector: Selector, read: AttributeReader): boolean {
  return selector.requirements.every((it) => isMet(it, read(it.attribute)));
}

export function isMet(requirement: Requirement, value: string | undefined): boolean {
  switch (requirement.operator) {
    case "In":
      return value !== undefined && isOneOf(requirement.values, value);
    case "NotIn":
      return value === undefined || !isOneOf(requirement.values, value);
    case "Exists":
      return value !== undefined;
    case "DoesNotExist":
      return value === undefined;
    default:
      return requirement.operator satisfies never;
  }
}

/** The clusters other than `cluster` whose pods a selector can select. */
export function otherClusters(
  { requirements }: Selector,
  cluster: string,
): "none" | "any" | readonly string[] {
  const named = requirements.filter((it) => it.attribute === "cluster");
  const first = named.find((it) => it.operator === "In");
  const clusters = first?.values.filter((it) => it !== cluster && named.every((other) => isMet(other, it)));
  if (clusters?.length === 0 || named.some((it) => it.operator === "DoesNotExist")) return "none";
  return clusters ?? "any";
}

/** By bisection: a selector can have thousands of values, and is asked about thousands of pods. */
function isOneOf(sorted: readonly string[], value: string): boolean {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    const found = sorted[middle];
    if (found === value) return true;
    if (found !== undefined && found < value) low = middle + 1;
    else high = middle;
  }
  return false;
}

function canonical(it: Requirement): Requirement | undefined {
  if (it.operator === "Exists" && NAMES.has(it.attribute)) return undefined;
  const values = it.operator === "In" || it.operator === "NotIn" ? [...new Set(it.values)].toSorted() : [];
  return { attribute: it.attribute, operator: it.operator, values };
}

const SIGNS = { In: "=", NotIn: "!=", Exists: "?", DoesNotExist: "!" } as const;

function keyOf(it: Requirement): string {
  return `${escaped(it.attribute)}${SIGNS[it.operator]}${it.values.map(escaped).join(",")}`;
}

/** Keys and values of objects that no API server has checked can hold any character. */
function escaped(text: string): string {
  return /^[\w./:-]*$/.test(text) ? text : JSON.stringify(text);
}
