import type { Status } from "#api/meta/types.ts";
import { type ErrorCode, FleetError } from "@fairlead/base/errors.ts";
import { isObject } from "@fairlead/base/json.ts";

/** The error codes for rejections by an API server. Source: k8s.io/apimachinery, pkg/apis/meta/v1, StatusReason. */

const CODES_BY_REASON: Readonly<Record<string, ErrorCode>> = {
  AlreadyExists: "API_ALREADY_EXISTS",
  BadRequest: "API_BAD_REQUEST",
  Conflict: "API_CONFLICT",
  Expired: "API_GONE",
  Forbidden: "API_FORBIDDEN",
  Gone: "API_GONE",
  Invalid: "API_INVALID",
  MethodNotAllowed: "API_BAD_REQUEST",
  NotAcceptable: "API_BAD_REQUEST",
  NotFound: "API_NOT_FOUND",
  RequestEntityTooLarge: "API_BAD_REQUEST",
  ServerTimeout: "API_TIMEOUT",
  ServiceUnavailable: "API_UNAVAILABLE",
  Timeout: "API_TIMEOUT",
  TooManyRequests: "API_TOO_MANY_REQUESTS",
  Unauthorized: "API_UNAUTHORIZED",
  UnsupportedMediaType: "API_BAD_REQUEST",
};

/** For responses without a reason: of proxies, and of servers before they are up. */
const CODES_BY_HTTP: Readonly<Record<number, ErrorCode>> = {
  400: "API_BAD_REQUEST",
  401: "API_UNAUTHORIZED",
  403: "API_FORBIDDEN",
  404: "API_NOT_FOUND",
  405: "API_BAD_REQUEST",
  408: "API_TIMEOUT",
  409: "API_CONFLICT",
  410: "API_GONE",
  413: "API_BAD_REQUEST",
  415: "API_BAD_REQUEST",
  422: "API_INVALID",
  429: "API_TOO_MANY_REQUESTS",
  502: "API_UNAVAILABLE",
  503: "API_UNAVAILABLE",
  504: "API_TIMEOUT",
};

const RETRIABLE: ReadonlySet<ErrorCode> = new Set([
  "API_CONFLICT",
  "API_TIMEOUT",
  "API_TOO_MANY_REQUESTS",
  "API_UNAVAILABLE",
  "API_UNEXPECTED",
]);

function codeOf(status: Partial<Status>): ErrorCode {
  const byReason = status.reason === undefined ? undefined : CODES_BY_REASON[status.reason];
  return byReason ?? CODES_BY_HTTP[status.code ?? 0] ?? "API_UNEXPECTED";
}

/**
 * The error for a Status. `asked` says what was attempted: "GET /api/v1/pods".
 */
export function statusError(asked: string, status: Partial<Status>): FleetError {
  const code = codeOf(status);
  const said = status.message ?? status.reason ?? `code ${status.code}`;
  return new FleetError(code, `${asked}: ${said}`, {
    retriable: RETRIABLE.has(code),
    detail: { asked, status },
  });
}

/** The Status in the body of a refusal; one made up of the HTTP code where the body holds none. */
export function parseStatus(httpCode: number, body: string): Partial<Status> {
  try {
    const parsed: unknown = JSON.parse(body);
    if (isObject(parsed) && parsed["kind"] === "Status") return parsed;
  } catch {
    // Not JSON: a proxy's page, or a plain text.
  }
  return {
    code: httpCode,
    message: body.trim().slice(0, 300) || `the server answered with code ${httpCode}`,
  };
}
