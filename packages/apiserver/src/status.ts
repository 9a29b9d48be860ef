import { defined } from "@fairlead/base/defined.ts";
import type { Status, StatusCause } from "@fairlead/kube/api/meta/types.ts";

/** The longest text of a refusal, of which refused values and names are a part. Unit: UTF-16 code units. */
const MAX_TEXT = 64 * 1024;

function clip<T extends string | undefined>(text: T): T | string {
  if (text === undefined || text.length <= MAX_TEXT) return text;
  return `${text.slice(0, MAX_TEXT).toWellFormed()}... and ${text.length - MAX_TEXT} more characters`;
}

function clipped<T extends Pick<Status, "message" | "details">>(status: T): T {
  const { message, details } = status;
  const { name, causes } = details ?? {};
  const clippedCauses = causes?.map((it) => ({
    ...it,
    ...defined({ message: clip(it.message), field: clip(it.field) }),
  }));
  const texts = defined({ name: clip(name), causes: clippedCauses });
  return { ...status, ...defined({ message: clip(message), details: details && { ...details, ...texts } }) };
}

/**
 * Refusals in the shape that clients branch on: `reason` and `code`, never the text.
 * Source: k8s.io/apimachinery, pkg/api/errors.
 */
export class StatusError extends Error {
  readonly status: Status;
  constructor(status: Omit<Status, "kind" | "apiVersion" | "metadata" | "status"> & { code: number }) {
    super(clip(status.message) ?? status.reason ?? `code ${status.code}`);
    this.status = { kind: "Status", apiVersion: "v1", metadata: {}, status: "Failure", ...clipped(status) };
  }
  get code(): number {
    return this.status.code ?? 500;
  }
}

/** The resource of a refusal, as messages name it: "deployments.apps", or "pods" in the core group. */
export interface ResourceName {
  readonly group: string;
  readonly plural: string;
}

function nameOf(of: ResourceName): string {
  return of.group === "" ? of.plural : `${of.plural}.${of.group}`;
}

function detailsOf(of: ResourceName, name: string): NonNullable<Status["details"]> {
  return {
    ...(name === "" ? {} : { name }),
    ...(of.group === "" ? {} : { group: of.group }),
    kind: of.plural,
  };
}

export function badRequest(message: string): StatusError {
  return new StatusError({ code: 400, reason: "BadRequest", message });
}

/** A value that is not an object of its kind: a body (400), or the result of a patch. */
export class UndecodableError extends StatusError {
  readonly why: string;
  constructor(kind: string, version: string, why: string) {
    const message = `${kind} in version ${JSON.stringify(version)} cannot be handled as a ${kind}: ${why}`;
    super({ code: 400, reason: "BadRequest", message });
    this.why = why;
  }
}

export function unauthorized(message = "Unauthorized"): StatusError {
  return new StatusError({ code: 401, reason: "Unauthorized", message });
}

export function forbidden(of: ResourceName, name: string, why: string): StatusError {
  const subject = name === "" ? nameOf(of) : `${nameOf(of)} "${name}"`;
  return new StatusError({
    code: 403,
    reason: "Forbidden",
    message: `${subject} is forbidden: ${why}`,
    details: detailsOf(of, name),
  });
}

export function notFound(of: ResourceName, name: string): StatusError {
  return new StatusError({
    code: 404,
    reason: "NotFound",
    message: `${nameOf(of)} "${name}" not found`,
    details: detailsOf(of, name),
  });
}

const NO_PATH = "the server could not find the requested resource";

/** A path that nothing serves. */
export function pathNotFound(): StatusError {
  return new StatusError({ code: 404, reason: "NotFound", message: NO_PATH, details: {} });
}

export function isPathNotFound(error: unknown): boolean {
  return error instanceof StatusError && error.code === 404 && error.message === NO_PATH;
}

export function methodNotAllowed(
  message = "the server does not allow this method on the requested resource",
): StatusError {
  return new StatusError({ code: 405, reason: "MethodNotAllowed", message, details: {} });
}

/** As for custom resources: it says what of. */
export function methodNotSupported(of: ResourceName, verb: string): StatusError {
  const message = `${verb} is not supported on resources of kind "${nameOf(of)}"`;
  return new StatusError({ code: 405, reason: "MethodNotAllowed", message, details: detailsOf(of, "") });
}

