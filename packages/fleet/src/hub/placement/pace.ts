import type { Clock } from "@fairlead/base/clock.ts";
import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";

export interface PaceOptions {
  /** Unit: milliseconds. */
  readonly perItemMs: number;
  /** For no more than these the wait is `leastMs`. */
  readonly few: number;
  /** Unit: milliseconds. Default: 0. */
  readonly leastMs?: number;
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
    const { perItemMs, few, leastMs = 0, maxMs } = this.#options;
    const waitMs = items <= few ? leastMs : Math.min(maxMs, items * perItemMs);
    if (waitMs === 0) this.#nextMs.delete(key);
    else this.#nextMs.set(key, this.#clock.monotonic() + waitMs);
  }
  forget(key: ObjectKey): void {
    this.#nextMs.delete(key);
  }
}

/**
 * When something is written whose size grows with its items, and that many small changes make due: seldom while these come. The
 * distance between two writes grows with the items, and with those of all keys that are under way: together they take a small share of
 * what the API server can do.
 */
export class PaceUnderWay {
  readonly #own: OwnPace;
  readonly #together: OwnPace;
  /** The items of keys that are under way. */
  readonly #open = new Map<ObjectKey, number>();
  #items = 0;

  constructor(clock: Clock, own: PaceOptions, together: PaceOptions) {
    this.#own = new OwnPace(clock, own);
    this.#together = new OwnPace(clock, together);
  }

  /** How much longer to wait before the next write for a key that is under way; the first one waits as well. Unit: milliseconds. */
  waitMs(key: ObjectKey, items: number): number {
    if (!this.#open.has(key)) this.#own.note(key, items);
    this.close(key);
    this.#open.set(key, items);
    this.#items += items;
    return Math.max(this.#own.waitMs(key), this.#together.waitMs(key));
  }
  /** It was written. */
  note(key: ObjectKey, items: number): void {
    this.#own.note(key, items);
    this.#together.note(key, this.#items);
  }
  /** It is no longer under way. */
  close(key: ObjectKey): void {
    this.#items -= this.#open.get(key) ?? 0;
    this.#open.delete(key);
  }
  forget(key: ObjectKey): void {
    this.#own.forget(key);
    this.#together.forget(key);
    this.close(key);
  }
}
