import { notAllowed, required } from "#values/field-errors.ts";
import type { FieldError } from "#status.ts";
import type { Schema } from "#schema/types.ts";

/** Keywords that allOf, anyOf, oneOf and not must not contain: they validate values, and neither type, default nor preserve them. */
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

/** The forbidden keywords in the allOf, anyOf, oneOf and not of a node. */
export function checkCombinations(schema: Schema, field: string): FieldError[] {
  return combinationsOf(schema, field).flatMap(({ part, at }) => checkPart(part, { schema, at }));
}

/**
 * What the allOf, anyOf, oneOf and not of the whole schema name has to be specified outside of them too.
 *
 * As upstream, which does not look at those of the nodes below.
 */
export function checkCompleteness(root: Schema, field: string): FieldError[] {
  return combinationsOf(root, field).flatMap((it) => checkNamed(it, root, field));
}

function checkNamed({ part, at }: Part, schema: Schema | undefined, field: string): FieldError[] {
  if (schema === undefined) return [required(field, `because it is defined in ${at}`)];
  if (typeof part !== "object" || part === null) return [];
  const { properties = {}, items } = part;
  return [
    ...combinationsOf(part, at).flatMap((it) => checkNamed(it, schema, field)),
    ...(items === undefined
      ? []
      : checkNamed({ part: items, at: `${at}.items` }, schema.items, `${field}.items`)),
    ...Object.entries(properties).flatMap(([name, below]) => {
      const way = `properties[${name}]`;
      return checkNamed({ part: below, at: `${at}.${way}` }, ownProperty(schema, name), `${field}.${way}`);
    }),
  ];
}

function ownProperty({ properties = {} }: Schema, name: string): Schema | undefined {
  return Object.hasOwn(properties, name) ? properties[name] : undefined;
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

/** `schema` is the structural node that the part speaks of. */
function checkPart(part: Schema, { schema, at }: { schema: Schema | undefined; at: string }): FieldError[] {
  if (typeof part !== "object" || part === null) return [notAllowed(at, "must be a schema object")];
  const errors = NOT_IN_COMBINATIONS.filter(
    ([keyword]) =>
      part[keyword] !== undefined && part[keyword] !== false && !isTypeOfIntOrString(keyword, part, schema),
  ).map(([keyword, why]) => notAllowed(`${at}.${keyword}`, why));
  for (const [name, below] of Object.entries(part.properties ?? {})) {
    const structural = schema === undefined ? undefined : ownProperty(schema, name);
    errors.push(...checkPart(below, { schema: structural, at: `${at}.properties[${name}]` }));
  }
  if (part.items !== undefined)
    errors.push(...checkPart(part.items, { schema: schema?.items, at: `${at}.items` }));
  errors.push(...combinationsOf(part, at).flatMap((it) => checkPart(it.part, { schema, at: it.at })));
  return errors;
}

/** `anyOf: [{type: integer}, {type: string}]` is how int-or-string is written out. */
function isTypeOfIntOrString(keyword: keyof Schema, part: Schema, schema: Schema | undefined): boolean {
  const isNamed = part.type === "integer" || part.type === "string";
  return keyword === "type" && isNamed && schema?.["x-kubernetes-int-or-string"] === true;
}
