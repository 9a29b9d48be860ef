import {
  checkPathSegment,
  dns1035Problems,
  labelValueProblems,
  qualifiedNameProblems,
} from "#values/names.ts";
import { isObject } from "@fairlead/base/json.ts";
import { invalid, required } from "#values/field-errors.ts";
import type { FieldError } from "#status.ts";

/**
 * Validates apiVersion, kind and metadata of an embedded object (`x-kubernetes-embedded-resource`).
 * Source: apiextensions-apiserver, pkg/apiserver/schema/objectmeta.
 */
export function validateEmbedded(value: Readonly<Record<string, unknown>>, path: string): FieldError[] {
  const { metadata } = value;
  return [
    ...validateText(value["apiVersion"], `${path}.apiVersion`, apiVersionProblem),
    ...validateText(value["kind"], `${path}.kind`, kindProblem),
    ...(isObject(metadata) ? validateMetadata(metadata, `${path}.metadata`) : []),
  ];
}

function validateText(
  value: unknown,
  path: string,
  problemOf: (text: string) => string | undefined,
): FieldError[] {
  if (value === undefined) return [required(path)];
  if (typeof value !== "string") return [invalid(path, value, "must be a string")];
  const problem = value === "" ? "must not be empty" : problemOf(value);
  return problem === undefined ? [] : [invalid(path, value, problem)];
}

function apiVersionProblem(text: string): string | undefined {
  return text.split("/").length > 2 ? `unexpected GroupVersion string: ${text}` : undefined;
}

function kindProblem(kind: string): string | undefined {
  const problems = dns1035Problems(kind.toLowerCase());
  return problems.length === 0
    ? undefined
    : `may have mixed case, but should otherwise match: ${problems.join(",")}`;
}

function validateMetadata({ name, labels }: Readonly<Record<string, unknown>>, path: string): FieldError[] {
  const problem = typeof name === "string" && name !== "" ? checkPathSegment(name) : undefined;
  const pairs = isObject(labels) ? Object.entries(labels) : [];
  return [
    ...(problem === undefined ? [] : [invalid(`${path}.name`, name, problem)]),
    ...pairs.flatMap(([key, value]) => [
      ...qualifiedNameProblems(key).map((it) => invalid(`${path}.labels`, key, it)),
      ...(typeof value === "string" ? labelValueProblems(value) : []).map((it) =>
        invalid(`${path}.labels`, value, it),
      ),
    ]),
  ];
}
