import { isObject } from "@fairlead/base/json.ts";
import { invalid, notAllowed, notSupported, required } from "#values/field-errors.ts";
import type { Schema, ValidationRule } from "#schema/types.ts";
import type { FieldError } from "#status.ts";
import { type DeclaredType, declaredType, MAX_REQUEST } from "../schema/declared-type.ts";
import { type Compiled, compileRule } from "./compile.ts";
import { resolveFieldPath } from "./field-path.ts";

/** Validates the rules of a CustomResourceDefinition. Source: apiextensions-apiserver, pkg/apis, validation. */

/** Most that one expression may be estimated to cost, with all the places where it may be evaluated. */
const EXPRESSION_LIMIT = 10_000_000;
/** Most that all the expressions of a schema may be estimated to cost. */
const SCHEMA_LIMIT = 100_000_000;
/** How many of the most expensive ones are named. */
const NAMED = 4;

const ADVICE =
  "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)";

/**
 * Validates the rules in the schema of a CRD.
 *
 * @param field - The path of the schema.
 */
export function checkRules(schema: Schema, field: string): FieldError[] {
  const node: Node = { schema, field, isRoot: true, cardinality: 1, uncorrelatable: undefined };
  const written: FieldError[] = [];
  walk(node, ({ schema: of, field: at }) => {
    for (const [index, rule] of rulesOf(of).entries()) {
      written.push(...checkText(rule, of, `${at}.x-kubernetes-validations[${index}]`));
    }
  });
  // Rules that are not even written right are not compiled.
  if (written.length > 0) return written;
  const costs = new Costs();
  const errors: FieldError[] = [];
  walk(node, (it) => errors.push(...checkNode(it, costs)));
  return [...errors, ...costs.check(field)];
}

function rulesOf(schema: Schema): readonly ValidationRule[] {
  return schema["x-kubernetes-validations"] ?? [];
}

interface Node {
  readonly schema: Schema;
  readonly field: string;
  readonly isRoot: boolean;
  /** How many such values an object may have; undefined: as many as a request holds. */
  readonly cardinality: number | undefined;
  /** The enclosing list whose items cannot be correlated between two versions of an object. */
  readonly uncorrelatable: string | undefined;
}

function walk(node: Node, look: (node: Node) => void): void {
  look(node);
  const { schema, field, cardinality, uncorrelatable } = node;
  const { properties = {}, items, additionalProperties: additional } = schema;
  const below = { isRoot: false, uncorrelatable };
  for (const [name, it] of Object.entries(properties)) {
    walk({ ...below, schema: it, field: `${field}.properties[${name}]`, cardinality }, look);
  }
  if (typeof additional === "object") {
    const many = times(cardinality, schema.maxProperties);
    walk({ ...below, schema: additional, field: `${field}.additionalProperties`, cardinality: many }, look);
  }
  if (!isObject(items)) return;
  const isKeyed = schema["x-kubernetes-list-type"] === "map";
  walk(
    {
      schema: items,
      field: `${field}.items`,
      isRoot: false,
      cardinality: times(cardinality, schema.maxItems),
      uncorrelatable: uncorrelatable ?? (isKeyed ? undefined : field),
    },
    look,
  );
}

function times(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? undefined : a * Math.max(0, b);
}

const REASONS = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

function checkText(rule: ValidationRule, schema: Schema, field: string): FieldError[] {
  const { messageExpression = "", reason, fieldPath = "" } = rule;
  const errors = checkMessage(rule, field);
  if (messageExpression !== "" && messageExpression.trim() === "") {
    errors.push(required(`${field}.messageExpression`, "messageExpression must be non-empty if specified"));
  }
  if (reason !== undefined && !REASONS.includes(reason)) {
    errors.push(notSupported(`${field}.reason`, reason, REASONS));
  }
  if (fieldPath === "") return errors;
  const wrong = (why: string): void => void errors.push(invalid(`${field}.fieldPath`, fieldPath, why));
  if (fieldPath.trim() === "") wrong("must be non-empty if specified");
  if (fieldPath.includes("\n")) wrong("must not contain line breaks");
  if (resolveFieldPath(fieldPath, schema) === undefined) wrong("must be a valid path");
  return errors;
}

function checkMessage({ rule, message = "" }: ValidationRule, field: string): FieldError[] {
  const text = message.trim();
  if (typeof rule !== "string" || rule.trim() === "")
    return [required(`${field}.rule`, "rule is not specified")];
  if (message !== "" && text === "")
    return [invalid(`${field}.message`, message, "must be non-empty if specified")];
  if (text.includes("\n")) return [invalid(`${field}.message`, message, "must not contain line breaks")];
  if (rule.trim().includes("\n") && text === "") {
    return [required(`${field}.message`, "message must be specified if rule contains line breaks")];
  }
  return [];
}

