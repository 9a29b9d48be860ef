import { isObject } from "#base/json.ts";
import { invalid, notAllowed, notSupported, required } from "../builtin/field-errors.ts";
import type { FieldError } from "../status.ts";
import { checkRules } from "../cel/rules/check.ts";
import { pruneValue } from "./prune.ts";
import { patternProblem } from "./patterns.ts";
import { checkCombinations } from "./structural-combinations.ts";
import type { Schema } from "./types.ts";
import { validateValue } from "./validate.ts";

/**
 * What keeps a CustomResourceDefinition's schema from being structural: every field has a type, and nothing stands in it
 * by which objects could not be pruned, defaulted and merged.
 * Source: apiextensions-apiserver, pkg/apis/apiextensions/validation and pkg/apiserver/schema/validation.go (KEP-1111).
 *
 * @param field - Where the schema stands: "spec.versions[0].schema.openAPIV3Schema".
 */
export function checkStructural(schema: Schema, field: string): FieldError[] {
  const errors: FieldError[] = [];
  if (schema.type === undefined) errors.push(required(`${field}.type`, "must not be empty at the root"));
  else if (schema.type !== "object")
    errors.push(invalid(`${field}.type`, schema.type, "must be object at the root"));
  if (schema.default !== undefined)
    errors.push(notAllowed(`${field}.default`, "must not be set at the root"));
  errors.push(...checkMetadata(schema, field), ...checkNode(schema, { field, isRoot: true, depth: 0 }));
  // Rules are compiled against the types that the schema gives.
  return errors.length > 0 ? errors : checkRules(schema, field);
}

interface At {
  readonly field: string;
  readonly isRoot: boolean;
  readonly depth: number;
}

const MAX_DEPTH = 200;
const TYPES = ["array", "boolean", "integer", "number", "object", "string"];
/** Keywords of JSON schema that would let one object depend on others, or its cost grow faster than its size. */
const FORBIDDEN = [
  "$ref",
  "definitions",
  "dependencies",
  "deprecated",
  "discriminator",
  "id",
  "patternProperties",
  "readOnly",
  "writeOnly",
  "xml",
];

function checkNode(schema: Schema, at: At): FieldError[] {
  const { field } = at;
  if (!isObject(schema)) return [invalid(field, schema, "must be a schema object")];
  if (at.depth > MAX_DEPTH) return [notAllowed(field, `must not nest deeper than ${MAX_DEPTH}`)];
  return [
    ...FORBIDDEN.filter((keyword) => hasKeyword(schema, keyword)).map((keyword) =>
      notAllowed(`${field}.${keyword}`, `${keyword} is not supported`),
    ),
    ...checkType(schema, at),
    ...checkMarkers(schema, field),
    ...checkContainers(schema, field),
    ...checkListType(schema, field),
    ...checkValues(schema, field),
    ...checkCombinations(schema, field),
    ...checkChildren(schema, at),
  ];
}

function hasKeyword(schema: Schema, keyword: string): boolean {
  return (schema as Record<string, unknown>)[keyword] !== undefined;
}

function checkType(schema: Schema, { field, isRoot }: At): FieldError[] {
  const isIntOrString = schema["x-kubernetes-int-or-string"] === true;
  if (schema.type === undefined) {
    const isOpen = isIntOrString || schema["x-kubernetes-preserve-unknown-fields"] === true;
    if (isRoot || isOpen) return [];
    const what = field.endsWith(".items") ? "array items" : "object fields";
    return [required(`${field}.type`, `must not be empty for specified ${what}`)];
  }
  if (!TYPES.includes(schema.type)) return [notSupported(`${field}.type`, schema.type, TYPES)];
  if (!isIntOrString) return [];
  return [notAllowed(`${field}.type`, "must be empty if x-kubernetes-int-or-string is true")];
}

