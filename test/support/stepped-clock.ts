import { type Clock, systemClock } from "@fairlead/base/clock.ts";

interface Timer {
  readonly atMs: number;
  readonly callback: () => void;
  waiting: Disposable;
}

/** The system's clock, which can also skip time: what was due in it is due at once. */
export class SteppedClock implements Clock {
  #skippedMs = 0;
  readonly #timers = new Set<Timer>();

  now(): number {
    return systemClock.now() + this.#skippedMs;
  }

  monotonic(): number {
    return systemClock.monotonic() + this.#skippedMs;
  }

  after(delayMs: number, callback: () => void): Disposable {
    const timer: Timer = { atMs: this.monotonic() + delayMs, callback, waiting: { [Symbol.dispose]() {} } };
    this.#timers.add(timer);
    this.#wait(timer);
    return {
      [Symbol.dispose]: () => {
        this.#timers.delete(timer);
        timer.waiting[Symbol.dispose]();
      },
    };
  }

  skip(ms: number): void {
    this.#skippedMs += ms;
    for (const timer of this.#timers) {
      timer.waiting[Symbol.dispose]();
      this.#wait(timer);
    }
  }

  #wait(timer: Timer): void {
    timer.waiting = systemClock.after(Math.max(0, timer.atMs - this.monotonic()), () => {
      this.#timers.delete(timer);
      timer.callback();
    });
  }
}
