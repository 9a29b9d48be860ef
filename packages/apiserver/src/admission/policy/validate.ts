import { duplicate, invalid, notAllowed, notSupported, required, unlessOneOf } from "#values/field-errors.ts";
import { type Fields, fieldsAt, itemsAt, stringsAt, textAt } from "@fairlead/base/fields.ts";
import { labelSelector } from "#builtin/labels.ts";
import { subdomain } from "#builtin/names.ts";
import { fields, filled } from "#builtin/rules.ts";
import type { CelType } from "#cel/type.ts";
import type { ApiObject } from "#values/object.ts";
import type { FieldError } from "#status.ts";
import { BOOLEAN, type Scope, TEXT, TEXT_OR_NULL } from "../expressions.ts";
import {
  type ExpressionCheck,
  FAILURE_POLICIES,
  MATCH_POLICIES,
  qualifiedNameProblems,
  validateConditions,
  validateExpression,
  validateRule,
} from "../validate-rules.ts";
import { conditionScope, policyScope } from "./program.ts";
import type { PolicySpec } from "./types.ts";

/** Validates policies and bindings. Source: pkg/apis/admissionregistration/validation. */

const REASONS = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
const ACTIONS = ["Audit", "Deny", "Warn"];
const MAX_ANNOTATIONS = 20;
/** Unit: bytes. */
const MAX_VALUE_EXPRESSION = 5 * 1024;
const IDENTIFIER = /^[_a-zA-Z][_a-zA-Z0-9]*$/;
const RESERVED = new Set(
  "true false null in as break const continue else for function if import let loop package namespace return var void while".split(
    " ",
  ),
);

export function validatePolicy(object: ApiObject): FieldError[] {
  const spec = fieldsAt(object, "spec") ?? {};
  const of = spec as PolicySpec;
  const { errors, types } = validateVariables(spec, of);
  const scope = policyScope(of, types);
  return [
    ...unlessOneOf("spec.failurePolicy", spec["failurePolicy"], FAILURE_POLICIES),
    ...validateParamKind(fieldsAt(spec, "paramKind")),
    ...validateConstraints(fieldsAt(spec, "matchConstraints")),
    ...validateConditions(spec, "spec.matchConditions", { scope: conditionScope(of), returns: BOOLEAN }),
    ...errors,
    ...validateStatements(object, spec, scope),
  ];
}

function validateParamKind(kind: Fields | undefined): FieldError[] {
  if (kind === undefined) return [];
  return ["apiVersion", "kind"]
    .filter((it) => textAt(kind, it) === "")
    .map((it) => required(`spec.paramKind.${it}`));
}

function validateConstraints(match: Fields | undefined): FieldError[] {
  const path = "spec.matchConstraints";
  if (match === undefined) return [required(path)];
  const isEmpty = itemsAt(match, "resourceRules").length === 0;
  return [...validateMatch(match, path), ...(isEmpty ? [required(`${path}.resourceRules`)] : [])];
}

function validateMatch(match: Fields | undefined, path: string): FieldError[] {
  if (match === undefined) return [];
  return [
    ...fields({ namespaceSelector: labelSelector, objectSelector: labelSelector })(match, path),
    ...unlessOneOf(`${path}.matchPolicy`, match["matchPolicy"], MATCH_POLICIES),
    ...["resourceRules", "excludeResourceRules"].flatMap((list) =>
      itemsAt(match, list).flatMap((rule, at) => validateRule(rule, `${path}.${list}[${at}]`)),
    ),
  ];
}

/** Each may name those before it; what is wrong with one says nothing of those that name it. */
function validateVariables(
  spec: Fields,
  of: PolicySpec,
): { readonly errors: FieldError[]; readonly types: ReadonlyMap<string, CelType> } {
  const types = new Map<string, CelType>();
  const errors = itemsAt(spec, "variables").flatMap((variable, at) => {
    const path = `spec.variables[${at}]`;
    const [name, text] = [textAt(variable, "name"), textAt(variable, "expression")];
    return [
      ...validateVariableName(name, `${path}.name`),
      ...(text.trim() === ""
        ? [required(`${path}.expression`, "expression is not specified")]
        : validateExpression(
            { text, field: `${path}.expression`, scope: policyScope(of, new Map(types)) },
            (type) => types.set(name, type),
          )),
    ];
  });
  return { errors, types };
}

function validateVariableName(name: string, field: string): FieldError[] {
  if (name.trim() === "") return [required(field, "name is not specified")];
  if (IDENTIFIER.test(name) && !RESERVED.has(name)) return [];
  return [invalid(field, name, "must be a valid CEL identifier")];
}

