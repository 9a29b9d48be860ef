import type { Clock } from "./clock.ts";

/** Spreads work over time: `burst` at once, then `perSecond`. */
export interface TokenBucket {
  /** Takes one token, and returns the time until it is available. Unit: milliseconds. */
  take(): number;
}

export function createTokenBucket(clock: Clock, perSecond: number, burst: number): TokenBucket {
  let tokens = burst;
  let lastMs = clock.monotonic();
  return {
    take() {
      const nowMs = clock.monotonic();
      tokens = Math.min(burst, tokens + ((nowMs - lastMs) / 1000) * perSecond) - 1;
      lastMs = nowMs;
      return tokens >= 0 ? 0 : (-tokens / perSecond) * 1000;
    },
  };
}
