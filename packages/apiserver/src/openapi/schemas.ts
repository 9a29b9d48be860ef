import { isObject } from "@fairlead/base/json.ts";
import { REF_PREFIX } from "#schema/definitions.ts";
import type { Schema } from "#schema/types.ts";
import { describeDefinition, describeField } from "./descriptions.ts";
import type { DocumentedResource } from "./types.ts";

const META = `${REF_PREFIX}io.k8s.apimachinery.pkg.apis.meta.v1`;

export function isBuiltinRef(schema: Schema): boolean {
  return schema.$ref !== undefined;
}

/** The name of a kind's schema: its definition's for built-in kinds, else group reversed, version and kind. */
export function schemaName(
  resource: Pick<DocumentedResource, "group" | "version" | "kind" | "schema">,
): string {
  const { $ref } = resource.schema;
  if ($ref !== undefined) return $ref.slice(REF_PREFIX.length);
  return [...resource.group.split(".").toReversed(), resource.version, resource.kind].join(".");
}

const API_VERSION: Schema = {
  type: "string",
  description:
    "The version of the schema that this object is written in. Servers convert known versions to their own and refuse others.",
};
const KIND: Schema = {
  type: "string",
  description: "The REST resource that this object stands for, in CamelCase. It cannot be changed.",
};

const OBJECT_FIELDS: Readonly<Record<string, Schema>> = {
  apiVersion: API_VERSION,
  kind: KIND,
  metadata: { description: "What every object has.", allOf: [{ $ref: `${META}.ObjectMeta` }] },
};

/** Objects inside of an object have what every object has. */
function withEmbedded(schema: Schema): Schema {
  const { properties, items, additionalProperties: values } = schema;
  const isEmbedded = schema["x-kubernetes-embedded-resource"] === true;
  const below = Object.entries(properties ?? {}).map(([name, it]) => [name, withEmbedded(it)] as const);
  return {
    ...schema,
    ...(properties === undefined ? {} : { properties: Object.fromEntries(below) }),
    ...(items === undefined ? {} : { items: withEmbedded(items) }),
    ...(isObject(values) ? { additionalProperties: withEmbedded(values) } : {}),
    ...(isEmbedded
      ? {
          properties: { ...Object.fromEntries(below), ...OBJECT_FIELDS },
          required: [...new Set([...(schema.required ?? []), "kind", "apiVersion"])],
        }
      : {}),
  };
}

/** A custom resource's schema with what every object has, as the API server publishes it. */
export function wrapCustomSchema(resource: DocumentedResource): Schema {
  const { group, version, kind, schema, strategy } = resource;
  const selectable = Object.keys(strategy?.fieldSelectors ?? {}).map((fieldPath) => ({ fieldPath }));
  return {
    ...withEmbedded(schema),
    type: "object",
    properties: {
      ...withEmbedded(schema).properties,
      ...OBJECT_FIELDS,
    },
    ...(selectable.length === 0 ? {} : { "x-kubernetes-selectable-fields": selectable }),
    "x-kubernetes-group-version-kind": [{ group, version, kind }],
  };
}

export function listSchema(resource: DocumentedResource): Schema {
  const { group, version, listKind } = resource;
  return {
    description: `A list of objects of kind ${resource.kind}.`,
    type: "object",
    required: ["items"],
    properties: {
      apiVersion: API_VERSION,
      kind: KIND,
      metadata: { description: "What every list has.", allOf: [{ $ref: `${META}.ListMeta` }] },
      items: {
        description: "The objects.",
        type: "array",
        items: { $ref: REF_PREFIX + schemaName(resource) },
      },
    },
    "x-kubernetes-group-version-kind": [{ group, version, kind: listKind }],
  };
}

/** A built-in definition with what it and its fields mean. A reference cannot be described but inside `allOf`. */
export function described(name: string, schema: Schema): Schema {
  const { properties } = schema;
  const description = describeDefinition(name);
  if (properties === undefined) return { description, ...schema };
  const fields = Object.entries(properties).map(([field, { $ref, ...rest }]): [string, Schema] => {
    const text = describeField(name, field, rest);
    return [field, { description: text, ...rest, ...($ref === undefined ? {} : { allOf: [{ $ref }] }) }];
  });
  return { description, ...schema, properties: Object.fromEntries(fields) };
}

const TEXT: Schema = { type: "string" };
const TEXTS: Schema = { type: "array", items: TEXT, "x-kubernetes-list-type": "atomic" };
const META_NAME = "io.k8s.apimachinery.pkg.apis.meta.v1";

/** Types of the protocol that no object contains. */
export const PROTOCOL_SCHEMAS: ReadonlyMap<string, Schema> = new Map<string, Schema>([
  [
    `${META_NAME}.APIResource`,
    {
      type: "object",
      required: ["name", "singularName", "namespaced", "kind", "verbs"],
      properties: {
        categories: TEXTS,
        group: TEXT,
        kind: TEXT,
        name: TEXT,
        namespaced: { type: "boolean" },
        shortNames: TEXTS,
        singularName: TEXT,
        storageVersionHash: TEXT,
        verbs: { type: "array", items: TEXT },
        version: TEXT,
      },
    },
  ],
  [
    `${META_NAME}.APIResourceList`,
    {
      type: "object",
      required: ["groupVersion", "resources"],
      properties: {
        apiVersion: TEXT,
        groupVersion: TEXT,
        kind: TEXT,
        resources: {
          type: "array",
          items: { $ref: `${META}.APIResource` },
          "x-kubernetes-list-type": "atomic",
        },
      },
    },
  ],
  [
    `${META_NAME}.WatchEvent`,
    {
      type: "object",
      required: ["type", "object"],
      properties: {
        object: { $ref: `${REF_PREFIX}io.k8s.apimachinery.pkg.runtime.RawExtension` },
        type: TEXT,
      },
    },
  ],
]);
