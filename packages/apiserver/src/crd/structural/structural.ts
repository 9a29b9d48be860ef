import { isObject } from "@fairlead/base/json.ts";
import { invalid, notAllowed, notSupported, required } from "#values/field-errors.ts";
import type { FieldError } from "#status.ts";
import { checkRules } from "#cel/rules/check.ts";
import { pruneValue } from "#schema/prune.ts";
import { patternProblem } from "#schema/patterns.ts";
import { checkCombinations, checkCompleteness } from "./combinations.ts";
import { checkListType } from "./lists.ts";
import type { Schema } from "#schema/types.ts";
import { validateValue } from "#schema/validate.ts";

/**
 * Why a CustomResourceDefinition's schema is not structural: a field without type, or a keyword that prevents pruning,
 * defaulting and merging of objects.
 * Source: apiextensions-apiserver, pkg/apis/apiextensions/validation and pkg/apiserver/schema/validation.go (KEP-1111).
 *
 * @param field - The path of the schema: "spec.versions[0].schema.openAPIV3Schema".
 */
export function checkStructural(schema: Schema, field: string): FieldError[] {
  // With any of these there is no structure to speak of.
  const forbidden = checkForbidden(schema, field);
  if (forbidden.length > 0) return forbidden;
  const errors: FieldError[] = [];
  if (schema.type === undefined) errors.push(required(`${field}.type`, "must not be empty at the root"));
  else if (schema.type !== "object")
    errors.push(invalid(`${field}.type`, schema.type, "must be object at the root"));
  if (schema.default !== undefined)
    errors.push(notAllowed(`${field}.default`, "must not be set at the root"));
  if (schema.additionalProperties !== undefined)
    errors.push(notAllowed(`${field}.additionalProperties`, "must not be used at the root"));
  errors.push(
    ...checkMetadata(schema, field),
    ...checkNode(schema, { field, isRoot: true, depth: 0 }),
    ...checkCompleteness(schema, field),
  );
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
    ...checkType(schema, at),
    ...checkMarkers(schema, field),
    ...checkContainers(schema, field),
    ...checkListType(schema, field),
    ...checkValues(schema, field),
    ...checkCombinations(schema, field),
    ...checkChildren(schema, at),
  ];
}

function checkForbidden(schema: Schema, field: string, depth = 0): FieldError[] {
  if (typeof schema !== "object" || schema === null || depth > MAX_DEPTH) return [];
  const found = FORBIDDEN.filter((keyword) => Object.hasOwn(schema, keyword));
  const errors = found.map((keyword) => notAllowed(`${field}.${keyword}`, `${keyword} is not supported`));
  if (Array.isArray(schema.items))
    errors.push(notAllowed(`${field}.items`, "items must be a schema object and not an array"));
  const children = childrenOf(schema).flatMap(([it, at]) => checkForbidden(it, `${field}.${at}`, depth + 1));
  return [...errors, ...children];
}

/** The structural schemas below a node, with the way to them. */
function childrenOf({ properties = {}, items, additionalProperties }: Schema): [Schema, string][] {
  return [
    ...Object.entries(properties).map(([name, it]): [Schema, string] => [it, `properties[${name}]`]),
    ...(items === undefined || Array.isArray(items) ? [] : [[items, "items"] as [Schema, string]]),
    ...(isObject(additionalProperties)
      ? [[additionalProperties, "additionalProperties"] as [Schema, string]]
      : []),
  ];
}

function checkType(schema: Schema, { field, isRoot }: At): FieldError[] {
  const isIntOrString = schema["x-kubernetes-int-or-string"] === true;
  if (schema.type === undefined) {
    const isOpen = isIntOrString || schema["x-kubernetes-preserve-unknown-fields"] === true;
    if (isRoot || isOpen) return [];
    const what = field.endsWith(".items") ? "array items" : "object fields";
    return [required(`${field}.type`, `must not be empty for specified ${what}`)];
  }
  return TYPES.includes(schema.type) ? [] : [notSupported(`${field}.type`, schema.type, TYPES)];
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
  const { additionalProperties = true, properties = {} } = schema;
  if (additionalProperties !== true && Object.keys(properties).length > 0) {
    errors.push(
      notAllowed(`${field}.additionalProperties`, "additionalProperties and properties are mutual exclusive"),
    );
  }
  if (schema.type === "array" && schema.items === undefined) {
    errors.push(required(`${field}.items`, "must be specified"));
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
  // Errors name what is wrong by its way from the default.
  const wrong = validateValue({ value: schema.default, schema, path: "", resolve: () => undefined });
  const placed = wrong.map((it) => ({ ...it, field: isNowhere(it.field) ? at : `${at}.${it.field}` }));
  return [...errors, ...placed];
}

function isNowhere(field: string): boolean {
  return field === "" || field === "<nil>";
}

function checkChildren(schema: Schema, at: At): FieldError[] {
  return (
    childrenOf(schema)
      // Metadata has rules of its own.
      .filter(([, way]) => !at.isRoot || way !== "properties[metadata]")
      .flatMap(([below, way]) =>
        checkNode(below, { field: `${at.field}.${way}`, isRoot: false, depth: at.depth + 1 }),
      )
  );
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
