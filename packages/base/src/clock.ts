import { FleetError } from "./errors.ts";

/** Node's limit for a timer: one for longer, and one for less than nothing, ends at once with a warning. Unit: milliseconds. */
const LONGEST_TIMER_MS = 2_147_483_647;

/** Time as the program sees it: injected, so that tests step it. */
export interface Clock {
  /** Wall-clock time. Unit: milliseconds since the Unix epoch. */
  now(): number;
  /** Time that never goes back, for measuring. Unit: milliseconds, from an arbitrary origin. */
  monotonic(): number;
  /**
   * Calls `callback` once, `delayMs` milliseconds from now, unless disposed before. Does not keep the process alive.
   *
   * @param delayMs - What is due already is called as soon as possible; 24 days are the longest wait.
   */
  after(delayMs: number, callback: () => void): Disposable;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(delayMs, callback) {
    const timer = setTimeout(callback, Math.min(LONGEST_TIMER_MS, Math.max(0, delayMs)));
    timer.unref();
    return { [Symbol.dispose]: () => clearTimeout(timer) };
  },
};

/** A clock with a wrong wall time, as on a machine without time synchronization. Unit: milliseconds. */
export function offsetClock(clock: Clock, offsetMs: number): Clock {
  if (offsetMs === 0) return clock;
  return {
    now: () => clock.now() + offsetMs,
    monotonic: () => clock.monotonic(),
    after: (delayMs, callback) => clock.after(delayMs, callback),
  };
}

/**
 * Resolves after `delayMs` milliseconds.
 *
 * @throws {FleetError} `ABORTED` as soon as `signal` aborts.
 */
export function delay(clock: Clock, delayMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(abortError(signal));
      return;
    }
    // Unlike a timer of the clock, an awaited wait keeps the process alive.
    const hold = setInterval(() => {}, LONGEST_TIMER_MS);
    const onAbort = (): void => {
      clearInterval(hold);
      timer[Symbol.dispose]();
      reject(abortError(signal));
    };
    const timer = clock.after(delayMs, () => {
      clearInterval(hold);
      signal.removeEventListener("abort", onAbort);
      resolve();
    });
    signal.addEventListener("abort", onAbort, { once: true });
  });
}

/** The error with which a wait ends when `signal` aborts. */
export function abortError(signal: AbortSignal): FleetError {
  return new FleetError("ABORTED", "the wait was cancelled", { cause: signal.reason });
}