export function notAcceptable(accepted: readonly string[]): StatusError {
  const message = `only the following media types are accepted: ${accepted.join(", ")}`;
  return new StatusError({ code: 406, reason: "NotAcceptable", message });
}

export function alreadyExists(of: ResourceName, name: string): StatusError {
  const message = `${nameOf(of)} "${name}" already exists`;
  return new StatusError({ code: 409, reason: "AlreadyExists", message, details: detailsOf(of, name) });
}

const MODIFIED =
  "the object has been modified; please apply your changes to the latest version and try again";

export function conflict(of: ResourceName, name: string, why: string = MODIFIED): StatusError {
  const message = `Operation cannot be fulfilled on ${nameOf(of)} "${name}": ${why}`;
  return new StatusError({ code: 409, reason: "Conflict", message, details: detailsOf(of, name) });
}

/** Server-side apply met fields of other managers: one cause per field. */
export function applyConflict(message: string, causes: readonly StatusCause[]): StatusError {
  return new StatusError({ code: 409, reason: "Conflict", message, details: { causes: [...causes] } });
}

export function expired(message: string): StatusError {
  return new StatusError({ code: 410, reason: "Expired", message });
}

export function tooLarge(message: string): StatusError {
  return new StatusError({ code: 413, reason: "RequestEntityTooLarge", message });
}

export function unsupportedMediaType(message: string): StatusError {
  return new StatusError({ code: 415, reason: "UnsupportedMediaType", message });
}

export function tooManyRequests(message: string, retryAfterSeconds: number): StatusError {
  return new StatusError({ code: 429, reason: "TooManyRequests", message, details: { retryAfterSeconds } });
}

export function internalError(message: string): StatusError {
  return new StatusError({
    code: 500,
    reason: "InternalError",
    message: `Internal error occurred: ${message}`,
    details: { causes: [{ message }] },
  });
}

export type FieldErrorType =
  | "FieldValueRequired"
  | "FieldValueInvalid"
  | "FieldValueNotSupported"
  | "FieldValueForbidden"
  | "FieldValueDuplicate"
  | "FieldValueNotFound"
  | "FieldValueTooLong"
  | "FieldValueTooMany"
  | "FieldValueTypeInvalid";

/** One thing that is wrong with an object. `field` is a path such as `spec.ports[0].port`. */
export interface FieldError {
  readonly type: FieldErrorType;
  readonly field: string;
  /** Reads as upstream's: `Invalid value: 70000: must be between 1 and 65535, inclusive`. */
  readonly message: string;
}

/** The limit of reported errors and conflicts, so that a response is not much longer than the object. */
export const MAX_REPORTED_ERRORS = 1000;
/** The limit of what they say in all, the first one aside. Unit: UTF-16 code units. */
const MAX_REPORTED = 256 * 1024;

/**
 * The first errors or conflicts, as many as are reported. Paths of many may begin with the same long key.
 *
 * @param lengthOf - Of what one says. Unit: UTF-16 code units.
 */
export function reported<T>(found: readonly T[], lengthOf: (it: T) => number): readonly T[] {
  let length = 0;
  const end = found.findIndex((it, at) => {
    length += lengthOf(it);
    return at >= MAX_REPORTED_ERRORS || (at > 0 && length > MAX_REPORTED);
  });
  return end < 0 ? found : found.slice(0, end);
}

/** 422 with one cause per field, of the first thousand at most. `kind` is the Kind, not the plural. */
export function invalid(
  group: string,
  kind: string,
  name: string,
  found: readonly FieldError[],
): StatusError {
  const errors = reported(found, (it) => it.field.length + it.message.length);
  // A repeated error appears once in the message, but as separate causes.
  const texts = [...new Set(errors.map((it) => `${it.field}: ${it.message}`))];
  if (found.length > errors.length) texts.push("and more");
  const list = texts.length === 1 ? texts[0] : `[${texts.join(", ")}]`;
  const kindName = group === "" ? kind : `${kind}.${group}`;
  return new StatusError({
    code: 422,
    reason: "Invalid",
    message: `${kindName} "${name}" is invalid: ${list}`,
    details: {
      ...(name === "" ? {} : { name }),
      ...(group === "" ? {} : { group }),
      ...(kind === "" ? {} : { kind }),
      causes: errors.map((it) => ({ reason: it.type, message: it.message, field: it.field })),
    },
  });
}
