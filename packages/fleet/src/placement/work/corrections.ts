/**
 * How often an object is put back that others change: an autoscaler, or another tool that applies it. Each time it waits longer, so
 * that two writers do not keep an API server busy.
 */
export interface Corrections {
  readonly count: number;
  /** Monotonic. Unit: milliseconds. */
  readonly lastMs: number;
}

/** The wait after the first correction, and its growth. Unit: milliseconds. */
const HOLD = { initialMs: 1000, factor: 3, maxMs: 900_000 };

/** Until when an object is left as others changed it. Unit: milliseconds. */
export function heldUntilMs({ count, lastMs }: Corrections): number {
  return lastMs + Math.min(HOLD.maxMs, HOLD.initialMs * HOLD.factor ** (count - 1));
}

/** An object that was left alone for as long as the longest wait is put back at once again. */
export function afterCorrection(before: Corrections | undefined, nowMs: number): Corrections {
  const isLongAgo = before === undefined || nowMs - heldUntilMs(before) > HOLD.maxMs;
  return { count: isLongAgo ? 1 : before.count + 1, lastMs: nowMs };
}