function validateStatements({ metadata }: ApiObject, spec: Fields, scope: Scope): FieldError[] {
  const validations = itemsAt(spec, "validations");
  const annotations = itemsAt(spec, "auditAnnotations");
  if (validations.length === 0 && annotations.length === 0) {
    const detail = "validations or auditAnnotations must contain at least one item";
    return [required("spec.validations", detail), required("spec.auditAnnotations", detail)];
  }
  const tooMany = `must not have more than ${MAX_ANNOTATIONS} auditAnnotations`;
  return [
    ...validations.flatMap((it, at) => validateValidation(it, `spec.validations[${at}]`, scope)),
    ...(annotations.length > MAX_ANNOTATIONS ? [invalid("spec.auditAnnotations", annotations, tooMany)] : []),
    ...validateAnnotations(metadata.name, annotations, scope),
  ];
}

function validateValidation(validation: Fields, path: string, scope: Scope): FieldError[] {
  const [text, message] = [textAt(validation, "expression"), textAt(validation, "message")];
  const messageExpression = textAt(validation, "messageExpression");
  return [
    ...(text.trim() === ""
      ? [required(`${path}.expression`, "expression is not specified")]
      : validateExpression({ text, field: `${path}.expression`, scope, returns: BOOLEAN })),
    ...validateMessage(message, text, path),
    ...(messageExpression === ""
      ? []
      : validateMessageExpression({ text: messageExpression, field: `${path}.messageExpression`, scope })),
    ...unlessOneOf(`${path}.reason`, validation["reason"], REASONS),
  ];
}

function validateMessageExpression(check: ExpressionCheck): FieldError[] {
  if (check.text.trim() === "") return [invalid(check.field, check.text, "must be non-empty if specified")];
  return validateExpression({ ...check, returns: TEXT });
}

const LINE_BREAK = /[\n\r]/;

function validateMessage(message: string, expression: string, path: string): FieldError[] {
  if (message !== "" && message.trim() === "") {
    return [invalid(`${path}.message`, message, "message must be non-empty if specified")];
  }
  if (LINE_BREAK.test(message.trim()))
    return [invalid(`${path}.message`, message, "must not contain line breaks")];
  if (message === "" && LINE_BREAK.test(expression.trim())) {
    return [required(`${path}.message`, "message must be specified if expression contains line breaks")];
  }
  return [];
}

function validateAnnotations(name: string, annotations: readonly Fields[], scope: Scope): FieldError[] {
  const seen = new Set<string>();
  return annotations.flatMap((annotation, at) => {
    const path = `spec.auditAnnotations[${at}]`;
    const [key, text] = [textAt(annotation, "key"), textAt(annotation, "valueExpression")];
    const isTwice = seen.has(key);
    seen.add(key);
    return [
      ...qualifiedNameProblems(`${name}/${key}`).map((it) => invalid(`${path}.key`, `${name}/${key}`, it)),
      ...validateValueExpression({ text, field: `${path}.valueExpression`, scope, returns: TEXT_OR_NULL }),
      ...(isTwice ? [duplicate(`${path}.key`, key)] : []),
    ];
  });
}

function validateValueExpression(check: ExpressionCheck): FieldError[] {
  const text = check.text.trim();
  if (text === "") return [required(check.field, "valueExpression is not specified")];
  if (Buffer.byteLength(text) > MAX_VALUE_EXPRESSION) {
    return [required(check.field, `must not exceed ${MAX_VALUE_EXPRESSION} bytes in length`)];
  }
  return validateExpression(check);
}

export function validateBinding(object: ApiObject): FieldError[] {
  const spec = fieldsAt(object, "spec") ?? {};
  return [
    ...fields({ policyName: filled("", subdomain) })(spec, "spec"),
    ...validateParamRef(fieldsAt(spec, "paramRef")),
    ...validateMatch(fieldsAt(spec, "matchResources"), "spec.matchResources"),
    ...validateActions(stringsAt(spec, "validationActions")),
  ];
}

function validateParamRef(ref: Fields | undefined): FieldError[] {
  if (ref === undefined) return [];
  const path = "spec.paramRef";
  const hasName = textAt(ref, "name") !== "";
  const hasSelector = ref["selector"] !== undefined;
  const errors: FieldError[] = [];
  if (hasName && hasSelector) {
    const detail = "name and selector are mutually exclusive";
    errors.push(notAllowed(`${path}.name`, detail), notAllowed(`${path}.selector`, detail));
  }
  if (!hasName && !hasSelector) errors.push(required(path, "one of name or selector must be specified"));
  const action = textAt(ref, "parameterNotFoundAction");
  if (action === "") errors.push(required(`${path}.parameterNotFoundAction`));
  else errors.push(...unlessOneOf(`${path}.parameterNotFoundAction`, action, ["Allow", "Deny"]));
  return errors;
}

function validateActions(actions: readonly string[]): FieldError[] {
  const path = "spec.validationActions";
  if (actions.length === 0) return [required(path, "at least one validation action is required")];
  const errors = actions.flatMap((it, at) => {
    if (!ACTIONS.includes(it)) return [notSupported(`${path}[${at}]`, it, ACTIONS)];
    return actions.indexOf(it) < at ? [duplicate(`${path}[${at}]`, it)] : [];
  });
  if (actions.includes("Deny") && actions.includes("Warn")) {
    const why =
      "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
    errors.push(invalid(path, actions, why));
  }
  return errors;
}
