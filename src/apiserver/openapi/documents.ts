import { createHash } from "node:crypto";
import { DEFINITIONS, REF_PREFIX } from "../schema/definitions.ts";
import type { Schema } from "../schema/types.ts";
import { operationsOf } from "./operations.ts";
import { isBuiltinRef, listSchema, schemaName, wrapCustomSchema } from "./schemas.ts";

/** What a document has to know of a resource. A `ResourceDefinition` is one. */
export interface DocumentedResource {
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly kind: string;
  readonly listKind: string;
  readonly namespaced: boolean;
  readonly verbs: readonly string[];
  readonly schema: Schema;
  readonly hasStatus: boolean;
  readonly scale?: object;
  readonly isCustom: boolean;
}

export interface GroupVersion {
  readonly group: string;
  readonly version: string;
}

/** "api/v1", "apis/apps/v1": the key of a document in the index, and what follows `/openapi/v3/`. */
export function openapiPath({ group, version }: GroupVersion): string {
  return group === "" ? `api/${version}` : `apis/${group}/${version}`;
}

/** The answer to `GET /openapi/v3`. `hashOf` gives the hash of a document by its path: clients cache by URL. */
export function openapiIndex(
  resources: Iterable<GroupVersion>,
  hashOf: (path: string) => string,
): { paths: Record<string, { serverRelativeURL: string }> } {
  const paths = [...new Set([...resources].map(openapiPath))].toSorted();
  return {
    paths: Object.fromEntries(
      paths.map((path) => [path, { serverRelativeURL: `/openapi/v3/${path}?hash=${hashOf(path)}` }]),
    ),
  };
}

/** What stands behind `hash=` and in the ETag: changes whenever the document's text does. */
export function openapiHash(text: string): string {
  return createHash("sha512").update(text).digest("hex").toUpperCase();
}

/**
 * The OpenAPI v3 document of one group version: enough for kubectl to validate on the server, to make strategic merge
 * patches from it, and to explain. Resources of other group versions are passed over.
 */
export function openapiDocument(
  of: GroupVersion,
  resources: Iterable<DocumentedResource>,
): Record<string, unknown> {
  const paths: Record<string, unknown> = {};
  const schemas = new Map<string, Schema>();
  for (const resource of resources) {
    if (resource.group !== of.group || resource.version !== of.version) continue;
    addSchemas(schemas, resource);
    Object.assign(paths, operationsOf(resource));
  }
  for (const name of ALWAYS_NAMED) collect(schemas, name);
  return {
    openapi: "3.0.0",
    info: { title: "Kubernetes", version: "unversioned" },
    paths,
    components: { schemas: Object.fromEntries([...schemas].toSorted(([a], [b]) => (a < b ? -1 : 1))) },
  };
}

const META = "io.k8s.apimachinery.pkg.apis.meta.v1";
/** Named by the operations themselves. */
const ALWAYS_NAMED = ["DeleteOptions", "ListMeta", "ObjectMeta", "Patch", "Status"].map(
  (it) => `${META}.${it}`,
);

function addSchemas(schemas: Map<string, Schema>, resource: DocumentedResource): void {
  const name = schemaName(resource);
  if (isBuiltinRef(resource.schema)) collect(schemas, name);
  else schemas.set(name, wrapCustomSchema(resource));
  if (resource.scale !== undefined) collect(schemas, "io.k8s.api.autoscaling.v1.Scale");
  if (resource.verbs.includes("list")) schemas.set(`${name}List`, listSchema(resource));
}

/** Adds a built-in definition and all that it refers to. */
function collect(schemas: Map<string, Schema>, name: string): void {
  const waiting = [name];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const schema = DEFINITIONS.get(next);
    if (schema === undefined || schemas.has(next)) continue;
    schemas.set(next, schema);
    waiting.push(...refsIn(schema));
  }
}

function* refsIn(schema: Schema): Generator<string> {
  if (schema.$ref !== undefined) yield schema.$ref.slice(REF_PREFIX.length);
  for (const property of Object.values(schema.properties ?? {})) yield* refsIn(property);
  if (schema.items !== undefined) yield* refsIn(schema.items);
  if (typeof schema.additionalProperties === "object") yield* refsIn(schema.additionalProperties);
}
