import { isObject } from "@fairlead/base/json.ts";
import { deref } from "#schema/definitions.ts";
import type { Schema, SchemaResolver } from "#schema/types.ts";
import { fieldElement, renderPath } from "./field-set.ts";
import { goSyntax, goText } from "./go-text.ts";
import {
  fieldSchema,
  insideOf,
  itemElement,
  type ListShape,
  RAW_EXTENSION,
  type MapShape,
  type SetShape,
  shapeOf,
} from "./shapes.ts";

export interface TypedCheckOptions {
  /** Whether items may have equal keys, as those of stored objects may. Default: false. */
  readonly allowsDuplicates?: boolean;
}

/**
 * Why a configuration cannot be applied: fields that the schema does not have, values of another type, items with equal
 * keys. Each error has its path. Source: structured-merge-diff, typed/validate.go.
 */
export function checkTyped(
  value: unknown,
  schema: Schema,
  resolve: SchemaResolver,
  { allowsDuplicates = false }: TypedCheckOptions = {},
): string[] {
  const checker = new Checker(resolve, allowsDuplicates);
  checker.values(value, schema, []);
  return checker.problems;
}

/** Problems as one text, as a list of errors is printed by structured-merge-diff. */
export function problemText(problems: readonly string[]): string {
  const [only = ""] = problems;
  return problems.length === 1 ? only : `errors:\n  ${problems.join("\n  ")}`;
}

class Checker {
  readonly problems: string[] = [];
  readonly #resolve: SchemaResolver;
  readonly #allowsDuplicates: boolean;

  constructor(resolve: SchemaResolver, allowsDuplicates: boolean) {
    this.#resolve = resolve;
    this.#allowsDuplicates = allowsDuplicates;
  }

  values(value: unknown, schema: Schema, path: readonly string[]): void {
    if (value === null || schema.$ref === RAW_EXTENSION) return;
    const target = deref(schema, this.#resolve);
    const problem = mismatch(target, value);
    if (problem !== undefined) {
      this.#report(path, problem);
      return;
    }
    const shape = shapeOf(schema, value, this.#resolve);
    if (shape.kind === "leaf") this.#inside(value, schema, path);
    else if (shape.kind === "map" && isObject(value)) this.#map(value, shape, path);
    else if ((shape.kind === "list" || shape.kind === "set") && Array.isArray(value)) {
      this.#list(value, shape, path);
    }
  }

  /** Atomic lists and structs. */
  #inside(value: unknown, schema: Schema, path: readonly string[]): void {
    const inside = insideOf(schema, this.#resolve);
    if (inside?.kind === "map" && isObject(value)) this.#map(value, inside, path);
    else if (inside?.kind === "items" && Array.isArray(value)) {
      value.forEach((it, index) => this.values(it, inside.item, [...path, `i:${index}`]));
    }
  }

  #map(value: Readonly<Record<string, unknown>>, shape: MapShape, path: readonly string[]): void {
    for (const name of Object.keys(value)) {
      const item = value[name];
      const below = fieldSchema(shape, name);
      const at = [...path, fieldElement(name)];
      if (below === undefined) this.#report(at, "field not declared in schema");
      else this.values(item, below, at);
    }
  }

  #list(list: readonly unknown[], shape: SetShape | ListShape, path: readonly string[]): void {
    const seen = new Set<string>();
    for (const [index, item] of list.entries()) {
      const found = itemElement(shape, item, this.#resolve);
      if (found.problem !== undefined) {
        // As upstream, which reports nothing of the items that follow.
        this.#report(path, `element ${index}: ${found.problem}`);
        return;
      }
      if (seen.has(found.element) && !this.#allowsDuplicates) {
        this.#report(path, `duplicate entries for key ${renderPath([found.element])}`);
      }
      seen.add(found.element);
      this.values(item, shape.item, [...path, found.element]);
    }
  }

  #report(path: readonly string[], problem: string): void {
    this.problems.push(`${renderPath(path)}: ${problem}`);
  }
}

const isNumeric = (value: unknown): boolean => typeof value === "number" || typeof value === "bigint";
const isScalar = (value: unknown): boolean => typeof value !== "object";
/** As Go prints a pointer to a value. */
const pointed = (value: unknown): string => `&{${goText(value)}}`;

interface Expected {
  readonly name: string;
  readonly has: (value: unknown) => boolean;
  /** What messages call a value that is not of the type. */
  readonly got: (value: unknown) => string;
}

const NUMERIC: Expected = { name: "numeric (int or float)", has: isNumeric, got: goType };
const ANY_SCALAR: Expected = { name: "any scalar", has: isScalar, got: pointed };
const TYPES: Readonly<Record<NonNullable<Schema["type"]>, Expected>> = {
  object: { name: "map", has: isObject, got: pointed },
  array: { name: "list", has: Array.isArray, got: pointed },
  string: {
    name: "string",
    has: (value) => typeof value === "string",
    got: (value) => `&value.valueUnstructured{Value:${goSyntax(value)}}`,
  },
  boolean: { name: "boolean", has: (value) => typeof value === "boolean", got: pointed },
  integer: NUMERIC,
  number: NUMERIC,
};

/** Formats of strings that are nothing but strings; what has another one, such as a time, may be any scalar. */
const TEXT_FORMATS = new Set(["", "byte"]);

/** Why a value is not of the type that the schema requires, in Go's terms. Source: structured-merge-diff, typed/validate.go. */
function mismatch(schema: Schema, value: unknown): string | undefined {
  const expected = expectedOf(schema);
  if (expected === undefined || expected.has(value)) return undefined;
  return `expected ${expected.name}, got ${expected.got(value)}`;
}

/** Of custom kinds, what is an integer or a string has no type here; validation says more. */
function expectedOf({ type, format = "", oneOf }: Schema): Expected | undefined {
  const isUntyped = format === "int-or-string" || oneOf?.every(isOfScalar) === true;
  if (isUntyped || (type === "string" && !TEXT_FORMATS.has(format))) return ANY_SCALAR;
  return type === undefined ? undefined : TYPES[type];
}

/** Quantities are texts or numbers. */
function isOfScalar({ type }: Schema): boolean {
  return type === "string" || type === "number" || type === "integer";
}

/** The name of a value's type, as Go prints it. */
function goType(value: unknown): string {
  if (Array.isArray(value)) return "[]interface {}";
  if (isObject(value)) return "map[string]interface {}";
  return typeof value === "boolean" ? "bool" : typeof value;
}
