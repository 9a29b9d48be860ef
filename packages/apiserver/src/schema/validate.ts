import { isObject, sameJson } from "@fairlead/base/json.ts";
import { invalid, notSupported, required, tooLong, tooMany } from "#values/field-errors.ts";
import type { FieldError } from "#status.ts";
import { countChecks } from "./count-checks.ts";
import { deref } from "./definitions.ts";
import { isKnownFormat, isOfFormat } from "./formats.ts";
import { matches } from "./patterns.ts";
import type { Schema, SchemaResolver } from "./types.ts";
import { validateEmbedded } from "./validate-embedded.ts";

export interface ValueToValidate {
  readonly value: unknown;
  readonly schema: Schema;
  /** The path of the value: "spec"; empty for a whole object. */
  readonly path: string;
  readonly resolve: SchemaResolver;
  /** The value before an update: parts that do not change are not validated by newer rules. */
  readonly old?: unknown;
  /** The path of a part that is validated alone, which texts do not name: "status". */
  readonly part?: string;
}

/**
 * The errors of a value, by the validations of its schema, worded as kube-apiserver does for custom resources.
 * Source: kube-openapi, pkg/validation/validate; apiextensions-apiserver, pkg/apiserver/validation (ratcheting: KEP-4008).
 */
export function validateValue(of: ValueToValidate): FieldError[] {
  const { value, schema, path, resolve, old, part } = of;
  const validator = new Validator(resolve, part);
  validator.value({ value, old, path }, schema);
  return validator.errors;
}

interface Subject {
  readonly value: unknown;
  readonly old: unknown;
  readonly path: string;
}

/** The field of errors of whole objects of which upstream does not say where they are, but in their text. */
const NOWHERE = "<nil>";

/** Errors beyond this many say nothing more. */
const MAX_ERRORS = 100;

class Validator {
  readonly errors: FieldError[] = [];
  readonly #resolve: SchemaResolver;
  readonly #part: string | undefined;

  constructor(resolve: SchemaResolver, part: string | undefined) {
    this.#resolve = resolve;
    this.#part = part;
  }

  /** Every check that applies to a value of its kind, of the type that the schema requires or not. */
  value(subject: Subject, schema: Schema): void {
    const { value, old } = subject;
    if (value === undefined || this.errors.length >= MAX_ERRORS) return;
    if (old !== undefined && sameJson(value, old)) return;
    const target = deref(schema, this.#resolve);
    this.#type(subject, target);
    this.#enum(subject, target);
    if (value === null) return;
    if (typeof value === "string") this.#text(subject, value, target);
    else if (isNumeric(value)) this.#number(subject, Number(value), target);
    else if (Array.isArray(value)) this.#list(subject, value, target);
    else if (isObject(value)) this.#map(subject, value, target);
    this.#combinations(subject, target);
  }

  #type(subject: Subject, schema: Schema): void {
    const type = mismatch(subject.value, schema);
    if (type !== undefined) this.#typeError(subject, { ...schema, type });
  }

