import { isObject, sameJson } from "#base/json.ts";
import { invalid } from "../../builtin/field-errors.ts";
import type { FieldError, FieldErrorType } from "../../status.ts";
import type { Schema, ValidationRule } from "../types.ts";
import { checkExpression } from "./check.ts";
import { makeEnvironment, withOwnFunctions } from "./environment.ts";
import { rootSchema, toCel } from "./values.ts";

/**
 * `x-kubernetes-validations`: CEL rules of a schema's nodes. Source: kubernetes.io, "Validation rules"; KEP-2876.
 */

type Evaluate = (context: Readonly<Record<string, unknown>>) => unknown;

interface Expression {
  readonly evaluate: Evaluate;
  readonly usesOldSelf: boolean;
}

interface CompiledRule {
  readonly rule: ValidationRule;
  readonly condition: Expression;
  readonly message: Expression | undefined;
}

const ENVIRONMENT = makeEnvironment(["self", "oldSelf"]);

/** @throws {Error} when the expression is malformed, of another type, or names what does not exist. */
function compile(expression: string, type: "bool" | "string", schema: Schema): Expression {
  const parsed = ENVIRONMENT.parse(withOwnFunctions(expression));
  const { variables, problems } = checkExpression(
    parsed.ast,
    new Map([
      ["self", schema],
      ["oldSelf", undefined],
    ]),
  );
  const [problem] = problems;
  if (problem !== undefined) throw new Error(problem);
  const checked = parsed.check();
  if (!checked.valid) throw new Error(firstLine(checked.error?.message ?? "invalid expression"));
  if (checked.type !== type && checked.type !== "dyn") throw new Error(`must evaluate to a ${type}`);
  return { evaluate: (context) => parsed(context) as unknown, usesOldSelf: variables.has("oldSelf") };
}

function firstLine(text: string): string {
  return text.split("\n", 1)[0] ?? text;
}

/** Rules that do not compile keep a CRD from being stored; one that is stored all the same fails whatever it is asked. */
function compileOrFail(expression: string, type: "bool" | "string", schema: Schema): Expression {
  try {
    return compile(expression, type, schema);
  } catch (error) {
    const evaluate = (): never => {
      throw error;
    };
    return { evaluate, usesOldSelf: false };
  }
}

/** A memo: a rule and its schema, never changed once they are stored, always compile to the same. */
const COMPILED = new WeakMap<Schema, readonly CompiledRule[]>();

function rulesOf(schema: Schema, isRoot: boolean): readonly CompiledRule[] {
  const known = COMPILED.get(schema);
  if (known !== undefined) return known;
  const typed = isRoot ? rootSchema(schema) : schema;
  const compiled = (schema["x-kubernetes-validations"] ?? []).map((rule): CompiledRule => ({
    rule,
    condition: compileOrFail(rule.rule, "bool", typed),
    message:
      rule.messageExpression === undefined
        ? undefined
        : compileOrFail(rule.messageExpression, "string", typed),
  }));
  COMPILED.set(schema, compiled);
  return compiled;
}

/**
 * What is wrong with the rules of a CRD's schema: those that do not compile, and transition rules where an item cannot
 * be told from one version of an object to the next.
 *
 * @param field - Where the schema stands.
 */
export function checkRules(schema: Schema, field: string): FieldError[] {
  return checkRulesOf(schema, { field, isRoot: true, isCorrelatable: true });
}

interface Place {
  readonly field: string;
  readonly isRoot: boolean;
  readonly isCorrelatable: boolean;
}

function checkRulesOf(schema: Schema, place: Place): FieldError[] {
  const { field } = place;
  const typed = place.isRoot ? rootSchema(schema) : schema;
  const own = (schema["x-kubernetes-validations"] ?? []).flatMap((rule, at) =>
    checkRule(rule, typed, { ...place, field: `${field}.x-kubernetes-validations[${at}]` }),
  );
  const { properties = {}, items, additionalProperties: additional } = schema;
  const below = { isRoot: false, isCorrelatable: place.isCorrelatable };
  const isKeyed = schema["x-kubernetes-list-type"] === "map";
  return [
    ...own,
    ...Object.entries(properties).flatMap(([name, it]) =>
      checkRulesOf(it, { ...below, field: `${field}.properties[${name}]` }),
    ),
    ...(items === undefined
      ? []
      : checkRulesOf(items, {
          field: `${field}.items`,
          isRoot: false,
          isCorrelatable: place.isCorrelatable && isKeyed,
        })),
    ...(typeof additional === "object"
      ? checkRulesOf(additional, { ...below, field: `${field}.additionalProperties` })
      : []),
  ];
}

function checkRule(rule: ValidationRule, schema: Schema, { field, isCorrelatable }: Place): FieldError[] {
  const errors: FieldError[] = [];
  const attempt = (name: "rule" | "messageExpression", type: "bool" | "string"): Expression | undefined => {
    const expression = rule[name];
    if (expression === undefined) return undefined;
    try {
      return compile(expression, type, schema);
    } catch (error) {
      errors.push(
        invalid(`${field}.${name}`, expression, `compilation failed: ${firstLine((error as Error).message)}`),
      );
      return undefined;
    }
  };
  const condition = attempt("rule", "bool");
  attempt("messageExpression", "string");
  if (condition?.usesOldSelf === true && !isCorrelatable) {
    errors.push(
      invalid(
        `${field}.rule`,
        rule.rule,
        "oldSelf cannot be used on the uncorrelatable portion of the schema",
      ),
    );
  }
  if (condition?.usesOldSelf !== true && rule.optionalOldSelf === true) {
    errors.push(invalid(`${field}.optionalOldSelf`, true, "may not be set if oldSelf is not used in rule"));
  }
  return errors;
}

