import { isObject, sameJson } from "@fairlead/base/json.ts";
import type { Schema, ValidationRule } from "#schema/types.ts";
import type { FieldError, FieldErrorType } from "#status.ts";
import { PER_CALL_LIMIT, PER_OBJECT_LIMIT, type Program } from "../environment.ts";
import { declaredType, rootSchema } from "../schema/declared-type.ts";
import { toTypedCel } from "../schema/typed-value.ts";
import { type CelValue, CostExceeded, Optional } from "../value.ts";
import { type CompiledRule, compileRule } from "./compile.ts";
import { resolveFieldPath } from "./field-path.ts";

/** Objects and the rules of their schemas. Source: apiextensions-apiserver, pkg/apiserver/schema/cel; KEP-2876, KEP-4008. */

/** Longest message that an expression may make. Unit: bytes. */
const MAX_MESSAGE = 5 * 1024;

export interface RulesToCheck {
  readonly value: unknown;
  readonly schema: Schema;
  readonly path: string;
  /** Undefined on create. */
  readonly old?: unknown;
}

/** The rules that an object breaks. Its values are known to be of their types. */
export function validateRules({ value, schema, path, old }: RulesToCheck): FieldError[] {
  if (!hasRules(schema)) return [];
  const run = new Run();
  run.visit({ value, old, path, isUnchanged: false, isRoot: path === "" }, schema);
  return run.errors;
}

/** A memo: a schema is never changed once it is stored. */
const HAS_RULES = new WeakMap<Schema, boolean>();
const COMPILED = new WeakMap<Schema, readonly CompiledRule[]>();

/** Whether `schema` contains a rule at any depth. */
export function hasRules(schema: Schema): boolean {
  const known = HAS_RULES.get(schema);
  if (known !== undefined) return known;
  const { properties = {}, items, additionalProperties: additional, allOf = [] } = schema;
  const below = [...Object.values(properties), items, additional];
  const found =
    rulesOf(schema).length > 0 ||
    allOf.some((it) => rulesOf(it).length > 0) ||
    below.some((it) => typeof it === "object" && hasRules(it));
  HAS_RULES.set(schema, found);
  return found;
}

function rulesOf(schema: Schema): readonly ValidationRule[] {
  return schema["x-kubernetes-validations"] ?? [];
}

function compiledRules(schema: Schema, isRoot: boolean): readonly CompiledRule[] {
  const known = COMPILED.get(schema);
  if (known !== undefined) return known;
  const rules = [...rulesOf(schema), ...(schema.allOf ?? []).flatMap(rulesOf)];
  const declared =
    rules.length === 0
      ? undefined
      : declaredType(schema, isRoot || schema["x-kubernetes-embedded-resource"] === true);
  const compiled = declared === undefined ? [] : rules.map((it) => compileRule(it, declared));
  COMPILED.set(schema, compiled);
  return compiled;
}

interface Subject {
  readonly value: unknown;
  readonly old: unknown;
  readonly path: string;
  /** An update leaves it as it was: what it breaks is not held against it. */
  readonly isUnchanged: boolean;
  readonly isRoot: boolean;
}

/** Where the budget has run out nothing more is evaluated. */
class OutOfBudget extends Error {}

class Run {
  readonly errors: FieldError[] = [];
  #budget = PER_OBJECT_LIMIT;

  visit(subject: Subject, schema: Schema): void {
    try {
      this.#visit(subject, schema);
    } catch (error) {
      if (!(error instanceof OutOfBudget)) throw error;
    }
  }

