import { invalid, notAllowed, notSupported, required } from "#values/field-errors.ts";
import type { FieldError } from "#status.ts";
import type { Schema } from "#schema/types.ts";

/** The requirements of `x-kubernetes-list-type` on a node and its items (KEP-2305). Source: as structural.ts. */
export function checkListType(schema: Schema, field: string): FieldError[] {
  const listType = schema["x-kubernetes-list-type"];
  const keys = schema["x-kubernetes-list-map-keys"] ?? [];
  return [
    ...(listType === undefined ? [] : checkKnownType(schema, listType, field)),
    ...(keys.length === 0 || listType === "map" ? [] : [keysWithoutMap(listType, field)]),
    ...(listType === "map" ? checkMap(schema, keys, field) : []),
  ];
}

type ListType = NonNullable<Schema["x-kubernetes-list-type"]>;

function checkKnownType({ type, items }: Schema, listType: ListType, field: string): FieldError[] {
  const errors: FieldError[] = [];
  if (type !== "array") {
    const why = "must be array if x-kubernetes-list-type is specified";
    errors.push(type === undefined ? required(`${field}.type`, why) : invalid(`${field}.type`, type, why));
  } else if (listType === "set" && items !== undefined) errors.push(...checkSetItems(items, field));
  if (!LIST_TYPES.includes(listType))
    errors.push(notSupported(`${field}.x-kubernetes-list-type`, listType, LIST_TYPES));
  if (listType !== "atomic" && items?.nullable === true)
    errors.push(
      notAllowed(`${field}.items.nullable`, `cannot be nullable when x-kubernetes-list-type is ${listType}`),
    );
  return errors;
}

function keysWithoutMap(listType: ListType | undefined, field: string): FieldError {
  const why = "must be map if x-kubernetes-list-map-keys is non-empty";
  const at = `${field}.x-kubernetes-list-type`;
  return listType === undefined ? required(at, why) : invalid(at, listType, why);
}

const LIST_TYPES = ["atomic", "set", "map"];

/** Items of sets are compared as wholes. */
function checkSetItems(items: Schema, field: string): FieldError[] {
  const why = "must be atomic as item of a list with x-kubernetes-list-type=set";
  const listType = items["x-kubernetes-list-type"];
  if (items.type === "array" && (listType ?? "atomic") !== "atomic")
    return [invalid(`${field}.items.x-kubernetes-list-type`, listType, why)];
  if (items.type === "object" && items["x-kubernetes-map-type"] !== "atomic")
    return [invalid(`${field}.items.x-kubernetes-map-type`, listType, why)];
  return [];
}

function checkMap({ items }: Schema, keys: readonly string[], field: string): FieldError[] {
  const keysField = `${field}.x-kubernetes-list-map-keys`;
  const errors =
    keys.length === 0 ? [required(keysField, "must not be empty if x-kubernetes-list-type is map")] : [];
  if (items === undefined)
    return [...errors, required(`${field}.items`, "must have a schema if x-kubernetes-list-type is map")];
  if (items.type !== "object") {
    const why = "must be object if parent array's x-kubernetes-list-type is map";
    return [...errors, invalid(`${field}.items.type`, items.type ?? "", why)];
  }
  for (const [at, key] of keys.entries()) {
    if (keys.indexOf(key) < at) errors.push(invalid(keysField, keys, "must not contain duplicate entries"));
    const of = items.properties?.[key];
    if (of === undefined)
      errors.push(invalid(keysField, keys, "entries must all be names of item properties"));
    else
      errors.push(
        ...checkKey(of, items.required?.includes(key) ?? false, `${field}.items.properties[${key}]`),
      );
  }
  return errors;
}

function checkKey(key: Schema, isRequired: boolean, field: string): FieldError[] {
  const errors: FieldError[] = [];
  const named = "this property is in x-kubernetes-list-map-keys, so it";
  if (key.type === "array" || key.type === "object") {
    const why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
    // Upstream shows the type of the items.
    errors.push(invalid(`${field}.type`, "object", why));
  }
  if (!isRequired && key.default === undefined)
    errors.push(required(`${field}.default`, `${named} must have a default or be a required property`));
  if (key.nullable === true) errors.push(notAllowed(`${field}.nullable`, `${named} cannot be nullable`));
  return errors;
}
