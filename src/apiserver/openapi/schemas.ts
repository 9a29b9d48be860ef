import { REF_PREFIX } from "../schema/definitions.ts";
import type { Schema } from "../schema/types.ts";
import type { DocumentedResource } from "./documents.ts";

const META = `${REF_PREFIX}io.k8s.apimachinery.pkg.apis.meta.v1`;

export function isBuiltinRef(schema: Schema): boolean {
  return schema.$ref !== undefined;
}

/** The name of a kind's schema: its definition's for built-in kinds, else group reversed, version and kind. */
export function schemaName(resource: DocumentedResource): string {
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

/** A custom resource's schema with what every object has, as the API server publishes it. */
export function wrapCustomSchema(resource: DocumentedResource): Schema {
  const { group, version, kind, schema } = resource;
  return {
    ...schema,
    type: "object",
    properties: {
      ...schema.properties,
      apiVersion: API_VERSION,
      kind: KIND,
      metadata: { $ref: `${META}.ObjectMeta` },
    },
    "x-kubernetes-group-version-kind": [{ group, version, kind }],
  };
}

export function listSchema(resource: DocumentedResource): Schema {
  const { group, version, listKind } = resource;
  return {
    type: "object",
    required: ["items"],
    properties: {
      apiVersion: API_VERSION,
      kind: KIND,
      metadata: { $ref: `${META}.ListMeta` },
      items: { type: "array", items: { $ref: REF_PREFIX + schemaName(resource) } },
    },
    "x-kubernetes-group-version-kind": [{ group, version, kind: listKind }],
  };
}
