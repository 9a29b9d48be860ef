import type { Clock } from "@fairlead/base/clock.ts";

/**
 * How many times as long as it took the next work waits: sending to many watchers then takes a third of the time. Four
 * times made the median of 100 watchers at 100 changes/s some 7 ms later, for little of the processor.
 */
const PAUSE_PER_WORK = 2;
/** Longest that work waits. Unit: milliseconds. */
const MAX_PAUSE_MS = 10;
/** Shorter pauses are not worth a timer; they add up until they are. Unit: milliseconds. */
const MIN_PAUSE_MS = 1;

/**
 * Runs work immediately if little of it was done lately, and otherwise late enough to leave most of the time to other
 * work: requests in the meantime share one run.
 */
export class Pace {
  readonly #clock: Clock;
  readonly #work: () => void;
  #notBeforeMs = 0;
  #isWaiting = false;

  constructor(clock: Clock, work: () => void) {
    this.#clock = clock;
    this.#work = work;
  }

  /** There is something to do. */
  request(): void {
    if (this.#isWaiting) return;
    const waitMs = this.#notBeforeMs - this.#clock.monotonic();
    if (waitMs < MIN_PAUSE_MS) {
      this.#run();
      return;
    }
    this.#isWaiting = true;
    this.#clock.after(waitMs, () => {
      this.#isWaiting = false;
      this.#run();
    });
  }

  #run(): void {
    const begunMs = this.#clock.monotonic();
    this.#work();
    const endedMs = this.#clock.monotonic();
    const owedMs = Math.max(0, this.#notBeforeMs - begunMs) + (endedMs - begunMs) * PAUSE_PER_WORK;
    this.#notBeforeMs = endedMs + Math.min(owedMs, MAX_PAUSE_MS);
  }
}
