import type { LabelSelector, LabelSelectorRequirement } from "@fairlead/kube/api/meta/types.ts";

type Labels = Readonly<Record<string, string>>;

/** Whether `labels` satisfy every part of `selector`; an empty selector matches all. */
export function matchesLabels(selector: LabelSelector, labels: Labels): boolean {
  for (const [key, value] of Object.entries(selector.matchLabels ?? {})) {
    if (!Object.hasOwn(labels, key) || labels[key] !== value) return false;
  }
  return (selector.matchExpressions ?? []).every((it) => matchesExpression(it, labels));
}

/** `NotIn` and `DoesNotExist` match labels that lack the key. */
function matchesExpression(
  { key, operator, values = [] }: LabelSelectorRequirement,
  labels: Labels,
): boolean {
  const value = Object.hasOwn(labels, key) ? labels[key] : undefined;
  switch (operator) {
    case "In":
      return value !== undefined && values.includes(value);
    case "NotIn":
      return value === undefined || !values.includes(value);
    case "Exists":
      return value !== undefined;
    case "DoesNotExist":
      return value === undefined;
    default:
      return operator satisfies never;
  }
}

/** The selector in the text form of `labelSelector=` and of `kubectl get -o wide`. */
export function formatLabelSelector(selector: LabelSelector | undefined): string {
  const labels = Object.entries(selector?.matchLabels ?? {}).map(([key, value]) => `${key}=${value}`);
  const expressions = (selector?.matchExpressions ?? []).map(formatExpression);
  return [...labels.toSorted(), ...expressions].join(",");
}

function formatExpression({ key, operator, values = [] }: LabelSelectorRequirement): string {
  const list = `(${values.toSorted().join(",")})`;
  switch (operator) {
    case "In":
      return `${key} in ${list}`;
    case "NotIn":
      return `${key} notin ${list}`;
    case "Exists":
      return key;
    case "DoesNotExist":
      return `!${key}`;
    default:
      return operator satisfies never;
  }
}