export interface RulesToCheck {
  readonly value: unknown;
  readonly schema: Schema;
  readonly path: string;
  /** Undefined on create. */
  readonly old?: unknown;
}

/** The rules that an object breaks. The object is known to be valid otherwise. */
export function validateRules({ value, schema, path, old }: RulesToCheck): FieldError[] {
  const errors: FieldError[] = [];
  visit({ value, old, path }, schema, { isRoot: path === "", errors });
  return errors;
}

interface Subject {
  readonly value: unknown;
  readonly old: unknown;
  readonly path: string;
}

interface Run {
  readonly isRoot: boolean;
  readonly errors: FieldError[];
}

function visit(subject: Subject, schema: Schema, run: Run): void {
  const { value } = subject;
  if (value === undefined || value === null) return;
  if (schema["x-kubernetes-validations"] !== undefined) evaluateRules(subject, schema, run);
  if (Array.isArray(value)) visitItems(value, subject, schema, run.errors);
  else if (isObject(value)) visitFields(value, subject, schema, run.errors);
}

function visitItems(
  list: readonly unknown[],
  { old, path }: Subject,
  schema: Schema,
  errors: FieldError[],
): void {
  if (schema.items === undefined) return;
  const before = itemsByKey(old, schema);
  for (const [at, value] of list.entries()) {
    const was = before?.get(keyOf(value, schema));
    visit({ value, old: was, path: `${path}[${at}]` }, schema.items, { isRoot: false, errors });
  }
}

function visitFields(
  map: Record<string, unknown>,
  { old, path }: Subject,
  schema: Schema,
  errors: FieldError[],
): void {
  const { properties = {}, additionalProperties: additional } = schema;
  const before = isObject(old) ? old : {};
  for (const [name, value] of Object.entries(map)) {
    const field = Object.hasOwn(properties, name) ? properties[name] : additional;
    if (typeof field !== "object") continue;
    const at = path === "" ? name : `${path}.${name}`;
    visit({ value, old: before[name], path: at }, field, { isRoot: false, errors });
  }
}

function evaluateRules(subject: Subject, schema: Schema, { isRoot, errors }: Run): void {
  const typed = isRoot ? rootSchema(schema) : schema;
  const isSame = subject.old !== undefined && sameJson(subject.value, subject.old);
  const self = toCel(subject.value, typed);
  for (const compiled of rulesOf(schema, isRoot)) {
    const { condition, rule } = compiled;
    const isOptional = rule.optionalOldSelf === true;
    // Transition rules speak of updates alone; others are not held against what an update leaves as it was.
    if (condition.usesOldSelf ? subject.old === undefined && !isOptional : isSame) continue;
    const oldSelf = condition.usesOldSelf ? oldValue(subject.old, typed, isOptional) : undefined;
    const context = oldSelf === undefined ? { self } : { self, oldSelf };
    const problem = evaluateRule(compiled, context);
    if (problem !== undefined) errors.push(ruleError(rule, subject, problem));
  }
}

function oldValue(old: unknown, schema: Schema, isOptional: boolean): unknown {
  const value = toCel(old, schema);
  if (!isOptional) return value;
  if (old === undefined) return ENVIRONMENT.evaluate("optional.none()") as unknown;
  return ENVIRONMENT.evaluate("optional.of(self)", { self: value }) as unknown;
}

/** The message of a rule that does not hold; undefined when it holds. */
function evaluateRule(
  { rule, condition, message }: CompiledRule,
  context: Record<string, unknown>,
): string | undefined {
  try {
    if (condition.evaluate(context) === true) return undefined;
  } catch (error) {
    return `rule evaluation error: ${firstLine((error as Error).message)}: rule: ${rule.rule}`;
  }
  return (
    (message === undefined ? undefined : evaluateMessage(message, context)) ??
    rule.message ??
    `failed rule: ${rule.rule}`
  );
}

/** A message that cannot be made, or is none, gives way to the fixed one. */
function evaluateMessage(message: Expression, context: Record<string, unknown>): string | undefined {
  try {
    const text = message.evaluate(context);
    return typeof text === "string" && text.trim() !== "" && !text.includes("\n") ? text.trim() : undefined;
  } catch {
    return undefined;
  }
}

const HEADS: Readonly<Record<string, string>> = {
  FieldValueForbidden: "Forbidden: ",
  FieldValueRequired: "Required value: ",
};

function ruleError(rule: ValidationRule, { value, path }: Subject, problem: string): FieldError {
  const type = (rule.reason ?? "FieldValueInvalid") as FieldErrorType;
  const what = Array.isArray(value) ? "array" : isObject(value) ? "object" : typeof value;
  const head = type === "FieldValueDuplicate" ? `Duplicate value: "${what}": ` : `Invalid value: "${what}": `;
  const field = `${path}${rule.fieldPath ?? ""}`;
  return {
    type,
    // A path without a step, as Go prints it.
    field: field === "" ? "<nil>" : field.replace(/^\./, ""),
    message: `${HEADS[type] ?? head}${problem}`,
  };
}

function itemsByKey(list: unknown, schema: Schema): Map<string, unknown> | undefined {
  if (!Array.isArray(list) || schema["x-kubernetes-list-type"] !== "map") return undefined;
  return new Map(list.map((item: unknown) => [keyOf(item, schema), item]));
}

function keyOf(item: unknown, schema: Schema): string {
  const keys = schema["x-kubernetes-list-map-keys"] ?? [];
  return JSON.stringify(keys.map((key) => (isObject(item) ? item[key] : undefined)));
}
