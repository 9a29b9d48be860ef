import { createHash } from "node:crypto";
import { subresourcesOf } from "#registry/subresources.ts";
import { builtinSchema, DEFINITIONS, REF_PREFIX } from "#schema/definitions.ts";
import type { AbsentFields } from "#schema/releases.ts";
import type { Schema } from "#schema/types.ts";
import { discoveryOperation, operationsOf, reviewOperation } from "./operations.ts";
import { type DocumentedResource, type DocumentedReview, type GroupVersion, openapiPath } from "./types.ts";
import {
  described,
  isBuiltinRef,
  listSchema,
  PROTOCOL_SCHEMAS,
  schemaName,
  wrapCustomSchema,
} from "./schemas.ts";

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

/** The value of `hash=` and of the ETag: changes whenever the document's text does. */
export function openapiHash(text: string): string {
  return createHash("sha512").update(text).digest("hex").toUpperCase();
}

/**
 * The OpenAPI v3 document of one group version: enough for kubectl to validate on the server, to make strategic merge
 * patches from it, and to explain. What is of other group versions is passed over.
 */
export function openapiDocument(
  of: GroupVersion,
  resources: Iterable<DocumentedResource>,
  reviews: Iterable<DocumentedReview> = [],
): Record<string, unknown> {
  const paths: Record<string, unknown> = discoveryOperation(of);
  const schemas = new Map<string, Schema>();
  let absent: AbsentFields | undefined;
  for (const resource of resources) {
    if (resource.group !== of.group || resource.version !== of.version) continue;
    absent ??= resource.absent;
    addSchemas(schemas, resource);
    Object.assign(paths, operationsOf(resource));
  }
  for (const review of reviews) {
    collect(schemas, schemaName(review));
    Object.assign(paths, reviewOperation(review));
  }
  for (const name of ALWAYS_NAMED) collect(schemas, name);
  return {
    openapi: "3.0.0",
    info: { title: "Kubernetes", version: "unversioned" },
    paths: sorted(Object.entries(paths)),
    components: {
      schemas: sorted(withoutAbsent(schemas, absent)),
      securitySchemes: {
        BearerToken: { type: "apiKey", description: "Bearer token", name: "authorization", in: "header" },
      },
    },
  };
}

/** Only fields that the served release has, and only definitions that something refers to. */
function withoutAbsent(
  schemas: ReadonlyMap<string, Schema>,
  absent: AbsentFields | undefined,
): readonly (readonly [string, Schema])[] {
  return [...schemas].flatMap(([name, schema]) => {
    const fields = absent?.get(name);
    if (fields === undefined) return [[name, schema] as const];
    const properties = Object.entries(schema.properties ?? {}).filter(([field]) => !fields.has(field));
    return properties.length === 0
      ? []
      : [[name, { ...schema, properties: Object.fromEntries(properties) }] as const];
  });
}

function sorted(entries: readonly (readonly [string, unknown])[]): Record<string, unknown> {
  return Object.fromEntries(entries.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

const META = "io.k8s.apimachinery.pkg.apis.meta.v1";
/** Named by the operations themselves. */
const ALWAYS_NAMED = [
  "APIResourceList",
  "DeleteOptions",
  "ListMeta",
  "ObjectMeta",
  "Patch",
  "Status",
  "WatchEvent",
].map((it) => `${META}.${it}`);

function addSchemas(schemas: Map<string, Schema>, resource: DocumentedResource): void {
  const name = schemaName(resource);
  if (isBuiltinRef(resource.schema)) collect(schemas, name);
  else schemas.set(name, wrapCustomSchema(resource));
  for (const { name: part, kind } of subresourcesOf(resource)) {
    if (part === "scale") collect(schemas, "io.k8s.api.autoscaling.v1.Scale");
    const own = kind === undefined ? undefined : builtinSchema(kind.group, kind.version, kind.kind);
    if (own?.$ref !== undefined) collect(schemas, own.$ref.slice(REF_PREFIX.length));
  }
  if (resource.verbs.includes("list")) schemas.set(`${name}List`, listSchema(resource));
}

/** Adds a built-in definition and all that it refers to. */
function collect(schemas: Map<string, Schema>, name: string): void {
  const waiting = [name];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const schema = DEFINITIONS.get(next) ?? PROTOCOL_SCHEMAS.get(next);
    if (schema === undefined || schemas.has(next)) continue;
    schemas.set(next, described(next, schema));
    waiting.push(...refsIn(schema));
  }
}

function* refsIn(schema: Schema): Generator<string> {
  if (schema.$ref !== undefined) yield schema.$ref.slice(REF_PREFIX.length);
  for (const property of Object.values(schema.properties ?? {})) yield* refsIn(property);
  if (schema.items !== undefined) yield* refsIn(schema.items);
  if (typeof schema.additionalProperties === "object") yield* refsIn(schema.additionalProperties);
}
