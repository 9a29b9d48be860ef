import { describe, expect, it } from "vitest";
import { DEFINITIONS, resolveDefinition } from "#schema/definitions.ts";
import type { Schema } from "#schema/types.ts";
import { describeField } from "./descriptions.ts";
import { FIELDS } from "./field-descriptions.table.ts";
import { FIELDS_OF_KINDS } from "./kind-descriptions.table.ts";

/** What these mean is the same in every kind, whatever their type. */
const NEUTRAL = new Set(["addresses", "conditions", "ingress", "port", "ports", "value", "values"]);

function kindOf(definition: string): string {
  return definition.slice(definition.lastIndexOf(".") + 1);
}

/** An object, a list, a map, or a scalar of some type. */
function shapeOf({ $ref, type, additionalProperties, items }: Schema): string {
  const target = $ref === undefined ? undefined : resolveDefinition($ref);
  if ($ref !== undefined) return target?.properties === undefined ? kindOf($ref) : "object";
  if (type === "array") return `list of ${shapeOf(items ?? {})}`;
  return additionalProperties === undefined ? String(type) : "map";
}

describe("the description of a field", () => {
  it("by its name alone stands for fields of one type", () => {
    const shapes = new Map<string, Map<string, string[]>>();
    for (const [definition, { properties = {} }] of DEFINITIONS)
      for (const [field, schema] of Object.entries(properties)) {
        if (NEUTRAL.has(field) || describeField(definition, field, schema) !== FIELDS[field]) continue;
        const byShape = shapes.get(field) ?? new Map<string, string[]>();
        const shape = shapeOf(schema);
        byShape.set(shape, [...(byShape.get(shape) ?? []), kindOf(definition)]);
        shapes.set(field, byShape);
      }
    const mixed = [...shapes].filter(([, byShape]) => byShape.size > 1);
    expect(mixed.map(([field, byShape]) => ({ field, ...Object.fromEntries(byShape) }))).toEqual([]);
  });

  it.each([
    ["io.k8s.api.rbac.v1.PolicyRule", "resources", "The resources, in the plural."],
    ["io.k8s.api.core.v1.Container", "resources", "Required resources, such as CPU and memory."],
  ])("of %s, %s, is its own", (definition, field, text) => {
    expect(describeField(definition, field, DEFINITIONS.get(definition)?.properties?.[field] ?? {})).toBe(
      text,
    );
  });

  it("is of a field that exists", () => {
    const kinds = Map.groupBy(DEFINITIONS, ([definition]) => kindOf(definition));
    const missing = Object.keys(FIELDS_OF_KINDS).filter((key) => {
      const [kind = "", field = ""] = key.split(".");
      return !kinds.get(kind)?.some(([, { properties }]) => properties?.[field] !== undefined);
    });
    expect(missing).toEqual([]);
  });
});
