/** When a request that a server refused for want of time is sent again. */

/** client-go's bound on how often it obeys Retry-After; its waits are not bounded, ours are. */
const MAX_RETRIES = 10;
const MAX_RETRY_AFTER_MS = 30_000;
/** A request that was only put off waits for its turn as long as callers may wait. Unit: milliseconds. */
const MAX_PATIENCE_MS = 120_000;

interface Refused {
  readonly code: number;
  /** The delay that the server requests; undefined if it does not. */
  readonly retryAfterMs: number | undefined;
  /** Doing it twice is doing it once. */
  readonly isIdempotent: boolean;
  readonly attempt: number;
  /** Spent on this request so far. */
  readonly waitedMs: number;
}

/**
 * 429 says that nothing was done: any request may be sent again. 503 may come from a proxy whose server has acted.
 *
 * @returns How long to wait; undefined: the refusal is the response. Unit: milliseconds.
 */
export function planRetry({
  code,
  retryAfterMs,
  isIdempotent,
  attempt,
  waitedMs,
}: Refused): number | undefined {
  if (retryAfterMs === undefined) return undefined;
  const waitMs = Math.min(MAX_RETRY_AFTER_MS, retryAfterMs);
  if (code === 429) return waitedMs + waitMs <= MAX_PATIENCE_MS ? waitMs : undefined;
  return code === 503 && isIdempotent && attempt < MAX_RETRIES ? waitMs : undefined;
}

/** Seconds, as the API server writes them; the date form of RFC 9110 counts as absent. */
export function parseRetryAfter(header: string | string[] | undefined): number | undefined {
  if (typeof header !== "string" || !/^\d{1,6}$/.test(header)) return undefined;
  return Number(header) * 1000;
}
