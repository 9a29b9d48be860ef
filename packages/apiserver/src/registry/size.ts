import { tooLarge } from "#status.ts";
import type { Entry } from "#storage/entry.ts";

/** Work on larger objects is done in pieces, between which others are served. Unit: bytes. */
export const LARGE_BYTES = 64 * 1024;
/** One such piece. Unit: milliseconds. */
export const PIECE_MS = 5;
/** As etcd: `--max-request-bytes`. Unit: bytes. */
export const MAX_OBJECT_BYTES = 1.5 * 1024 * 1024;

/**
 * Bounds what one object may cost everybody who reads it. One that is larger from earlier times may be made smaller.
 *
 * @throws {StatusError} 413. Inside a transaction, which then leaves nothing behind.
 */
export function refuseOversized(stored: Entry, before: Entry | undefined): void {
  const bytes = stored.json.length;
  if (bytes <= MAX_OBJECT_BYTES || bytes < (before?.json.length ?? 0)) return;
  throw tooLarge(`Request entity too large: the object has ${bytes} bytes, limit is ${MAX_OBJECT_BYTES}`);
}
