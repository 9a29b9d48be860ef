import { isObject } from "@fairlead/base/json.ts";
import { deref } from "#schema/definitions.ts";
import type { Schema, SchemaResolver } from "#schema/types.ts";
import { EMPTY, fieldElement, isEmpty, NodeBuilder, type FieldSet } from "./field-set.ts";
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
    return this.#fields(value, schema, false) ?? EMPTY;
  }

  /** @param isIn - Whether the value itself is in the set, and not only what is below it. */
  #fields(value: unknown, schema: Schema | undefined, isIn: boolean): FieldSet | undefined {
    if (schema === undefined) return LEAF;
    const shape = shapeOf(schema, value, this.#resolve);
    if (shape.kind === "leaf") return LEAF;
    const fields = new NodeBuilder(isIn);
    if (shape.kind === "map") this.#fieldsOfMap(fields, value, shape);
    else {
      for (const item of Array.isArray(value) ? (value as unknown[]) : []) {
        const below = shape.kind === "set" ? LEAF : this.#fields(item, shape.item, true);
        fields.set(elementOfItem(shape, item, this.#resolve), below);
      }
    }
    return fields.node;
  }

  #fieldsOfMap(fields: NodeBuilder, value: unknown, shape: MapShape): void {
    if (!isObject(value)) return;
    for (const name of Object.keys(value)) {
      const item = value[name];
      const isIn = item === null || !isNamed(shape, name);
      const below = this.#fields(item, fieldSchema(shape, name), isIn);
      const isNothing = below === undefined && isObject(item) && isEmpty(item as FieldSet);
      fields.set(fieldElement(name), isNothing ? LEAF : below);
    }
  }

  /** Makes members of the struct fields along every path, so that a field goes as a whole when all below it goes. */
  withNamedFields(set: FieldSet, schema: Schema | undefined, isIn = false): FieldSet {
    // Where the value would decide on the shape, the schema names no fields.
    const shape = schema === undefined ? undefined : shapeOf(schema, undefined, this.#resolve);
    const children: Record<string, FieldSet> = isIn ? { [SELF]: LEAF } : {};
    for (const element of Object.keys(set)) {
      const child = set[element] ?? LEAF;
      if (element === SELF || isEmpty(child)) children[element] = child;
      else {
        const isNamedField = shape?.kind === "map" && isNamed(shape, element.slice(2));
        children[element] = this.withNamedFields(child, childSchema(shape, element), isNamedField);
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
    for (const name of Object.keys(value)) {
      const item = value[name];
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
    for (const element of Object.keys(set)) {
      const child = set[element] ?? LEAF;
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
