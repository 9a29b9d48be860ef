import * as fc from "fast-check";
import type { ResourceDefinition } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import { resolveDefinition } from "#schema/definitions.ts";
import type { Schema } from "#schema/types.ts";

/** Values that defaulting looks at; anything else in a string field is as good as any. */
const WORDS = [
  "",
  "RollingUpdate",
  "LoadBalancer",
  "ExternalName",
  "ClientIP",
  "Local",
  "nginx:latest",
  "x@sha256:1",
];

/** Objects as a schema allows them, to a limited depth. */
function objectsOf(schema: Schema, depth: number): fc.Arbitrary<unknown> {
  if (schema.$ref !== undefined) {
    const target = resolveDefinition(schema.$ref);
    return target === undefined ? fc.constant({}) : objectsOf(target, depth);
  }
  switch (schema.type) {
    case "array":
      return depth === 0
        ? fc.constant([])
        : fc.array(objectsOf(schema.items ?? {}, depth - 1), { maxLength: 2 });
    case "boolean":
      return fc.boolean();
    case "integer":
    case "number":
      return fc.constantFrom(0, 1, 30_080);
    case "object":
      return recordOf(schema, depth);
    default:
      return schema["x-kubernetes-int-or-string"] === true
        ? fc.constantFrom<unknown>(0, 80, "http", "25%")
        : fc.constantFrom(...WORDS);
  }
}

function recordOf(schema: Schema, depth: number): fc.Arbitrary<Record<string, unknown>> {
  const properties = Object.entries(schema.properties ?? {});
  if (depth === 0) return fc.constant({});
  if (properties.length === 0) return fc.dictionary(fc.constantFrom("a", "cpu"), fc.constantFrom("1", "x"));
  const fields = properties.map(([name, it]) => [
    name,
    fc.option(objectsOf(it, depth - 1), { nil: undefined }),
  ]);
  return fc
    .record(Object.fromEntries(fields) as Record<string, fc.Arbitrary<unknown>>, { requiredKeys: [] })
    .map((it) => JSON.parse(JSON.stringify(it)) as Record<string, unknown>);
}

/** Objects that the schema of a kind allows, named n/a. */
export function anyObjectOf(definition: ResourceDefinition): fc.Arbitrary<ApiObject> {
  const { group, version, kind } = definition;
  const apiVersion = group === "" ? version : `${group}/${version}`;
  return objectsOf(definition.schema, 6).map((it) => ({
    ...(it as Record<string, unknown>),
    apiVersion,
    kind,
    metadata: { name: "a", namespace: "n" },
  }));
}
