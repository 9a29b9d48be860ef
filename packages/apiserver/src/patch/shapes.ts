import { isObject } from "@fairlead/base/json.ts";
import { deref, REF_PREFIX, withObjectFields } from "#schema/definitions.ts";
import type { Schema, SchemaResolver } from "#schema/types.ts";
import { keyElement, valueElement } from "./field-set.ts";

/**
 * How server-side apply sees a value: as one leaf (scalars and whatever is atomic), as a list whose items are known by
 * value or by key, or as a map of fields. Source: structured-merge-diff, schema; kube-openapi, schemaconv.
 */
export type Shape = { readonly kind: "leaf" } | SetShape | ListShape | MapShape;

export interface SetShape {
  readonly kind: "set";
  readonly item: Schema;
}

export interface ListShape {
  readonly kind: "list";
  readonly keys: readonly string[];
  readonly item: Schema;
}

export interface MapShape {
  readonly kind: "map";
  /** The definition that the map is of, for built-in kinds. */
  readonly ref: string | undefined;
  readonly fields: Readonly<Record<string, Schema>>;
  /** The schema of fields that have no name of their own; undefined where there may be none. */
  readonly element: Schema | undefined;
}

/** Any object, parts of which are never owned: a ControllerRevision's `data`. */
export const RAW_EXTENSION = `${REF_PREFIX}io.k8s.apimachinery.pkg.runtime.RawExtension`;

const LEAF: Shape = { kind: "leaf" };
/** The shape without a schema: maps are granular at all levels, lists atomic. */
const DEDUCED: Schema = { "x-kubernetes-preserve-unknown-fields": true };
const NO_FIELDS: Readonly<Record<string, Schema>> = {};

/** The shape that a schema gives to a value. Only where the schema leaves the type open does the value decide. */
export function shapeOf(schema: Schema, value: unknown, resolve: SchemaResolver): Shape {
  const target = deref(schema, resolve);
  if (isMapType(target)) return mapShape(schema, target);
  if (target.type === "array") return listShape(target);
  if (target.type !== undefined || target["x-kubernetes-preserve-unknown-fields"] !== true) return LEAF;
  // A null may stand for a map that says nothing of what is in it.
  return isObject(value) || value === null
    ? { kind: "map", ref: undefined, fields: NO_FIELDS, element: DEDUCED }
    : LEAF;
}

function isMapType(schema: Schema): boolean {
  if (schema["x-kubernetes-int-or-string"] === true) return false;
  return schema.type === "object" || schema.properties !== undefined;
}

function mapShape(schema: Schema, target: Schema): Shape {
  const relation = schema["x-kubernetes-map-type"] ?? target["x-kubernetes-map-type"];
  return relation === "atomic" || schema.$ref === RAW_EXTENSION ? LEAF : fieldsOf(schema, target);
}

function fieldsOf(schema: Schema, target: Schema): MapShape {
  const fields =
    target["x-kubernetes-embedded-resource"] === true
      ? withObjectFields(target).properties
      : target.properties;
  return { kind: "map", ref: schema.$ref, fields: fields ?? NO_FIELDS, element: elementOf(target) };
}

/** What is in a value that has one owner: it has to be of its schema all the same. Undefined for scalars. */
export function insideOf(
  schema: Schema,
  resolve: SchemaResolver,
): MapShape | { readonly kind: "items"; readonly item: Schema } | undefined {
  const target = deref(schema, resolve);
  if (schema.$ref === RAW_EXTENSION) return undefined;
  if (isMapType(target)) return fieldsOf(schema, target);
  return target.type === "array" && target.items !== undefined
    ? { kind: "items", item: target.items }
    : undefined;
}

function elementOf(schema: Schema): Schema | undefined {
  const { additionalProperties: additional } = schema;
  if (typeof additional === "object") return additional;
  if (additional === true || schema["x-kubernetes-preserve-unknown-fields"] === true) return DEDUCED;
  // An object without properties in its schema is of free form.
  return additional === undefined && schema.properties === undefined ? DEDUCED : undefined;
}

function listShape(schema: Schema): Shape {
  const type = schema["x-kubernetes-list-type"];
  const { items: item = DEDUCED } = schema;
  if (type === "set") return { kind: "set", item };
  return type === "map" ? { kind: "list", keys: schema["x-kubernetes-list-map-keys"] ?? [], item } : LEAF;
}

/** The schema of a field, or undefined for one that may not be there. */
export function fieldSchema(shape: MapShape, name: string): Schema | undefined {
  return isNamed(shape, name) ? shape.fields[name] : shape.element;
}

/** Whether the schema itself names the field: then the map around it is a struct, not a dictionary. */
export function isNamed(shape: MapShape, name: string): boolean {
  return Object.hasOwn(shape.fields, name);
}

/** The path element by which an item is known, or what is wrong with the item. */
export function itemElement(
  shape: SetShape | ListShape,
  item: unknown,
  resolve: SchemaResolver,
): { readonly element: string; readonly problem?: undefined } | { readonly problem: string } {
  if (shape.kind === "set") {
    const problem = notInSet(item);
    return problem === undefined ? { element: valueElement(item) } : { problem };
  }
  if (item === null) return { problem: "associative list with keys may not have a null element" };
  if (!isObject(item)) return { problem: "associative list with keys may not have non-map elements" };
  const fields = deref(shape.item, resolve).properties;
  const key: Record<string, unknown> = {};
  // A key that is absent and has no default is not part of the item's name.
  for (const name of shape.keys) {
    const value = item[name] ?? fields?.[name]?.default ?? impliedKey(shape.item, name, resolve);
    if (value !== undefined) key[name] = value;
  }
  if (Object.keys(key).length === 0) {
    const keys = shape.keys.map((it) => JSON.stringify(it)).join(" ");
    return {
      problem: `associative list with keys has an element that omits all key fields [${keys}] (and doesn't have default values for any key fields)`,
    };
  }
  return { element: keyElement(key) };
}

function notInSet(item: unknown): string | undefined {
  if (typeof item !== "object") return undefined;
  if (Array.isArray(item)) return "not supported: associative list with lists as elements";
  return `associative list without keys has an element that's ${item === null ? "an explicit null" : "a map type"}`;
}

/** Go's zero value of a required key in items of built-in kinds: it identifies the item, which validation then rejects. */
function impliedKey(item: Schema, name: string, resolve: SchemaResolver): unknown {
  const { required = [], properties } = deref(item, resolve);
  if (item.$ref === undefined || !required.includes(name)) return undefined;
  const type = properties?.[name]?.type;
  if (type === "string") return "";
  return type === "integer" ? 0 : undefined;
}

/** As `itemElement`, for lists that were checked before or that the store holds: an item without key is known by its text. */
export function elementOfItem(shape: SetShape | ListShape, item: unknown, resolve: SchemaResolver): string {
  const found = itemElement(shape, item, resolve);
  return found.problem === undefined ? found.element : valueElement(item);
}
