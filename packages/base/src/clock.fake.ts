import type { Clock } from "./clock.ts";

interface Timer {
  readonly atMs: number;
  readonly callback: () => void;
}

/** A clock that moves only by its methods. */
export class FakeClock implements Clock {
  #nowMs: number;
  readonly #timers = new Set<Timer>();

  constructor(startMs = 1_700_000_000_000) {
    this.#nowMs = startMs;
  }
  now(): number {
    return this.#nowMs;
  }
  monotonic(): number {
    return this.#nowMs;
  }
  after(delayMs: number, callback: () => void): Disposable {
    // Node takes it for 1 ms and warns (TimeoutNegativeWarning).
    if (!(delayMs >= 0)) throw new RangeError(`a timer cannot wait ${delayMs} ms`);
    const timer = { atMs: this.#nowMs + delayMs, callback };
    this.#timers.add(timer);
    return { [Symbol.dispose]: () => void this.#timers.delete(timer) };
  }
  /** How many timers are waiting. */
  get pending(): number {
    return this.#timers.size;
  }
  /** Moves time forward, firing every timer on the way in order, and lets promises settle between them. */
  async advance(byMs: number): Promise<void> {
    const untilMs = this.#nowMs + byMs;
    for (;;) {
      await settle();
      const next = [...this.#timers]
        .filter((it) => it.atMs <= untilMs)
        .toSorted((a, b) => a.atMs - b.atMs)[0];
      if (next === undefined) break;
      this.#timers.delete(next);
      this.#nowMs = Math.max(this.#nowMs, next.atMs);
      next.callback();
    }
    this.#nowMs = untilMs;
    await settle();
  }
}

/** Lets every promise that is ready run its reactions. */
async function settle(): Promise<void> {
  await new Promise((resolve) => {
    setImmediate(resolve);
  });
}
