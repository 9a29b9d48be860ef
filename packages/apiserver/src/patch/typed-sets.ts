import { isObject } from "@fairlead/base/json.ts";
import { deref } from "#schema/definitions.ts";
import type { Schema, SchemaResolver } from "#schema/types.ts";
import { EMPTY, fieldElement, isEmpty, makeNode, type FieldSet } from "./field-set.ts";
import {
  elementOfItem,
  fieldSchema,
  isNamed,
  shapeOf,
  type ListShape,
  type MapShape,
  type SetShape,
  type Shape,
} from "./shapes.ts";

const LEAF: FieldSet = {};
const SELF = ".";

/**
 * What server-side apply knows of an object's fields, beyond comparing and merging. Every method takes values and sets
 * that belong to `schema`. Source: structured-merge-diff, typed.
 */
export class TypedSets {
  readonly #resolve: SchemaResolver;

  constructor(resolve: SchemaResolver) {
    this.#resolve = resolve;
  }

  /** All leaves of a value, the items of its keyed lists, and the keys of its dictionaries. */
  fieldSet(value: unknown, schema: Schema): FieldSet {
    return this.#fields(value, schema) ?? EMPTY;
  }

  #fields(value: unknown, schema: Schema | undefined): FieldSet | undefined {
    if (schema === undefined) return LEAF;
    const shape = shapeOf(schema, value, this.#resolve);
    if (shape.kind === "leaf") return LEAF;
    const children: Record<string, FieldSet> = {};
    if (shape.kind === "map") this.#fieldsOfMap(children, value, shape);
    else {
      for (const item of Array.isArray(value) ? (value as unknown[]) : []) {
        const below = shape.kind === "set" ? undefined : this.#fields(item, shape.item);
        children[elementOfItem(shape, item, this.#resolve)] = makeNode(true, withoutSelf(below)) ?? LEAF;
      }
    }
    return makeNode(false, children);
  }

  #fieldsOfMap(children: Record<string, FieldSet>, value: unknown, shape: MapShape): void {
    if (!isObject(value)) return;
    for (const [name, item] of Object.entries(value)) {
      const below = this.#fields(item, fieldSchema(shape, name));
      const isOwn = item === null || (isObject(item) && isEmpty(item as FieldSet)) || !isNamed(shape, name);
      const isIn = isOwn || (below !== undefined && (SELF in below || isEmpty(below)));
      const node = makeNode(isIn, withoutSelf(below));
      if (node !== undefined) children[fieldElement(name)] = node;
    }
  }

  /** Makes members of the struct fields along every path, so that a field goes as a whole when all below it goes. */
  withNamedFields(set: FieldSet, schema: Schema | undefined): FieldSet {
    // Where the value would decide on the shape, the schema names no fields.
    const shape = schema === undefined ? undefined : shapeOf(schema, undefined, this.#resolve);
    const children: Record<string, FieldSet> = {};
    for (const [element, child] of Object.entries(set)) {
      if (element === SELF || isEmpty(child)) children[element] = child;
      else {
        const inner = this.withNamedFields(child, childSchema(shape, element));
        const isNamedField = shape?.kind === "map" && isNamed(shape, element.slice(2));
        children[element] = isNamedField ? { [SELF]: LEAF, ...inner } : inner;
      }
    }
    return children;
  }

  /** The value without the paths of `set`; a map or list of which nothing is left is null, as upstream leaves it. */
  remove(value: unknown, set: FieldSet, schema: Schema | undefined): unknown {
    if (schema === undefined || isEmpty(set)) return value;
    const shape = shapeOf(schema, value, this.#resolve);
    if (shape.kind === "map" && isObject(value)) return this.#removeFields(value, set, shape);
    const isList = shape.kind === "list" || shape.kind === "set";
    if (isList && Array.isArray(value)) return this.#removeItems(value, set, shape);
    return value;
  }

  #removeFields(value: Record<string, unknown>, set: FieldSet, shape: MapShape): unknown {
    const rest: Record<string, unknown> = {};
    for (const [name, item] of Object.entries(value)) {
      const node = set[fieldElement(name)];
      if (node === undefined) rest[name] = item;
      else if (!isEmpty(node) && !(SELF in node)) {
        rest[name] = this.remove(item, node, fieldSchema(shape, name));
      }
    }
    return Object.keys(rest).length > 0 ? rest : null;
  }

  #removeItems(value: readonly unknown[], set: FieldSet, shape: SetShape | ListShape): unknown {
    const rest: unknown[] = [];
    for (const item of value) {
      const node = set[elementOfItem(shape, item, this.#resolve)];
      if (node === undefined) rest.push(item);
      else if (!isEmpty(node) && !(SELF in node)) {
        rest.push(shape.kind === "list" ? this.remove(item, node, shape.item) : item);
      }
    }
    return rest.length > 0 ? rest : null;
  }

  /**
   * A set that was written under an older schema, converted to the present one: an owner of a part of what is atomic now
   * owns the whole. What was atomic and is granular now counts as if it always had been.
   */
  reconcile(set: FieldSet, schema: Schema): FieldSet {
    const shape = shapeOf(schema, undefined, this.#resolve);
    if (shape.kind === "leaf") return set;
    let changed: Record<string, FieldSet> | undefined;
    for (const [element, child] of Object.entries(set)) {
      const below = element === SELF || isEmpty(child) ? undefined : childSchema(shape, element);
      const now = below === undefined ? child : this.#reconcileChild(child, below);
      if (now === child) continue;
      changed ??= { ...set };
      changed[element] = now;
    }
    return changed ?? set;
  }

  #reconcileChild(child: FieldSet, schema: Schema): FieldSet {
    const target = deref(schema, this.#resolve);
    // Where the value decides on the type, there is no old and no new schema.
    if (target.type === undefined && target.properties === undefined) return child;
    return shapeOf(schema, undefined, this.#resolve).kind === "leaf" ? LEAF : this.reconcile(child, schema);
  }
}

function childSchema(shape: Shape | undefined, element: string): Schema | undefined {
  if (shape?.kind === "map") return fieldSchema(shape, element.slice(2));
  return shape?.kind === "list" ? shape.item : undefined;
}

function withoutSelf(set: FieldSet | undefined): Record<string, FieldSet> | undefined {
  if (set === undefined || !(SELF in set)) return set;
  const { [SELF]: _, ...rest } = set;
  return rest;
}
