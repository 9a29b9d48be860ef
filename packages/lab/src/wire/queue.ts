/** Frames on their way through a wire: pure. */

export interface QueueLimits {
  /** Most frames at a time. */
  readonly frames: number;
  /** Unit: bytes. */
  readonly bytes: number;
}

interface Waiting {
  readonly dueMs: number;
  readonly frame: Uint8Array;
}

/** Holds each frame for a time, in order. What does not fit is lost, as in a router. */
export class DelayQueue {
  readonly #limits: QueueLimits;
  /** Oldest first, from `#first` on. */
  #waiting: Waiting[] = [];
  #first = 0;
  #bytes = 0;

  constructor(limits: QueueLimits) {
    this.#limits = limits;
  }

  /** When the first frame leaves. Unit: milliseconds on the clock of `push`. Undefined: nothing waits. */
  get nextDueMs(): number | undefined {
    return this.#waiting[this.#first]?.dueMs;
  }

  /** Keeps the frame until `dueMs`, and behind those that came before it. */
  push(frame: Uint8Array, dueMs: number): void {
    const count = this.#waiting.length - this.#first;
    if (count >= this.#limits.frames || this.#bytes + frame.length > this.#limits.bytes) return;
    this.#bytes += frame.length;
    this.#waiting.push({ dueMs: Math.max(dueMs, this.#waiting.at(-1)?.dueMs ?? dueMs), frame });
  }

  /** The next frame that is due; undefined: none. */
  take(nowMs: number): Uint8Array | undefined {
    const next = this.#waiting[this.#first];
    if (next === undefined || next.dueMs > nowMs) return undefined;
    this.#first += 1;
    this.#bytes -= next.frame.length;
    // Half of the array is behind: each frame is moved once at most, on average.
    if (this.#first * 2 > this.#waiting.length) {
      this.#waiting = this.#waiting.slice(this.#first);
      this.#first = 0;
    }
    return next.frame;
  }
}
