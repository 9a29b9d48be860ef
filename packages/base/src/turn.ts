/** Calls `callback` once, after the input that is ready now was handled: what happens in one turn can be gathered. */
export function afterThisTurn(callback: () => void): void {
  setImmediate(callback);
}

/** Resolves after the input that is ready now was handled. */
export function nextTurn(): Promise<void> {
  return new Promise(afterThisTurn);
}

/**
 * Lets work that never waits give way: where one pass follows the other without a break, neither input nor timers come to
 * their turn.
 */
export class Turns {
  readonly #now: () => number;
  readonly #longestMs: number;
  /** The end of the current turn; undefined before its first work. */
  #endsMs: number | undefined;
  #next: Promise<void> | undefined;

  /** @param longestMs - The longest time of one turn. */
  constructor(now: () => number, longestMs: number) {
    this.#now = now;
    this.#longestMs = longestMs;
  }

  /** Undefined while the turn may continue; otherwise resolves when pending events have been handled. */
  breathe(): Promise<void> | undefined {
    if (this.#next !== undefined) return this.#next;
    const nowMs = this.#now();
    if (this.#endsMs === undefined) {
      this.#endsMs = nowMs + this.#longestMs;
      afterThisTurn(() => {
        this.#endsMs = undefined;
      });
    }
    if (nowMs < this.#endsMs) return undefined;
    this.#next = this.#wait();
    return this.#next;
  }

  async #wait(): Promise<void> {
    await nextTurn();
    this.#next = undefined;
  }
}

/** Work that can be interrupted wherever it yields. */
export type Steps<T> = Generator<void, T, void>;

/** Does all of it at once. */
export function finish<T>(steps: Steps<T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/** Interrupts long work: of all that is in progress, one piece runs in each turn. */
export class TurnQueue {
  readonly #now: () => number;
  readonly #longestMs: number;
  #last: Promise<void> = Promise.resolve();

  /** @param longestMs - Work gives way at its first yield after this time. */
  constructor(now: () => number, longestMs: number) {
    this.#now = now;
    this.#longestMs = longestMs;
  }

  /** Resolves in a turn in which no other work of the queue has begun. */
  next(): Promise<void> {
    this.#last = this.#last.then(nextTurn);
    return this.#last;
  }

  async finish<T>(steps: Steps<T>): Promise<T> {
    for (;;) {
      await this.next();
      const untilMs = this.#now() + this.#longestMs;
      do {
        const step = steps.next();
        if (step.done === true) return step.value;
      } while (this.#now() < untilMs);
    }
  }
}
