import type { Clock } from "@fairlead/base/clock.ts";
import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";

export interface PaceOptions {
  /** Unit: milliseconds. */
  readonly perItemMs: number;
  /** For no more than these there is no wait. */
  readonly few: number;
  readonly maxMs: number;
}

/**
 * A distance between the passes for a key that grows with what a pass costs: many small changes, each of which makes all of it due,
 * then cost a constant for each item.
 */
export class OwnPace {
  readonly #clock: Clock;
  readonly #options: PaceOptions;
  readonly #nextMs = new Map<ObjectKey, number>();

  constructor(clock: Clock, options: PaceOptions) {
    this.#clock = clock;
    this.#options = options;
  }

  /** How much longer to wait before the next pass. Unit: milliseconds. */
  waitMs(key: ObjectKey): number {
    return Math.max(0, (this.#nextMs.get(key) ?? 0) - this.#clock.monotonic());
  }
  /** A pass was made, over so many items. */
  note(key: ObjectKey, items: number): void {
    const { perItemMs, few, maxMs } = this.#options;
    if (items <= few) this.#nextMs.delete(key);
    else this.#nextMs.set(key, this.#clock.monotonic() + Math.min(maxMs, items * perItemMs));
  }
  forget(key: ObjectKey): void {
    this.#nextMs.delete(key);
  }
}
