import { isObject } from "@fairlead/base/json.ts";
import { deref } from "#schema/definitions.ts";
import type { Schema, SchemaResolver } from "#schema/types.ts";
import { fieldElement, renderPath } from "./field-set.ts";
import {
  fieldSchema,
  insideOf,
  itemElement,
  type ListShape,
  type MapShape,
  type SetShape,
  shapeOf,
} from "./shapes.ts";

/**
 * Why a configuration cannot be applied: fields that the schema does not have, values of another type, items with equal
 * keys. Each error has its path. Source: structured-merge-diff, typed/validate.go.
 */
export function checkTyped(value: unknown, schema: Schema, resolve: SchemaResolver): string[] {
  const checker = new Checker(resolve);
  checker.values(value, schema, []);
  return checker.problems;
}

class Checker {
  readonly problems: string[] = [];
  readonly #resolve: SchemaResolver;

  constructor(resolve: SchemaResolver) {
    this.#resolve = resolve;
  }

  values(value: unknown, schema: Schema, path: readonly string[]): void {
    if (value === null) return;
    const target = deref(schema, this.#resolve);
    const expected = expectation(target, value);
    if (expected !== undefined) {
      this.#report(path, `expected ${expected}, got ${typeName(value)}`);
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
    list.forEach((item, index) => {
      const found = itemElement(shape, item, this.#resolve);
      if (found.problem !== undefined)
        this.#report([...path, `i:${index}`], `element ${index}: ${found.problem}`);
      else {
        const at = [...path, found.element];
        if (seen.has(found.element)) {
          this.#report(path, `duplicate entries for key ${renderPath([found.element])}`);
        }
        seen.add(found.element);
        if (shape.kind === "list") this.values(item, shape.item, at);
      }
    });
  }

  #report(path: readonly string[], problem: string): void {
    this.problems.push(`${renderPath(path)}: ${problem}`);
  }
}

function isNumeric(value: unknown): boolean {
  return typeof value === "number" || typeof value === "bigint";
}

/** By type: what messages call it, and whether a value is of it. */
const TYPES: Readonly<Record<NonNullable<Schema["type"]>, readonly [string, (value: unknown) => boolean]>> = {
  object: ["map", isObject],
  array: ["list", Array.isArray],
  string: ["string", (value) => typeof value === "string"],
  boolean: ["boolean", (value) => typeof value === "boolean"],
  integer: ["numeric (int or float)", isNumeric],
  number: ["numeric (int or float)", isNumeric],
};

/** The type that the schema requires, if the value has another; undefined otherwise. */
function expectation(schema: Schema, value: unknown): string | undefined {
  if (schema.type === undefined) return undefined;
  const [name, isOfType] = TYPES[schema.type];
  return isOfType(value) ? undefined : name;
}

function typeName(value: unknown): string {
  if (Array.isArray(value)) return "list";
  return isObject(value) ? "map" : typeof value;
}
