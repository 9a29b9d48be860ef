import { duplicate, invalid, required, tooMany, unlessOneOf } from "#values/field-errors.ts";
import { type Fields, itemsAt, stringsAt, textAt } from "@fairlead/base/fields.ts";
import { checkPathSegment, checkQualifiedName } from "#values/names.ts";
import type { FieldError } from "#status.ts";
import { compileExpression, type Scope } from "./expressions.ts";
import type { CelType } from "#cel/type.ts";

/** The common part of webhooks and policies: rules, and expressions. Source: pkg/apis/admissionregistration/validation. */

const OPERATIONS = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES = ["*", "Cluster", "Namespaced"];
export const FAILURE_POLICIES: readonly string[] = ["Fail", "Ignore"];
export const MATCH_POLICIES: readonly string[] = ["Equivalent", "Exact"];
const MAX_CONDITIONS = 64;

export function validateRule(
  rule: Fields,
  path: string,
  operations: readonly string[] = OPERATIONS,
): FieldError[] {
  return [
    ...validateNames(rule, path),
    ...unlessAloneOrGiven(stringsAt(rule, "operations"), `${path}.operations`, "operations"),
    ...stringsAt(rule, "operations").flatMap((it, at) =>
      unlessOneOf(`${path}.operations[${at}]`, it, operations),
    ),
    ...unlessAloneOrGiven(stringsAt(rule, "apiGroups"), `${path}.apiGroups`, "API groups"),
    ...unlessAloneOrGiven(stringsAt(rule, "apiVersions"), `${path}.apiVersions`, "API versions"),
    ...stringsAt(rule, "apiVersions").flatMap((it, at) =>
      it === "" ? [required(`${path}.apiVersions[${at}]`)] : [],
    ),
    ...validateResources(stringsAt(rule, "resources"), `${path}.resources`),
    ...unlessOneOf(`${path}.scope`, rule["scope"], SCOPES),
  ];
}

function validateNames(rule: Fields, path: string): FieldError[] {
  const seen = new Set<string>();
  return stringsAt(rule, "resourceNames").flatMap((name, at) => {
    const field = `${path}.resourceNames[${at}]`;
    const wrong = checkPathSegment(name);
    const isTwice = seen.has(name);
    seen.add(name);
    return [
      ...(wrong === undefined ? [] : [wrong].flat().map((it) => invalid(field, name, it))),
      ...(isTwice ? [duplicate(field, name)] : []),
    ];
  });
}

function unlessAloneOrGiven(items: readonly string[], field: string, what: string): FieldError[] {
  if (items.length === 0) return [required(field)];
  if (items.length === 1 || !items.includes("*")) return [];
  return [invalid(field, items, `if '*' is present, must not specify other ${what}`)];
}

function validateResources(resources: readonly string[], field: string): FieldError[] {
  if (resources.length === 0) return [required(field)];
  const errors: FieldError[] = [];
  const wildSubs = new Set<string>();
  const wildResources = new Set<string>();
  for (const [at, text] of resources.entries()) {
    const place = `${field}[${at}]`;
    if (text === "") errors.push(required(place));
    const slash = text.indexOf("/");
    if (slash < 0) continue;
    const [resource, sub] = [text.slice(0, slash), text.slice(slash + 1)];
    if (wildSubs.has(resource)) {
      errors.push(invalid(place, text, `if '${resource}/*' is present, must not specify ${text}`));
    }
    if (wildResources.has(sub)) {
      errors.push(invalid(place, text, `if '*/${sub}' is present, must not specify ${text}`));
    }
    if (sub === "*") wildSubs.add(resource);
    if (resource === "*") wildResources.add(sub);
  }
  return [...errors, ...validateWildcards(resources, field)];
}

function validateWildcards(resources: readonly string[], field: string): FieldError[] {
  const errors: FieldError[] = [];
  if (resources.length > 1 && resources.includes("*/*")) {
    errors.push(invalid(field, resources, "if '*/*' is present, must not specify other resources"));
  }
  const lastPlain = resources.findLast((it) => !it.includes("/") && it !== "");
  if (resources.includes("*") && lastPlain !== undefined && lastPlain !== "*") {
    const detail = "if '*' is present, must not specify other resources without subresources";
    errors.push(invalid(field, resources, detail));
  }
  return errors;
}

export interface ExpressionCheck {
  readonly text: string;
  readonly field: string;
  readonly scope: Scope;
  readonly returns?: readonly CelType[];
}

/** Calls `then` with the type of the expression. */
export function validateExpression(
  { text, field, scope, returns }: ExpressionCheck,
  then: (type: CelType) => void = () => {},
): FieldError[] {
  try {
    then(compileExpression(text.trim(), scope, returns).type);
    return [];
  } catch (error) {
    const { message } = error as Error;
    return [
      invalid(
        field,
        text,
        message.startsWith("must evaluate to") ? message : `compilation failed: ${message}`,
      ),
    ];
  }
}

export function validateConditions(
  of: Fields,
  path: string,
  { scope, returns }: Pick<ExpressionCheck, "scope" | "returns">,
): FieldError[] {
  const conditions = itemsAt(of, "matchConditions");
  const seen = new Set<string>();
  const errors = conditions.length > MAX_CONDITIONS ? [tooMany(path, conditions.length, MAX_CONDITIONS)] : [];
  for (const [at, condition] of conditions.entries()) {
    const field = `${path}[${at}]`;
    const text = textAt(condition, "expression");
    const name = textAt(condition, "name");
    if (text.trim() === "") errors.push(required(`${field}.expression`));
    else {
      const check = { text: text.trim(), field: `${field}.expression`, scope, ...(returns && { returns }) };
      errors.push(...validateExpression(check));
    }
    errors.push(...validateConditionName(name, `${field}.name`));
    if (name !== "" && seen.has(name)) errors.push(duplicate(`${field}.name`, name));
    seen.add(name);
  }
  return errors;
}

function validateConditionName(name: string, field: string): FieldError[] {
  if (name === "") return [required(field)];
  return qualifiedNameProblems(name).map((it) => invalid(field, name, it));
}

export function qualifiedNameProblems(name: string): readonly string[] {
  return [checkQualifiedName(name) ?? []].flat();
}
