import generated from "./definitions.generated.json" with { type: "json" };
import type { Schema, SchemaResolver } from "./types.ts";

/** Where a `$ref` of these schemas points in an OpenAPI v3 document. */
export const REF_PREFIX = "#/components/schemas/";

/** The schemas of the built-in kinds and their parts, by name ("io.k8s.api.core.v1.Service"). */
export const DEFINITIONS = new Map(Object.entries(generated as unknown as Record<string, Schema>));

/** Definition names of built-in kinds by "group/version/Kind"; the core group is empty. */
const NAMES_OF_KINDS = new Map(
  [...DEFINITIONS].flatMap(([name, schema]) =>
    (schema["x-kubernetes-group-version-kind"] ?? []).map((it): [string, string] => [
      `${it.group}/${it.version}/${it.kind}`,
      name,
    ]),
  ),
);

const BY_REF: ReadonlyMap<string, Schema> = new Map(
  [...DEFINITIONS].map(([name, schema]) => [REF_PREFIX + name, schema]),
);

/** Finds what a `$ref` of a built-in schema names. By the whole text: cutting it would cost more than finding it. */
export const resolveDefinition: SchemaResolver = (ref) => BY_REF.get(ref);

/** "apps/v1" → group and version; "v1" is of the core group. */
export function splitApiVersion(apiVersion: string): { group: string; version: string } {
  const slash = apiVersion.indexOf("/");
  if (slash === -1) return { group: "", version: apiVersion };
  return { group: apiVersion.slice(0, slash), version: apiVersion.slice(slash + 1) };
}

/** The name of a built-in kind's definition, or undefined for kinds that are not built in. */
export function definitionName(group: string, version: string, kind: string): string | undefined {
  return NAMES_OF_KINDS.get(`${group}/${version}/${kind}`);
}

/** A schema that refers to the definition of a built-in kind; what resource tables hold. */
export function builtinSchema(group: string, version: string, kind: string): Schema | undefined {
  const name = definitionName(group, version, kind);
  return name === undefined ? undefined : { $ref: REF_PREFIX + name };
}

/** Follows `$ref`s. What cannot be found takes anything, so that a gap in a table never refuses an object. */
export function deref(schema: Schema, resolve: SchemaResolver): Schema {
  let current = schema;
  for (let hops = 0; current.$ref !== undefined && hops < 8; hops++) {
    current = resolve(current.$ref) ?? FREE_FORM;
  }
  return current;
}

const FREE_FORM: Schema = { "x-kubernetes-preserve-unknown-fields": true };

const OBJECT_META: Schema = { $ref: `${REF_PREFIX}io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta` };
const TEXT: Schema = { type: "string" };

/** The schema of a whole object: a CRD's leaves out what every object has. */
export function objectSchema(schema: Schema): Schema {
  return schema.$ref === undefined ? withObjectFields(schema) : schema;
}

/** A schema with apiVersion, kind and metadata, as whole objects and embedded resources have them. */
export function withObjectFields(schema: Schema): Schema {
  const properties = { ...schema.properties, apiVersion: TEXT, kind: TEXT, metadata: OBJECT_META };
  return { ...schema, type: "object", properties };
}
