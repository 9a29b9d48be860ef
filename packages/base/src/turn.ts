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