  #visit(subject: Subject, schema: Schema): void {
    const { value } = subject;
    if (value === undefined || value === null || !hasRules(schema)) return;
    const isUnchanged = subject.isUnchanged || (subject.old !== undefined && sameJson(value, subject.old));
    const here = { ...subject, isUnchanged, isRoot: false };
    this.#evaluate({ ...here, isRoot: subject.isRoot }, schema);
    if (Array.isArray(value)) this.#visitItems(value, here, schema);
    else if (isObject(value)) this.#visitFields(value, here, schema);
  }

  #visitItems(list: readonly unknown[], subject: Subject, schema: Schema): void {
    if (schema.items === undefined) return;
    const before = itemsByKey(subject.old, schema);
    for (const [at, value] of list.entries()) {
      const old = before?.get(keyOf(value, schema));
      this.#visit({ ...subject, value, old, path: `${subject.path}[${at}]` }, schema.items);
    }
  }

  #visitFields(map: Record<string, unknown>, subject: Subject, schema: Schema): void {
    const { properties = {}, additionalProperties: additional } = schema;
    const before = isObject(subject.old) ? subject.old : {};
    for (const [name, value] of Object.entries(map)) {
      const old = Object.hasOwn(before, name) ? before[name] : undefined;
      if (Object.hasOwn(properties, name)) {
        const path = subject.path === "" ? name : `${subject.path}.${name}`;
        this.#visit({ ...subject, value, old, path }, properties[name] ?? {});
      } else if (typeof additional === "object") {
        this.#visit({ ...subject, value, old, path: `${subject.path}[${name}]` }, additional);
      }
    }
  }

  #evaluate(subject: Subject, schema: Schema): void {
    const rules = compiledRules(schema, subject.isRoot);
    if (rules.length === 0) return;
    const typed = subject.isRoot ? rootSchema(schema) : schema;
    const self = toTypedCel(subject.value, typed);
    const hadValue = subject.old !== undefined && subject.old !== null;
    const oldSelf =
      hadValue && rules.some((it) => it.usesOldSelf) ? toTypedCel(subject.old, typed) : undefined;
    for (const rule of rules) {
      if (rule.usesOldSelf && !hadValue && rule.rule.optionalOldSelf !== true) continue;
      this.#evaluateRule(rule, { self, oldSelf }, subject, schema);
    }
  }

  #evaluateRule(rule: CompiledRule, values: Values, subject: Subject, schema: Schema): void {
    const { condition, usesOldSelf } = rule;
    const type = schema.type ?? "";
    const fail = (why: string): void =>
      this.#report("FieldValueInvalid", subject.path, `Invalid value: "${type}": ${why}`);
    if (condition.program === undefined) return fail(`rule compile error: ${condition.problem}`);
    const outcome = this.#run(condition.program, variablesOf(rule, values), fail);
    if (outcome instanceof CostExceeded) {
      fail(
        `'${outcome.message}': no further validation rules will be run due to call cost exceeds limit for rule: ${nameOf(rule.rule)}`,
      );
      throw new OutOfBudget();
    }
    if (outcome instanceof Error) return fail(describeFailure(outcome.message, rule.rule));
    if (outcome === true || (subject.isUnchanged && !usesOldSelf)) return undefined;
    const detail = this.#message(rule, values, fail) ?? rule.rule.message?.trim();
    return this.#reportBroken(rule.rule, subject, schema, detail);
  }

  /** Evaluates an expression and charges its cost to the budget. */
  #run(
    program: Program,
    variables: ReadonlyMap<string, CelValue>,
    fail: (why: string) => void,
  ): CelValue | Error {
    const { outcome, cost } = program.attempt(variables, PER_CALL_LIMIT);
    this.#budget -= cost;
    if (this.#budget < 0) {
      fail("validation failed due to running out of cost budget, no further validation rules will be run");
      throw new OutOfBudget();
    }
    return outcome;
  }

  /** Evaluates `messageExpression`; undefined if it fails or its result is not a valid message. */
  #message({ message }: CompiledRule, values: Values, fail: (why: string) => void): string | undefined {
    if (message?.program === undefined) return undefined;
    const { self, oldSelf } = values;
    const variables = new Map<string, CelValue>([["self", self]]);
    if (oldSelf !== undefined) variables.set("oldSelf", oldSelf);
    const outcome = this.#run(message.program, variables, fail);
    if (outcome instanceof CostExceeded) {
      const { expression } = message.program;
      fail(
        `no further validation rules will be run due to call cost exceeds limit for messageExpression: ${JSON.stringify(expression)}`,
      );
      throw new OutOfBudget();
    }
    const text = typeof outcome === "string" ? outcome.trim() : "";
    return text === "" || text.includes("\n") || Buffer.byteLength(text) > MAX_MESSAGE ? undefined : text;
  }

  #reportBroken(rule: ValidationRule, { value, path }: Subject, schema: Schema, detail?: string): void {
    const type = (rule.reason ?? "FieldValueInvalid") as FieldErrorType;
    const below = rule.fieldPath === undefined ? undefined : resolveFieldPath(rule.fieldPath, schema);
    const field = below === undefined || below === "" ? path : path === "" ? below : `${path}.${below}`;
    const what = schema.type === "object" || schema.type === "array" ? "" : `: ${JSON.stringify(value)}`;
    const why = detail ?? `failed rule: ${nameOf(rule)}`;
    this.#report(type, field, brokenMessage(type, what, why));
  }

  #report(type: FieldErrorType, field: string, message: string): void {
    // A path without a step, as Go prints it.
    this.errors.push({ type, field: field === "" ? "<nil>" : field, message });
  }
}

interface Values {
  readonly self: CelValue;
  readonly oldSelf: CelValue | undefined;
}

function variablesOf(
  { rule, usesOldSelf }: CompiledRule,
  { self, oldSelf }: Values,
): ReadonlyMap<string, CelValue> {
  const variables = new Map<string, CelValue>([["self", self]]);
  if (!usesOldSelf) return variables;
  if (rule.optionalOldSelf === true) {
    return variables.set("oldSelf", oldSelf === undefined ? Optional.NONE : Optional.of(oldSelf));
  }
  return oldSelf === undefined ? variables : variables.set("oldSelf", oldSelf);
}

function nameOf({ rule, message = "" }: ValidationRule): string {
  return message === "" ? rule.trim() : message.trim();
}

function describeFailure(why: string, rule: ValidationRule): string {
  if (!why.startsWith("no such overload")) return `${why} evaluating rule: ${nameOf(rule)}`;
  return `'${why}': call arguments did not match a supported operator, function or macro signature for rule: ${nameOf(rule)}`;
}

function brokenMessage(type: FieldErrorType, what: string, why: string): string {
  switch (type) {
    case "FieldValueForbidden":
      return `Forbidden: ${why}`;
    case "FieldValueRequired":
      return `Required value: ${why}`;
    case "FieldValueDuplicate":
      return `Duplicate value${what}`;
    default:
      return `Invalid value${what}: ${why}`;
  }
}

function itemsByKey(list: unknown, schema: Schema): Map<string, unknown> | undefined {
  if (!Array.isArray(list) || schema["x-kubernetes-list-type"] !== "map") return undefined;
  return new Map(list.map((item: unknown) => [keyOf(item, schema), item]));
}

function keyOf(item: unknown, schema: Schema): string {
  const keys = schema["x-kubernetes-list-map-keys"] ?? [];
  return JSON.stringify(keys.map((key) => (isObject(item) ? item[key] : undefined)));
}
