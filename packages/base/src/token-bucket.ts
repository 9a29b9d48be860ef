import type { Clock } from "./clock.ts";

/** Spreads work over time: `burst` at once, then `perSecond`. */
export interface TokenBucket {
  /** Takes one token, and returns the time until it is available. Unit: milliseconds. */
  take(): number;
  /** Takes one token if there is one. */
  tryTake(): boolean;
}

export function createTokenBucket(clock: Clock, perSecond: number, burst: number): TokenBucket {
  let tokens = burst;
  let lastMs = clock.monotonic();
  function refill(): void {
    const nowMs = clock.monotonic();
    tokens = Math.min(burst, tokens + ((nowMs - lastMs) / 1000) * perSecond);
    lastMs = nowMs;
  }
  return {
    take() {
      refill();
      tokens -= 1;
      return tokens >= 0 ? 0 : (-tokens / perSecond) * 1000;
    },
    tryTake() {
      refill();
      if (tokens < 1) return false;
      tokens -= 1;
      return true;
    },
  };
}