function checkNode(node: Node, costs: Costs): FieldError[] {
  const rules = rulesOf(node.schema);
  if (rules.length === 0) return [];
  const field = `${node.field}.x-kubernetes-validations`;
  const declared = declaredType(
    node.schema,
    node.isRoot || node.schema["x-kubernetes-embedded-resource"] === true,
  );
  if (declared === undefined) {
    return [invalid(field, node.schema.type ?? "", "failed to convert to declType for CEL validation rules")];
  }
  return rules.flatMap((rule, at) => checkRule(rule, { ...node, field: `${field}[${at}]` }, declared, costs));
}

function checkRule(rule: ValidationRule, node: Node, declared: DeclaredType, costs: Costs): FieldError[] {
  const { field, uncorrelatable } = node;
  const { condition, message, usesOldSelf } = compileRule(rule, declared);
  const cardinality = node.cardinality ?? Math.floor(MAX_REQUEST / (declared.minSize + 1));
  const errors = [
    ...checkCompiled(rule, { compiled: condition, field: `${field}.rule`, name: "rule", cardinality }, costs),
    ...(message === undefined
      ? []
      : checkCompiled(
          rule,
          {
            compiled: message,
            field: `${field}.messageExpression`,
            name: "messageExpression",
            cardinality: 1,
          },
          costs,
        )),
  ];
  if (usesOldSelf && uncorrelatable !== undefined) {
    const why = `oldSelf cannot be used on the uncorrelatable portion of the schema within ${uncorrelatable}`;
    errors.push(invalid(`${field}.rule`, rule.rule, why));
  }
  if (!usesOldSelf && rule.optionalOldSelf !== undefined) {
    const why = "may not be set if oldSelf is not used in rule";
    errors.push(invalid(`${field}.optionalOldSelf`, rule.optionalOldSelf, why));
  }
  return errors;
}

function checkCompiled(
  rule: ValidationRule,
  it: {
    readonly compiled: Compiled;
    readonly field: string;
    readonly name: string;
    readonly cardinality: number;
  },
  costs: Costs,
): FieldError[] {
  const { compiled, field, name, cardinality } = it;
  if (compiled.program === undefined) {
    const message = `Invalid value: ${shownRule(rule)}: ${compiled.problem}`;
    return [{ type: "FieldValueInvalid", field, message }];
  }
  const cost = compiled.maxCost === 0 ? 0 : compiled.maxCost * cardinality;
  costs.add(field, cost);
  if (cost <= EXPRESSION_LIMIT) return [];
  return [notAllowed(field, excess(`estimated ${name} cost`, cost, EXPRESSION_LIMIT))];
}

/** A rule as problems show it: JSON as Go writes it. */
function shownRule(rule: ValidationRule): string {
  const json = JSON.stringify({
    Rule: rule.rule,
    Message: rule.message ?? "",
    MessageExpression: rule.messageExpression ?? "",
    Reason: rule.reason ?? null,
    FieldPath: rule.fieldPath ?? "",
    OptionalOldSelf: rule.optionalOldSelf ?? null,
  });
  return json.replaceAll(
    /[&<>\u2028\u2029]/g,
    (it) => `\\u${it.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

function excess(what: string, cost: number, limit: number): string {
  const factor = cost / limit;
  const shown = factor > 100 ? "more than 100x" : `${factor.toFixed(factor < 1.5 ? 6 : 1)}x`;
  return `${what} exceeds budget by factor of ${shown} ${ADVICE}`;
}

class Costs {
  #total = 0;
  readonly #expensive: { readonly field: string; readonly cost: number }[] = [];

  add(field: string, cost: number): void {
    this.#total += cost;
    if (cost >= SCHEMA_LIMIT / 100) this.#expensive.push({ field, cost });
  }

  check(field: string): FieldError[] {
    if (this.#total <= SCHEMA_LIMIT) return [];
    const worst = this.#expensive
      .toSorted((a, b) => (a.cost === b.cost ? 0 : b.cost - a.cost))
      .slice(0, NAMED);
    const what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
    return [
      ...worst.map((it) =>
        notAllowed(
          it.field,
          "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema",
        ),
      ),
      notAllowed(field, excess(what, this.#total, SCHEMA_LIMIT)),
    ];
  }
}
