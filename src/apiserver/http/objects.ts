import { isObject } from "#base/json.ts";
import { checkMetadataShape } from "../registry/metadata.ts";
import { checkFields, type FieldValidation } from "../registry/shape.ts";
import type { ApiObject, ResourceDefinition } from "../registry/types.ts";
import { apiVersionOf, type WriteRequest } from "../registry/write.ts";
import { badRequest } from "../status.ts";
import { mediaType, parseBody, readBody } from "./body.ts";
import type { ParsedDelete } from "./delete.ts";
import type { Exchange } from "./exchange.ts";
import { isTrue } from "./path.ts";

/** What writes take from the query and the body. */

const MAX_MANAGER_LENGTH = 128;

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
    dryRun: parseDryRun(exchange.query),
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

const OPTION_KINDS: Readonly<Record<string, string>> = {
  POST: "CreateOptions",
  PUT: "UpdateOptions",
  PATCH: "PatchOptions",
};

/** The query as the options that admission is told of. Source: `metav1.CreateOptions`, `UpdateOptions`, `PatchOptions`. */
function writeOptions({ method, query }: Exchange): Readonly<Record<string, unknown>> {
  const text = (name: string): object => {
    const value = query.get(name) ?? "";
    return value === "" ? {} : { [name]: value };
  };
  const force = query.get("force");
  return {
    kind: OPTION_KINDS[method] ?? "CreateOptions",
    apiVersion: "meta.k8s.io/v1",
    ...(parseDryRun(query) ? { dryRun: ["All"] } : {}),
    ...(force === null || method !== "PATCH" ? {} : { force: isTrue(force) }),
    ...text("fieldManager"),
    ...text("fieldValidation"),
  };
}

export function parseDryRun(query: URLSearchParams): boolean {
  const values = query.getAll("dryRun").filter((it) => it !== "");
  if (values.length === 0) return false;
  if (values.every((it) => it === "All")) return true;
  throw badRequest(
    `Invalid value: ${JSON.stringify(values)}: dryRun: Unsupported value, supported values: "All"`,
  );
}

/** The name given, or the client's program: User-Agent up to the first slash. */
function parseFieldManager(exchange: Exchange): string {
  const given = exchange.query.get("fieldManager") ?? "";
  if (given.length > MAX_MANAGER_LENGTH) {
    throw badRequest(`fieldManager: Too long: may not be more than ${MAX_MANAGER_LENGTH} bytes`);
  }
  // eslint-disable-next-line no-control-regex -- control characters are what is looked for
  if (/[\x00-\x1f\x7f]/.test(given))
    throw badRequest("fieldManager: Invalid value: should only contain printable characters");
  if (given !== "") return given;
  const agent = exchange.request.headers["user-agent"] ?? "";
  return (agent.split("/", 1)[0] ?? "").slice(0, MAX_MANAGER_LENGTH) || "unknown";
}

export function parseFieldValidation(query: URLSearchParams): FieldValidation {
  const given = query.get("fieldValidation") ?? "";
  if (given === "") return "Warn";
  if (given === "Strict" || given === "Warn" || given === "Ignore") return given;
  throw badRequest(
    `Invalid value: ${JSON.stringify(given)}: fieldValidation: Unsupported value: supported values: "Ignore", "Warn", "Strict"`,
  );
}

/** The object in the body of a create or update. */
export async function readObject(exchange: Exchange, definition: ResourceDefinition): Promise<ApiObject> {
  const { request, query } = exchange;
  const validation = parseFieldValidation(query);
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
function withoutNulls(metadata: unknown): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(metadata ?? {}).filter(([, value]) => value !== null && value !== ""),
  );
}
