import { type Clock, offsetClock, systemClock } from "#clock.ts";
import { FleetError } from "#errors.ts";

/** For tests: simulates a machine with a wrong clock. Hidden from the help. */
export const CLOCK_OFFSET_FLAG = "--clock-offset <seconds>";

/** The clock that a program goes by. @param offset - What the flag says. @throws {FleetError} `OPTION_INVALID` */
export function skewedClock(offset: string | undefined): Clock {
  if (offset === undefined) return systemClock;
  if (/^-?\d{1,9}(\.\d{1,3})?$/.test(offset)) return offsetClock(systemClock, Number(offset) * 1000);
  throw new FleetError("OPTION_INVALID", `--clock-offset must be a number of seconds, got ${offset}`);
}