  #typeError({ value, path }: Subject, { type, format }: { type: string; format?: string }): void {
    // Upstream names the format in place of the type, of all values but texts and lists.
    const isOfFormats = format !== undefined && hasFormat(value);
    const actual = JSON.stringify(isOfFormats ? formatOf(value) : typeOf(value));
    const message = `Invalid value: ${actual}: ${this.#inBody(path)} must be of type ${isOfFormats ? format : type}: ${actual}`;
    this.errors.push({ type: "FieldValueTypeInvalid", field: path, message });
  }

  #inBody(path: string): string {
    return `${this.#within(path)} in body`;
  }

  /** A path as texts name it. */
  #within(path: string): string {
    const part = this.#part;
    if (part === undefined) return path;
    return path === part ? "" : path.slice(part.length + 1);
  }

  #invalid({ value, path }: Subject, why: string): void {
    this.errors.push(invalid(path, value, `${this.#inBody(path)} ${why}`));
  }

  /** An error of which only the text says where it is. */
  #misplaced(why: string): void {
    this.errors.push(invalid(this.#part ?? NOWHERE, "", why));
  }

  #enum({ value, path }: Subject, schema: Schema): void {
    const { enum: allowed = [] } = schema;
    // A null does not count, even where one of them is null.
    if (allowed.length === 0 || (value !== null && allowed.some((it) => sameJson(it, value)))) return;
    const texts = allowed.map((it) => (typeof it === "string" ? it : JSON.stringify(it)));
    this.errors.push(notSupported(path, value, texts));
  }

  #text(subject: Subject, value: string, schema: Schema): void {
    const { path } = subject;
    const { minLength, maxLength, pattern } = schema;
    const length = minLength === undefined && maxLength === undefined ? 0 : runes(value);
    // Only the first of these errors is reported.
    if (maxLength !== undefined && length > maxLength) this.errors.push(tooLong(path, maxLength));
    else if (minLength !== undefined && length < minLength)
      this.#invalid(subject, `should be at least ${minLength} chars long`);
    else if (pattern !== undefined && !matches(pattern, value))
      this.#invalid(subject, `should match '${pattern}'`);
    if (schema.format !== undefined && !isOfFormat(value, schema.format)) {
      const why = `${this.#inBody(path)} must be of type ${schema.format}: ${JSON.stringify(value)}`;
      const message = `Invalid value: ${JSON.stringify(value)}: ${why}`;
      this.errors.push({ type: "FieldValueTypeInvalid", field: path, message });
    }
  }

  #number(subject: Subject, value: number, schema: Schema): void {
    const { minimum, maximum, multipleOf } = schema;
    const misfit = numberMisfit(subject.value, schema);
    if (misfit !== undefined)
      this.#misplaced(`Checked value must be of type ${misfit} in ${this.#within(subject.path)}`);
    const isStrictMinimum = schema.exclusiveMinimum === true;
    const isStrictMaximum = schema.exclusiveMaximum === true;
    if (minimum !== undefined && (isStrictMinimum ? value <= minimum : value < minimum)) {
      this.#invalid(subject, `should be greater than ${isStrictMinimum ? "" : "or equal to "}${minimum}`);
    }
    if (maximum !== undefined && (isStrictMaximum ? value >= maximum : value > maximum)) {
      this.#invalid(subject, `should be less than ${isStrictMaximum ? "" : "or equal to "}${maximum}`);
    }
    if (multipleOf !== undefined) this.#multiple(subject, value, multipleOf);
  }

  #multiple(subject: Subject, value: number, factor: number): void {
    // Upstream takes an integer for a multiple of integers alone.
    const used = isInteger(subject.value) ? Math.trunc(factor) : factor;
    if (used <= 0) {
      const why = `factor MultipleOf declared for ${this.#within(subject.path)} must be positive: ${used}`;
      this.errors.push(invalid(subject.path, used, why));
    } else if (!isMultiple(value, used)) this.#invalid(subject, `should be a multiple of ${used}`);
  }

  #list(subject: Subject, list: readonly unknown[], schema: Schema): void {
    const { path, old } = subject;
    const { minItems, maxItems, items } = schema;
    if (maxItems !== undefined && list.length > maxItems)
      this.errors.push(tooMany(path, list.length, maxItems));
    if (minItems !== undefined && list.length < minItems) {
      this.#invalid({ ...subject, value: list.length }, `should have at least ${minItems} items`);
    }
    if (items === undefined) return;
    const before = oldItems(old, schema);
    for (const [at, value] of list.entries()) {
      const was = before?.get(itemKey(value, schema));
      this.value({ value, old: was, path: `${path}[${at}]` }, items);
    }
  }

  #map(subject: Subject, value: Record<string, unknown>, schema: Schema): void {
    const { path } = subject;
    const { properties = {}, additionalProperties, minProperties, maxProperties } = schema;
    const names = Object.keys(value);
    if (maxProperties !== undefined && names.length > maxProperties) {
      this.errors.push(tooMany(path, names.length, maxProperties));
    }
    if (minProperties !== undefined && names.length < minProperties) {
      this.#invalid({ ...subject, value: names.length }, `should have at least ${minProperties} properties`);
    }
    this.#required(subject, value, schema);
    const before = isObject(subject.old) ? subject.old : {};
    for (const name of names) {
      const field = Object.hasOwn(properties, name) ? properties[name] : additionalProperties;
      if (typeof field !== "object") continue;
      this.value({ value: value[name], old: before[name], path: child(path, name) }, field);
    }
  }

  #required({ path }: Subject, value: Record<string, unknown>, schema: Schema): void {
    for (const name of schema.required ?? []) {
      if (value[name] === undefined) this.errors.push(required(child(path, name)));
    }
    if (schema["x-kubernetes-embedded-resource"] === true) this.errors.push(...validateEmbedded(value, path));
  }

  #combinations(subject: Subject, schema: Schema): void {
    if (!isCombined(schema)) return;
    const { allOf, anyOf, oneOf, not } = schema;
    const fails = (it: Schema): boolean => this.#errorsOf(subject, it).length > 0;
    const name = JSON.stringify(this.#within(subject.path));
    this.#allOf(subject, allOf ?? []);
    if (anyOf?.every(fails) === true) {
      this.#combination(subject, `${name} must validate at least one schema (anyOf)`, anyOf);
    }
    if (oneOf !== undefined) {
      const valid = oneOf.filter((it) => !fails(it)).length;
      const one = `${name} must validate one and only one schema (oneOf).`;
      if (valid === 0) this.#combination(subject, `${one} Found none valid`, oneOf);
      if (valid > 1) this.#combination(subject, `${one} Found ${valid} valid alternatives`, []);
    }
    if (not !== undefined && !fails(not)) {
      this.#combination(subject, `${name} must not validate the schema (not)`, []);
    }
  }

  #allOf(subject: Subject, parts: readonly Schema[]): void {
    const wrong = parts.map((it) => this.#errorsOf(subject, it)).filter((it) => it.length > 0);
    if (wrong.length === 0) return;
    const how = wrong.length === parts.length ? ". None validated" : "";
    this.errors.push(...wrong.flat());
    this.#misplaced(
      `${JSON.stringify(this.#within(subject.path))} must validate all the schemas (allOf)${how}`,
    );
  }

  /** With the errors of the first of the alternatives that most checks apply to. */
  #combination(subject: Subject, why: string, alternatives: readonly Schema[]): void {
    this.#misplaced(why);
    const isValid = (value: unknown, schema: Schema): boolean =>
      this.#errorsOf({ ...subject, value }, schema).length === 0;
    const counts = alternatives.map((it) => countChecks(subject.value, deref(it, this.#resolve), isValid));
    const closest = alternatives[counts.indexOf(Math.max(...counts))];
    if (closest !== undefined) this.errors.push(...this.#errorsOf(subject, closest));
  }

  #errorsOf(subject: Subject, schema: Schema): FieldError[] {
    const other = new Validator(this.#resolve, this.#part);
    other.value({ ...subject, old: undefined }, schema);
    return other.errors;
  }
}

/** The type that the value should be of; undefined when it is. */
function mismatch(value: unknown, schema: Schema): string | undefined {
  if (value === null && schema.nullable === true) return undefined;
  if (schema["x-kubernetes-int-or-string"] === true) {
    return typeof value === "string" || isInteger(value) ? undefined : "integer,string";
  }
  const { type } = schema;
  return type === undefined || isOfType(value, type) || isTaken(value, schema) ? undefined : type;
}

/** Upstream takes any text and any list for a value that has a format, unless it is a number. */
function isTaken(value: unknown, { type, format }: Schema): boolean {
  if (format === undefined || type === "integer" || type === "number") return false;
  return (typeof value === "string" || Array.isArray(value)) && isKnownFormat(format, type);
}

function isOfType(value: unknown, type: NonNullable<Schema["type"]>): boolean {
  if (type === "object") return isObject(value);
  if (type === "array") return Array.isArray(value);
  if (type === "integer") return isInteger(value);
  return typeof value === type || (type === "number" && typeof value === "bigint");
}

function isNumeric(value: unknown): value is number | bigint {
  return typeof value === "number" || typeof value === "bigint";
}

/** Those that a number cannot hold are bigints. */
function isInteger(value: unknown): value is number | bigint {
  return typeof value === "bigint" || Number.isInteger(value);
}

/** Length in code points, as Go counts runes. */
function runes(text: string): number {
  let count = 0;
  for (const _ of text) count++;
  return count;
}

/** Allows for what binary fractions cannot say: 0.3 is a multiple of 0.1. */
function isMultiple(value: number, factor: number): boolean {
  const quotient = value / factor;
  return Math.abs(quotient - Math.round(quotient)) < 1e-9;
}

/** The kind of integer that a number should be but is not. */
function numberMisfit(value: unknown, { type, format }: Schema): string | undefined {
  if (!isNumeric(value) || type !== "integer") return undefined;
  if (format === "int32" && !(isInteger(value) && isInt32(value))) return "integer with format int32";
  return isInteger(value) ? undefined : "integer (default format)";
}

function isInt32(value: number | bigint): boolean {
  return value >= -(2 ** 31) && value < 2 ** 31;
}

function typeOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  if (isInteger(value)) return "integer";
  return typeof value;
}

function hasFormat(value: unknown): boolean {
  return value !== null && typeof value !== "string" && !Array.isArray(value);
}

/** What Go's validator takes for the format of a value without one. */
function formatOf(value: unknown): string {
  if (!isNumeric(value)) return "";
  return isInteger(value) ? "int64" : "float64";
}

function child(path: string, name: string): string {
  return path === "" ? name : `${path}.${name}`;
}

/** Items of keyed lists can be correlated between two versions of an object. */
function oldItems(old: unknown, schema: Schema): Map<string, unknown> | undefined {
  if (!Array.isArray(old) || schema["x-kubernetes-list-type"] !== "map") return undefined;
  return new Map(old.map((item: unknown) => [itemKey(item, schema), item]));
}

/** The key of an item of a keyed list, or the item itself, as text. */
function itemKey(item: unknown, schema: Schema): string {
  const keys = schema["x-kubernetes-list-map-keys"];
  if (schema["x-kubernetes-list-type"] !== "map" || keys === undefined || !isObject(item)) {
    return JSON.stringify(item) ?? "null";
  }
  return JSON.stringify(Object.fromEntries(keys.map((key) => [key, item[key]])));
}

function isCombined({ allOf, anyOf, oneOf, not }: Schema): boolean {
  return allOf !== undefined || anyOf !== undefined || oneOf !== undefined || not !== undefined;
}
