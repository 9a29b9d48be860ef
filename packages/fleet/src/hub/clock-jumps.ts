import type { Clock } from "@fairlead/base/clock.ts";
import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { MAX_AHEAD_MS } from "#domain/set-back.ts";

/** One look at an object. */
export interface ClockLook {
  /** How far the time of day was set since the last look that was settled: ahead, or back (negative). 0 at the first look. Unit: milliseconds. */
  readonly jumpMs: number;
  /** The jump was taken into account, and what came of it was written. */
  settle(): void;
}

/**
 * Notices when the time of day is set: it changes by more than the time that passes on the monotonic clock, or by less. Waits of
 * objects count what passes between two looks at them. What a program has not seen, because it was started since, counts
 * by the time of day.
 */
export class ClockJumps {
  readonly #clock: Pick<Clock, "now" | "monotonic">;
  /** The time of day minus the monotonic time, at the last look at each object. Unit: milliseconds. */
  readonly #offsetsMs = new Map<ObjectKey, number>();

  constructor(clock: Pick<Clock, "now" | "monotonic">) {
    this.#clock = clock;
  }

  look(key: ObjectKey): ClockLook {
    const offsetMs = this.#clock.now() - this.#clock.monotonic();
    const setMs = offsetMs - (this.#offsetsMs.get(key) ?? offsetMs);
    return {
      jumpMs: Math.abs(setMs) > MAX_AHEAD_MS ? setMs : 0,
      settle: () => void this.#offsetsMs.set(key, offsetMs),
    };
  }

  forget(key: ObjectKey): void {
    this.#offsetsMs.delete(key);
  }
}
