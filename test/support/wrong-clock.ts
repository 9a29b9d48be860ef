import { type Clock, systemClock } from "@fairlead/base/clock.ts";

/** The time of day is wrong by so much; durations are right. */
export class WrongClock implements Clock {
  aheadMs: number;
  readonly #right: Clock;

  constructor(aheadMs = 0, right: Clock = systemClock) {
    this.aheadMs = aheadMs;
    this.#right = right;
  }
  now(): number {
    return this.#right.now() + this.aheadMs;
  }
  monotonic(): number {
    return this.#right.monotonic();
  }
  after(delayMs: number, callback: () => void): Disposable {
    return this.#right.after(delayMs, callback);
  }
}
