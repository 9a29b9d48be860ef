import { type StatusError, tooManyRequests } from "#status.ts";

/** How long a peer may take for any transfer, and what it must manage beyond that. */
const GRACE_MS = 30_000;
const BYTES_PER_MS = 256;

/** Longest that a peer may take to send, or to take, so many bytes. Unit: milliseconds. */
export function transferMs(bytes: number): number {
  return GRACE_MS + bytes / BYTES_PER_MS;
}

/** Unit: seconds. */
const RETRY_AFTER = 1;

export function tooMany(): StatusError {
  return tooManyRequests("Too many requests, please try again later.", RETRY_AFTER);
}
