import type { LabelSelector, LabelSelectorRequirement } from "#api/meta/types.ts";
import { checkLabelValue, checkQualifiedName } from "../registry/names.ts";
import type { FieldError } from "../status.ts";
import { invalid, notAllowed, required } from "./field-errors.ts";

/** Labels and selectors inside of a spec. Source: k8s.io/apimachinery, pkg/apis/meta/v1/validation. */

export function validateLabels(
  labels: Readonly<Record<string, string>> | undefined,
  path: string,
): FieldError[] {
  const errors: FieldError[] = [];
  for (const [key, value] of Object.entries(labels ?? {})) {
    const keyProblem = checkQualifiedName(key);
    if (keyProblem !== undefined) errors.push(invalid(path, key, keyProblem));
    const valueProblem = checkLabelValue(value);
    if (valueProblem !== undefined) errors.push(invalid(path, value, valueProblem));
  }
  return errors;
}

export function validateLabelSelector(selector: LabelSelector | undefined, path: string): FieldError[] {
  const expressions = selector?.matchExpressions ?? [];
  return [
    ...validateLabels(selector?.matchLabels, `${path}.matchLabels`),
    ...expressions.flatMap((it, index) => validateRequirement(it, `${path}.matchExpressions[${index}]`)),
  ];
}

function validateRequirement(it: LabelSelectorRequirement, path: string): FieldError[] {
  const { values = [] } = it;
  // A client may have left it out.
  const key = it.key ?? "";
  const errors = validateOperator(it, path);
  const problem = checkQualifiedName(key);
  if (problem !== undefined) errors.push(invalid(`${path}.key`, key, problem));
  for (const [index, value] of values.entries()) {
    const valueProblem = checkLabelValue(value);
    if (valueProblem !== undefined) errors.push(invalid(`${path}.values[${index}]`, value, valueProblem));
  }
  return errors;
}

function validateOperator({ operator, values = [] }: LabelSelectorRequirement, path: string): FieldError[] {
  switch (operator) {
    case "In":
    case "NotIn":
      if (values.length > 0) return [];
      return [required(`${path}.values`, "must be specified when `operator` is 'In' or 'NotIn'")];
    case "Exists":
    case "DoesNotExist":
      if (values.length === 0) return [];
      return [
        notAllowed(`${path}.values`, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"),
      ];
    default:
      return [invalid(`${path}.operator`, operator, "not a valid selector operator")];
  }
}

export function isEmptySelector(selector: LabelSelector | undefined): boolean {
  return (
    Object.keys(selector?.matchLabels ?? {}).length === 0 && (selector?.matchExpressions ?? []).length === 0
  );
}
