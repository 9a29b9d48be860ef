import type { RawDefinition } from "./inputs.ts";

/** Keywords that are carried over as they are. Descriptions are not: they are most of the document's size. */
const KEPT = [
  "type",
  "format",
  "required",
  "x-kubernetes-list-type",
  "x-kubernetes-list-map-keys",
  "x-kubernetes-map-type",
  "x-kubernetes-patch-strategy",
  "x-kubernetes-patch-merge-key",
  "x-kubernetes-group-version-kind",
] as const;

const V2_PREFIX = "#/definitions/";
const V3_PREFIX = "#/components/schemas/";

/** The definitions named by `roots` and all that they refer to, as OpenAPI v3 schemas, sorted by name. */
export function trimDefinitions(
  definitions: Readonly<Record<string, RawDefinition>>,
  roots: readonly string[],
): Record<string, unknown> {
  const found = new Map<string, unknown>();
  const waiting = [...roots];
  for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
    if (found.has(name)) continue;
    const raw = definitions[name];
    if (raw === undefined) throw new Error(`the OpenAPI document has no definition ${name}`);
    found.set(name, withSpecials(name, trim(raw, waiting)));
  }
  return Object.fromEntries([...found].toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

/** The fields that an earlier release does not have, by definition. */
export function absentIn(
  earlier: Readonly<Record<string, RawDefinition>>,
  later: Readonly<Record<string, unknown>>,
): Record<string, readonly string[]> {
  const entries = Object.entries(later as Readonly<Record<string, RawDefinition>>).flatMap(
    ([name, { properties = {} }]) => {
      const absent = Object.keys(properties).filter((it) => earlier[name]?.properties?.[it] === undefined);
      return absent.length === 0 ? [] : [[name, absent] as const];
    },
  );
  return Object.fromEntries(entries);
}

function trim(raw: RawDefinition, waiting: string[]): Record<string, unknown> {
  const ref = raw["$ref"];
  const schema: Record<string, unknown> = {};
  if (typeof ref === "string") {
    const name = ref.slice(V2_PREFIX.length);
    waiting.push(name);
    schema["$ref"] = V3_PREFIX + name;
  }
  for (const keyword of KEPT) if (raw[keyword] !== undefined) schema[keyword] = raw[keyword];
  if (raw.properties !== undefined) {
    schema["properties"] = Object.fromEntries(
      Object.entries(raw.properties).map(([name, property]) => [name, trim(property, waiting)]),
    );
  }
  if (raw.items !== undefined) schema["items"] = trim(raw.items, waiting);
  if (raw.additionalProperties !== undefined) {
    schema["additionalProperties"] = trim(raw.additionalProperties, waiting);
  }
  return schema;
}

/** Defaults that are part of the key of a list's items; the published document leaves defaults out. */
const KEY_DEFAULTS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "io.k8s.api.core.v1.ContainerPort": { protocol: "TCP" },
  "io.k8s.api.core.v1.ServicePort": { protocol: "TCP" },
};

/** What version 2 of OpenAPI cannot say about a type: several JSON types, or any JSON at all. */
function withSpecials(name: string, schema: Record<string, unknown>): Record<string, unknown> {
  if (name.endsWith(".intstr.IntOrString")) {
    return {
      format: "int-or-string",
      "x-kubernetes-int-or-string": true,
      oneOf: [{ type: "integer" }, { type: "string" }],
    };
  }
  if (name.endsWith(".resource.Quantity")) return { oneOf: [{ type: "string" }, { type: "number" }] };
  if (name.endsWith(".DeleteOptions")) {
    // It is declared once per group; every client sends the one of the core group.
    return {
      ...schema,
      "x-kubernetes-group-version-kind": [{ group: "", kind: "DeleteOptions", version: "v1" }],
    };
  }
  const defaults = KEY_DEFAULTS[name];
  if (defaults !== undefined) return withDefaults(schema, defaults);
  const isFreeForm = schema["properties"] === undefined && schema["additionalProperties"] === undefined;
  if (isFreeForm && (schema["type"] === undefined || schema["type"] === "object")) {
    return { ...schema, "x-kubernetes-preserve-unknown-fields": true };
  }
  return schema;
}

function withDefaults(
  schema: Record<string, unknown>,
  defaults: Readonly<Record<string, string>>,
): Record<string, unknown> {
  const properties = { ...(schema["properties"] as Record<string, object>) };
  for (const [name, value] of Object.entries(defaults))
    properties[name] = { ...properties[name], default: value };
  return { ...schema, properties };
}