function checkMarkers(schema: Schema, field: string): FieldError[] {
  const errors: FieldError[] = [];
  if (schema["x-kubernetes-preserve-unknown-fields"] === false) {
    errors.push(invalid(`${field}.x-kubernetes-preserve-unknown-fields`, false, "must be true or undefined"));
  }
  if (schema["x-kubernetes-embedded-resource"] === true) {
    if (schema.type !== "object") {
      errors.push(
        invalid(
          `${field}.type`,
          schema.type ?? "",
          "must be object if x-kubernetes-embedded-resource is true",
        ),
      );
    }
    if (schema.properties === undefined && schema["x-kubernetes-preserve-unknown-fields"] !== true) {
      errors.push(
        required(
          `${field}.properties`,
          "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        ),
      );
    }
  }
  if (schema["x-kubernetes-map-type"] !== undefined) {
    if (schema.type !== "object")
      errors.push(
        invalid(`${field}.type`, schema.type ?? "", "must be object if x-kubernetes-map-type is specified"),
      );
    if (!["granular", "atomic"].includes(schema["x-kubernetes-map-type"])) {
      errors.push(
        notSupported(`${field}.x-kubernetes-map-type`, schema["x-kubernetes-map-type"], [
          "atomic",
          "granular",
        ]),
      );
    }
  }
  return errors;
}

function checkContainers(schema: Schema, field: string): FieldError[] {
  const errors: FieldError[] = [];
  if (schema.uniqueItems === true) {
    errors.push(
      notAllowed(
        `${field}.uniqueItems`,
        "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
      ),
    );
  }
  if (schema.additionalProperties === false) {
    errors.push(notAllowed(`${field}.additionalProperties`, "additionalProperties cannot be set to false"));
  }
  if (schema.additionalProperties !== undefined && schema.properties !== undefined) {
    errors.push(
      notAllowed(`${field}.additionalProperties`, "additionalProperties and properties are mutual exclusive"),
    );
  }
  if (Array.isArray(schema.items)) {
    errors.push(notAllowed(`${field}.items`, "items must be a schema object and not an array"));
  } else if (schema.type === "array" && schema.items === undefined) {
    errors.push(required(`${field}.items`, "must be specified"));
  }
  return errors;
}

const SCALARS = new Set(["boolean", "integer", "number", "string"]);

function checkListType(schema: Schema, field: string): FieldError[] {
  const listType = schema["x-kubernetes-list-type"];
  const keys = schema["x-kubernetes-list-map-keys"];
  const keysField = `${field}.x-kubernetes-list-map-keys`;
  if (listType !== "map" && keys !== undefined) {
    return [notAllowed(keysField, "must not be set unless x-kubernetes-list-type is map")];
  }
  if (listType === undefined) return [];
  if (!["atomic", "set", "map"].includes(listType)) {
    return [notSupported(`${field}.x-kubernetes-list-type`, listType, ["atomic", "map", "set"])];
  }
  if (schema.type !== "array") {
    return [
      invalid(`${field}.type`, schema.type ?? "", "must be array if x-kubernetes-list-type is specified"),
    ];
  }
  if (listType === "set") return checkSet(schema, field);
  if (listType === "atomic") return [];
  if (keys === undefined || keys.length === 0) {
    return [required(keysField, "must not be empty if x-kubernetes-list-type is map")];
  }
  return schema.items === undefined ? [] : checkKeys(schema.items, keys, field);
}

function checkSet({ items }: Schema, field: string): FieldError[] {
  if (items === undefined || isSetItem(items)) return [];
  return [
    notAllowed(`${field}.items`, "must be a scalar, an atomic map or an atomic list as an item of a set"),
  ];
}

function isSetItem(items: Schema): boolean {
  if (items["x-kubernetes-int-or-string"] === true || SCALARS.has(items.type ?? "")) return true;
  if (items.type === "array") return (items["x-kubernetes-list-type"] ?? "atomic") === "atomic";
  return items["x-kubernetes-map-type"] === "atomic";
}

function checkKeys(items: Schema, keys: readonly string[], field: string): FieldError[] {
  const errors: FieldError[] = [];
  if (items.type !== "object") {
    errors.push(
      invalid(
        `${field}.items.type`,
        items.type ?? "",
        "must be object if parent array's x-kubernetes-list-type is map",
      ),
    );
  }
  for (const key of keys) {
    const schema = items.properties?.[key];
    const keyField = `${field}.items.properties[${key}]`;
    if (schema === undefined) {
      errors.push(
        invalid(`${field}.x-kubernetes-list-map-keys`, key, "entries must all be names of item properties"),
      );
    } else if (!SCALARS.has(schema.type ?? "")) {
      errors.push(
        invalid(
          `${keyField}.type`,
          schema.type ?? "",
          "must be a scalar type if parent array's x-kubernetes-list-type is map",
        ),
      );
    } else if (schema.default === undefined && items.required?.includes(key) !== true) {
      errors.push(
        required(
          `${keyField}.default`,
          "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
        ),
      );
    }
  }
  return errors;
}

function checkValues(schema: Schema, field: string): FieldError[] {
  const errors: FieldError[] = [];
  const problem = schema.pattern === undefined ? undefined : patternProblem(schema.pattern);
  if (problem !== undefined) {
    errors.push(
      invalid(
        `${field}.pattern`,
        schema.pattern,
        `must be a valid regular expression, but isn't: ${problem}`,
      ),
    );
  }
  if (schema.default === undefined) return errors;
  const at = `${field}.default`;
  const { unknown } = pruneValue(schema.default, schema, () => undefined);
  for (const path of unknown)
    errors.push(invalid(at, schema.default, `must not have unknown fields: ${path}`));
  return [...errors, ...validateValue({ value: schema.default, schema, path: at, resolve: () => undefined })];
}

function checkChildren(schema: Schema, at: At): FieldError[] {
  const child = (below: Schema, suffix: string): FieldError[] =>
    checkNode(below, { field: `${at.field}.${suffix}`, isRoot: false, depth: at.depth + 1 });
  const { properties = {}, items, additionalProperties } = schema;
  return [
    ...Object.entries(properties).flatMap(([name, below]) =>
      // Metadata has rules of its own.
      at.isRoot && name === "metadata" ? [] : child(below, `properties[${name}]`),
    ),
    ...(items === undefined || Array.isArray(items) ? [] : child(items, "items")),
    ...(isObject(additionalProperties) ? child(additionalProperties, "additionalProperties") : []),
  ];
}

function checkMetadata(schema: Schema, field: string): FieldError[] {
  const metadata = schema.properties?.["metadata"];
  if (metadata === undefined) return [];
  const at = `${field}.properties[metadata]`;
  const only =
    "must not specify anything other than name and generateName, but metadata is implicitly specified";
  const others = Object.keys(metadata).filter((it) => !["type", "description", "properties"].includes(it));
  const names = Object.keys(metadata.properties ?? {}).filter((it) => it !== "name" && it !== "generateName");
  const isObjectType = metadata.type === undefined || metadata.type === "object";
  const isFree = others.length === 0 && names.length === 0;
  return [
    ...(isFree ? [] : [notAllowed(at, only)]),
    ...(isObjectType ? [] : [invalid(`${at}.type`, metadata.type, "must be object")]),
  ];
}
