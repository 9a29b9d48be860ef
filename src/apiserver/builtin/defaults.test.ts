import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { cloneJson } from "#base/json.ts";
import { ServiceAccountTokens } from "../auth/tokens.ts";
import { generatePrivateKey } from "#pki/keys.ts";
import type { ApiObject, ResourceDefinition } from "../registry/types.ts";
import { resolveDefinition } from "../schema/definitions.ts";
import type { Schema } from "../schema/types.ts";
import { builtinResources } from "./catalog.ts";

const { resources } = builtinResources({
  serviceRanges: ["10.96.0.0/16", "fd00:96::/112"],
  serviceAccountTokens: new ServiceAccountTokens({ privateKey: generatePrivateKey() }),
  newUid: () => "id",
});

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

function anyObjectOf(definition: ResourceDefinition): fc.Arbitrary<ApiObject> {
  const { group, version, kind } = definition;
  const apiVersion = group === "" ? version : `${group}/${version}`;
  return objectsOf(definition.schema, 6).map((it) => ({
    ...(it as Record<string, unknown>),
    apiVersion,
    kind,
    metadata: { name: "a", namespace: "n" },
  }));
}

const defaulted = resources.filter((it) => it.strategy.applyDefaults !== undefined);

describe("defaults", () => {
  it.each(defaulted.map((it) => [`${it.kind} of ${it.group || "core"}`, it] as const))(
    "of %s change nothing the second time",
    (_name, definition) => {
      fc.assert(
        fc.property(anyObjectOf(definition), (object) => {
          const once = cloneJson(object);
          definition.strategy.applyDefaults?.(once);
          const twice = cloneJson(once);
          definition.strategy.applyDefaults?.(twice);
          expect(twice).toEqual(once);
        }),
        { numRuns: 60 },
      );
    },
  );

  it("and columns take any object that the schema allows", () => {
    for (const definition of resources) {
      fc.assert(
        fc.property(anyObjectOf(definition), (object) => {
          for (const column of definition.columns) {
            const cell = column.cell(object, 0);
            expect(cell === null || ["string", "number", "boolean"].includes(typeof cell)).toBe(true);
          }
        }),
        { numRuns: 20 },
      );
    }
  });
});
