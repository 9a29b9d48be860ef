import { isObject } from "@fairlead/base/json.ts";
import type { Steps } from "@fairlead/base/turn.ts";
import { checkMetadataShape, invalidValue } from "#registry/metadata.ts";
import { checkFields } from "#registry/shape.ts";
import type { ResourceDefinition } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import { apiVersionOf, type WriteRequest } from "#registry/write.ts";
import { badRequest, invalid, type StatusError, UndecodableError } from "#status.ts";
import { mediaType, parseBodySteps, refuseUnstorable } from "./body.ts";
import type { ParsedDelete } from "./delete.ts";
import type { Exchange } from "./exchange.ts";
import { optionsKind, parseDryRun, parseFieldManager, parseFieldValidation } from "./options.ts";
import { isTrue } from "./path.ts";

/** The inputs of a write from the query and the body. */

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
    isLarge: exchange.isLarge,
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

/** The query as the options that admission receives. Source: `metav1.CreateOptions`, `UpdateOptions`, `PatchOptions`. */
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
export function readObject(exchange: Exchange, definition: ResourceDefinition): Promise<ApiObject> {
  return exchange.finish(readingOf(exchange, definition));
}

function* readingOf(exchange: Exchange, definition: ResourceDefinition): Steps<ApiObject> {
  const { request, body } = exchange;
  const validation = parseFieldValidation(exchange);
  refuseUnstorable(body);
  yield;
  const { value, duplicates } = yield* parseBodySteps(body, mediaType(request.headers["content-type"]), {
    apiVersion: apiVersionOf(definition),
    kind: definition.kind,
    isCustom: definition.isCustom,
  });
  yield;
  const object = ofKind(value, { ...definition, apiVersion: apiVersionOf(definition) });
  const warn = (message: string): void => exchange.warn(message);
  return checkFields({ definition, object, duplicates, validation, warn });
}

/** @throws {StatusError} 400 for another kind, or malformed metadata. */
export function asObject(value: unknown, kind: string, apiVersion: string): ApiObject {
  const object = ofKind(value, { kind, apiVersion });
  const wrong = checkMetadataShape(object);
  if (wrong !== undefined) throw new UndecodableError(kind, versionOf(apiVersion), wrong);
  return object;
}

interface Wanted {
  readonly kind: string;
  readonly apiVersion: string;
  /** Custom resources have to say what they are of. */
  readonly isCustom?: boolean;
}

/**
 * An object of the kind that is served. Its metadata is for `checkFields` to look at.
 *
 * @throws {StatusError} 400 for another kind or version.
 */
export function ofKind(value: unknown, wanted: Wanted): ApiObject {
  if (!isObject(value)) throw badRequest("the body of the request is not an object");
  sayKind(value, wanted);
  refuseOtherKind(value as ApiObject, wanted);
  const metadata = value["metadata"] ?? {};
  value["metadata"] = isObject(metadata) ? withoutNulls(metadata) : metadata;
  return value as ApiObject;
}

/** Adds the kind and version that a body of a built-in kind may omit. */
function sayKind(object: Record<string, unknown>, { kind, apiVersion, isCustom = false }: Wanted): void {
  for (const field of ["kind", "apiVersion"] as const) {
    const given = object[field] ?? "";
    if (typeof given !== "string") throw unrecognized(kind, `${field} is not a string`);
    const implied = field === "kind" ? kind : apiVersion;
    object[field] = given === "" && !isCustom ? implied : given;
  }
}

function refuseOtherKind(object: ApiObject, wanted: Wanted): void {
  const { kind, apiVersion, isCustom = false } = wanted;
  if (isCustom && object.kind === "") throw unrecognized(kind, "Object 'Kind' is missing");
  if (object.apiVersion !== apiVersion && (isCustom || object.kind === kind)) {
    throw badRequest(
      `the API version in the data (${object.apiVersion}) does not match the expected API version (${apiVersion})`,
    );
  }
  if (object.kind !== kind) throw otherKind(object, wanted);
}

/** Kinds of built-in types are known when a body is decoded; that of a custom one is a value like others. */
function otherKind(object: ApiObject, { kind, apiVersion, isCustom }: Wanted): StatusError {
  if (isCustom !== true) {
    const why = `it is not the kind that is served here: ${kind}`;
    return badRequest(
      `${object.kind} in version ${JSON.stringify(versionOf(object.apiVersion))} cannot be handled as a ${kind}: ${why}`,
    );
  }
  const group = apiVersion.slice(0, apiVersion.indexOf("/"));
  const { name = "" } = isObject(object.metadata) ? object.metadata : {};
  return invalid(group, object.kind, name, [invalidValue("kind", object.kind, `must be ${kind}`)]);
}

/** What says of itself neither what it is nor that it is nothing. */
function unrecognized(kind: string, why: string): StatusError {
  return badRequest(`the object provided is unrecognized (must be of type ${kind}): ${why}`);
}

function versionOf(apiVersion: string): string {
  return apiVersion.slice(apiVersion.indexOf("/") + 1);
}

/** Go clients send `creationTimestamp: null`; null and empty mean absent in metadata. */
export function withoutNulls(metadata: unknown): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(metadata ?? {}).filter(([, value]) => value !== null && value !== ""),
  );
}
