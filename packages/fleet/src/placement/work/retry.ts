/**
 * When a Work is looked at again although nothing was reported: what watches report is acted on at once, so this is for what no
 * watch shows, such as a quota that has room again.
 */

/** Unit: milliseconds. */
const FIRST_MS = 5000;
const SLOW = { initialMs: 2000, factor: 1.2, maxMs: 15_000 };
const FAST = { factor: 1.5, maxMs: 900_000 };

/**
 * The wait before the next attempt, after `attempts` attempts (from 1) with the same result. A Work that is available, or whose
 * differences are reported, skips the slow part.
 *
 * @returns Unit: milliseconds.
 */
export function retryDelayMs(attempts: number, isSettled: boolean): number {
  if (attempts <= 1 && !isSettled) return FIRST_MS;
  const slowAttempt = isSettled ? SLOW_ATTEMPTS : attempts - 2;
  if (slowAttempt < SLOW_ATTEMPTS) return SLOW.initialMs * SLOW.factor ** slowAttempt;
  const fastAttempt = isSettled ? attempts : attempts - 1 - SLOW_ATTEMPTS;
  return Math.min(FAST.maxMs, SLOW.maxMs * FAST.factor ** Math.min(fastAttempt, 100));
}

/** How many waits are shorter than the longest slow one. */
const SLOW_ATTEMPTS = Math.ceil(Math.log(SLOW.maxMs / SLOW.initialMs) / Math.log(SLOW.factor));
