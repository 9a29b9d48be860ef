import type { LabelSelector } from "@fairlead/kube/api/meta/types.ts";
import { labelValueProblems, qualifiedNameProblems } from "#values/names.ts";
import type { FieldError } from "#status.ts";
import { invalid, notAllowed, required } from "#values/field-errors.ts";
import { type Fields, stringMapAt, stringsAt, textAt } from "@fairlead/base/fields.ts";
import { each, fields, type Rule, text, whole } from "./rules.ts";

/** Labels and selectors inside of a spec. Source: k8s.io/apimachinery, pkg/apis/meta/v1/validation. */

export const qualifiedName: Rule = text(qualifiedNameProblems);
const labelValue: Rule = text(labelValueProblems);

/** A map of labels. */
export const labels: Rule = whole((of, path) =>
  Object.entries(of).flatMap(([key, value]) => [...qualifiedName(key, path), ...labelValue(value, path)]),
);

const operands: Rule = whole((of, path) => {
  const values = stringsAt(of, "values");
  const operator = textAt(of, "operator");
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
});

const requirement: Rule = (value, path) => [
  ...operands(value, path),
  ...fields({ key: qualifiedName, values: each(labelValue) })(value, path),
];

export const labelSelector: Rule = fields({ matchLabels: labels, matchExpressions: each(requirement) });

export function validateLabels(
  value: Readonly<Record<string, string>> | undefined,
  path: string,
): readonly FieldError[] {
  return labels(value, path);
}

export function validateLabelSelector(
  selector: LabelSelector | Fields | undefined,
  path: string,
): readonly FieldError[] {
  return labelSelector(selector, path);
}

export function isEmptySelector(selector: LabelSelector | Fields | undefined): boolean {
  const of: Fields = { ...selector };
  return Object.keys(stringMapAt(of, "matchLabels")).length === 0 && !Array.isArray(of["matchExpressions"]);
}
