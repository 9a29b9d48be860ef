import { delay, systemClock } from "@fairlead/base/clock.ts";

/** Unit: milliseconds. */
const LOOK_MS = 20;

/** Waits until something holds. */
export async function until(holds: () => boolean | Promise<boolean>, signal: AbortSignal): Promise<void> {
  while (!(await holds())) await delay(systemClock, LOOK_MS, signal);
}
