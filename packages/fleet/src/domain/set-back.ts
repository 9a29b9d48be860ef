/** How much later than now a time may be: clocks are not exact. Unit: milliseconds. */
export const MAX_AHEAD_MS = 60_000;

/** Whether a time that was noted is one to come, because the clock was set back since: what is counted from it would take too long. */
export function isToCome(time: string | undefined, nowMs: number): boolean {
  return time !== undefined && Date.parse(time) > nowMs + MAX_AHEAD_MS;
}
