/**
 * Stable, documented identifiers of what can go wrong. Users script against these, never against messages.
 * Each has an entry in `docs/reference/errors.md`; a test holds the two together.
 */
export type ErrorCode =
  | "ABORTED"
  | "API_ALREADY_EXISTS"
  | "API_BAD_REQUEST"
  | "API_CONFLICT"
  | "API_FORBIDDEN"
  | "API_GONE"
  | "API_INVALID"
  | "API_NOT_FOUND"
  | "API_TIMEOUT"
  | "API_TOO_MANY_REQUESTS"
  | "API_UNAUTHORIZED"
  | "API_UNAVAILABLE"
  | "API_UNEXPECTED"
  | "ADDRESS_INVALID"
  | "CRI_FAILED"
  | "CRI_UNAVAILABLE"
  | "CRI_UNSUPPORTED"
  | "DNS_MALFORMED"
  | "DNS_REFUSED"
  | "EXEC_FAILED"
  | "JOURNAL_DAMAGED"
  | "KUBECONFIG_INVALID"
  | "LAB_INVALID"
  | "LAB_NOT_FOUND"
  | "LAB_UNSUPPORTED"
  | "NFT_EXISTS"
  | "NFT_FAILED"
  | "NFT_NOT_FOUND"
  | "OPTION_INVALID"
  | "PRECONDITION_FAILED"
  | "TIMED_OUT"
  | "WIREGUARD_FAILED";

export interface FleetErrorOptions {
  /** The error that this one explains. */
  readonly cause?: unknown;
  /** Whether the same call can succeed later without any change. Default: false. */
  readonly retriable?: boolean;
  /** Details for structured logs. Never holds a secret. */
  readonly detail?: Readonly<Record<string, unknown>>;
}

/**
 * The only class of errors thrown on purpose. The message states what was attempted, on what, what was found and, if
 * possible, what to do.
 */
export class FleetError extends Error {
  static {
    // Inherited and non-enumerable: no noise in logs.
    Object.defineProperty(this.prototype, "name", { value: "FleetError", enumerable: false, writable: true });
  }
  readonly code: ErrorCode;
  readonly retriable: boolean;
  readonly detail: Readonly<Record<string, unknown>>;
  constructor(code: ErrorCode, message: string, options: FleetErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.retriable = options.retriable ?? false;
    this.detail = options.detail ?? {};
  }
}

/** True for our errors with one of `codes`; holds across two copies of this module in one process. */
export function hasCode(error: unknown, ...codes: readonly ErrorCode[]): error is FleetError {
  return Error.isError(error) && "code" in error && codes.some((code) => code === error.code);
}

/** The message of anything that was thrown, with the messages of its causes behind it, unless it has them already. */
export function messageOf(error: unknown): string {
  if (!Error.isError(error)) return String(error);
  if (error.cause === undefined) return error.message;
  const cause = messageOf(error.cause);
  return error.message.includes(cause) ? error.message : `${error.message}: ${cause}`;
}
