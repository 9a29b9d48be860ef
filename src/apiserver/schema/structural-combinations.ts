import { notAllowed, required } from "../builtin/field-errors.ts";
import type { FieldError } from "../status.ts";
import type { Schema } from "./types.ts";

/** What allOf, anyOf, oneOf and not may not say: they validate values, and neither type, default nor keep them. */
const NOT_IN_COMBINATIONS: readonly (readonly [keyof Schema, string])[] = [
  ["type", "must be empty to be structural"],
  ["title", "must be empty to be structural"],
  ["description", "must be empty to be structural"],
  ["nullable", "must be false to be structural"],
  ["default", "must be undefined to be structural"],
  ["additionalProperties", "must be undefined to be structural"],
  ["x-kubernetes-preserve-unknown-fields", "must be false to be structural"],
  ["x-kubernetes-embedded-resource", "must be false to be structural"],
  ["x-kubernetes-int-or-string", "must be false to be structural"],
  ["x-kubernetes-list-type", "must be undefined to be structural"],
  ["x-kubernetes-list-map-keys", "must be empty to be structural"],
  ["x-kubernetes-map-type", "must be undefined to be structural"],
];

/** What is wrong with the allOf, anyOf, oneOf and not of a node. */
export function checkCombinations(schema: Schema, field: string): FieldError[] {
  return combinationsOf(schema, field).flatMap(({ part, at }) => checkPart(part, { schema, at }));
}

interface Part {
  readonly part: Schema;
  readonly at: string;
}

function combinationsOf(schema: Schema, field: string): Part[] {
  const lists = (["allOf", "anyOf", "oneOf"] as const).flatMap((keyword) =>
    (schema[keyword] ?? []).map((part, index) => ({ part, at: `${field}.${keyword}[${index}]` })),
  );
  return schema.not === undefined ? lists : [...lists, { part: schema.not, at: `${field}.not` }];
}

/** `schema` is the structural node that the part speaks of: what it names has to be specified there. */
function checkPart(part: Schema, { schema, at }: { schema: Schema | undefined; at: string }): FieldError[] {
  if (typeof part !== "object" || part === null) return [notAllowed(at, "must be a schema object")];
  const errors = NOT_IN_COMBINATIONS.filter(
    ([keyword]) =>
      part[keyword] !== undefined && part[keyword] !== false && !isTypeOfIntOrString(keyword, part, schema),
  ).map(([keyword, why]) => notAllowed(`${at}.${keyword}`, why));
  for (const [name, below] of Object.entries(part.properties ?? {})) {
    const structural = propertyOf(schema, name);
    const place = `${at}.properties[${name}]`;
    if (structural === undefined) errors.push(required(place, `because it is defined in ${place}`));
    errors.push(...checkPart(below, { schema: structural, at: place }));
  }
  if (part.items !== undefined) {
    if (schema?.items === undefined)
      errors.push(required(`${at}.items`, `because it is defined in ${at}.items`));
    errors.push(...checkPart(part.items, { schema: schema?.items, at: `${at}.items` }));
  }
  errors.push(...combinationsOf(part, at).flatMap((it) => checkPart(it.part, { schema, at: it.at })));
  return errors;
}

/** `anyOf: [{type: integer}, {type: string}]` is how int-or-string is written out. */
function isTypeOfIntOrString(keyword: keyof Schema, part: Schema, schema: Schema | undefined): boolean {
  const isNamed = part.type === "integer" || part.type === "string";
  return keyword === "type" && isNamed && schema?.["x-kubernetes-int-or-string"] === true;
}

function propertyOf(schema: Schema | undefined, name: string): Schema | undefined {
  if (schema === undefined) return undefined;
  const { properties = {}, additionalProperties: additional } = schema;
  if (Object.hasOwn(properties, name)) return properties[name];
  if (typeof additional === "object") return additional;
  return schema["x-kubernetes-preserve-unknown-fields"] === true ? schema : undefined;
}
