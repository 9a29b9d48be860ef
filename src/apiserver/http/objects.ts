import { isObject } from "#base/json.ts";
import { checkMetadataShape } from "../registry/metadata.ts";
import { checkFields } from "../registry/shape.ts";
import type { ApiObject, ResourceDefinition } from "../registry/types.ts";
import { apiVersionOf, type WriteRequest } from "../registry/write.ts";
import { badRequest } from "../status.ts";
import { mediaType, parseBody, readBody } from "./body.ts";
import type { ParsedDelete } from "./delete.ts";
import type { Exchange } from "./exchange.ts";
import { optionsKind, parseDryRun, parseFieldManager, parseFieldValidation } from "./options.ts";
import { isTrue } from "./path.ts";

/** What writes take from the query and the body. */

export interface Addressed {
  readonly definition: ResourceDefinition;
  readonly namespace: string | undefined;
  /** Absent for create. */
  readonly name: string | undefined;
  readonly subresource: string;
}

export function writeRequest(exchange: Exchange, of: Addressed): WriteRequest {
  return {
    definition: of.definition,
    namespace: of.namespace,
    name: of.name,
    subresource: of.subresource,
    user: exchange.user,
    dryRun: parseDryRun(exchange),
    fieldManager: parseFieldManager(exchange),
    warn: (message) => exchange.warn(message),
    options: () => writeOptions(exchange),
    signal: () => exchange.signal,
  };
}

/** A DELETE, whose dry run may be asked for in its body. */
export function deleteRequest(exchange: Exchange, of: Addressed, options: ParsedDelete): WriteRequest {
  return {
    ...writeRequest(exchange, of),
    dryRun: options.dryRun === true,
    options: () => options.sent,
  };
}

/** The query as the options that admission is told of. Source: `metav1.CreateOptions`, `UpdateOptions`, `PatchOptions`. */
function writeOptions(exchange: Exchange): Readonly<Record<string, unknown>> {
  const { method, query } = exchange;
  const text = (name: string): object => {
    const value = query.get(name) ?? "";
    return value === "" ? {} : { [name]: value };
  };
  const force = query.get("force");
  return {
    kind: optionsKind(method),
    apiVersion: "meta.k8s.io/v1",
    ...(parseDryRun(exchange) ? { dryRun: ["All"] } : {}),
    ...(force === null || method !== "PATCH" ? {} : { force: isTrue(force) }),
    ...text("fieldManager"),
    ...text("fieldValidation"),
  };
}

/** The object in the body of a create or update. */
export async function readObject(exchange: Exchange, definition: ResourceDefinition): Promise<ApiObject> {
  const { request } = exchange;
  const validation = parseFieldValidation(exchange);
  const body = await readBody(request);
  const { value, duplicates } = parseBody(body, mediaType(request.headers["content-type"]));
  const object = asObject(value, definition.kind, apiVersionOf(definition));
  const warn = (message: string): void => exchange.warn(message);
  return checkFields({ definition, object, duplicates, validation, warn });
}

/** @throws {StatusError} 400 for another kind, or metadata that is none. */
export function asObject(value: unknown, kind: string, apiVersion: string): ApiObject {
  if (!isObject(value)) throw badRequest("the body of the request is not an object");
  const object = value;
  if ((object["kind"] ?? "") === "") object["kind"] = kind;
  if ((object["apiVersion"] ?? "") === "") object["apiVersion"] = apiVersion;
  if (object["kind"] !== kind) {
    throw badRequest(`${JSON.stringify(object["kind"])} is not the kind that is served here: ${kind}`);
  }
  if (object["apiVersion"] !== apiVersion) {
    throw badRequest(
      `the API version in the data (${String(object["apiVersion"])}) does not match the expected API version (${apiVersion})`,
    );
  }
  const wrong = checkMetadataShape(object);
  if (wrong !== undefined)
    throw badRequest(`${kind} in version ${JSON.stringify(apiVersion)} cannot be handled: ${wrong}`);
  object["metadata"] = withoutNulls(object["metadata"] ?? {});
  return object as ApiObject;
}

/** Go clients send `creationTimestamp: null`; null and empty mean absent in metadata. */
export function withoutNulls(metadata: unknown): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(metadata ?? {}).filter(([, value]) => value !== null && value !== ""),
  );
}
