import { type Clock, systemClock } from "@fairlead/base/clock.ts";

/** The time of day is wrong by so much; durations are right. */
export class WrongClock implements Clock {
  aheadMs: number;

  constructor(aheadMs = 0) {
    this.aheadMs = aheadMs;
  }
  now(): number {
    return systemClock.now() + this.aheadMs;
  }
  monotonic(): number {
    return systemClock.monotonic();
  }
  after(delayMs: number, callback: () => void): Disposable {
    return systemClock.after(delayMs, callback);
  }
}
