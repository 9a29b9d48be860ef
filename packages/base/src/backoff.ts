import type { Rng } from "./rng.ts";

export interface BackoffOptions {
  /** First delay. Unit: milliseconds. */
  readonly initialMs: number;
  /** Longest delay, before jitter. Unit: milliseconds. */
  readonly maxMs: number;
  /** Growth from one attempt to the next. */
  readonly factor: number;
  /** Up to this share of the delay is added by chance, so that many clients do not retry together. Range: 0 to 1. */
  readonly jitter: number;
}

/**
 * How long to wait before attempt number `attempt` (0 is the first retry).
 *
 * @returns Unit: milliseconds.
 */
export function backoffMs(options: BackoffOptions, attempt: number, rng: Rng): number {
  const base = Math.min(options.maxMs, options.initialMs * options.factor ** attempt);
  return base * (1 + options.jitter * rng.random());
}
