import { abortError } from "@fairlead/base/clock.ts";

/** How many requests are under way, and how many wait. */
interface LimiterState {
  readonly limit: number;
  readonly inFlight: number;
  readonly queued: number;
}

export interface Permit {
  /** @param outcome - "throttled": the server said that it has too much to do. */
  release(outcome: "done" | "throttled"): void;
}

interface Waiting {
  readonly grant: () => void;
}

const BOUNDS = { first: 16, min: 1, max: 64 };

/**
 * Bounds the requests under way to one server by what that server takes: one more for every round that went well at the
 * bound, half as many when it refused (additive increase, multiplicative decrease: RFC 5681, section 3.1). The refusals of
 * one round count once. Those who wait are served in turn by flow, so that one controller with much to do does not keep
 * the others waiting.
 */
export class FairLimiter {
  #limit = BOUNDS.first;
  #inFlight = 0;
  /** Counts permits, and remembers the last one that found or made it full: only then the bound was put to the test. */
  #count = 0;
  #lastFull = 0;
  /** Nothing was refused yet: the bound doubles with each round (slow start: RFC 5681, section 3.1). */
  #isUntried = true;
  /** Raised by each decrease: permits of an earlier round say nothing of the present bound. */
  #round = 0;
  /** By flow; the first one is served next and then goes to the end. */
  readonly #queues = new Map<string, Waiting[]>();

  get state(): LimiterState {
    let queued = 0;
    for (const queue of this.#queues.values()) queued += queue.length;
    return { limit: Math.floor(this.#limit), inFlight: this.#inFlight, queued };
  }

  /** @throws {FleetError} `ABORTED` when `signal` aborts before it is this one's turn. */
  async acquire(flow: string, signal: AbortSignal | undefined): Promise<Permit> {
    if (this.#inFlight >= Math.floor(this.#limit) || this.#queues.size > 0) await this.#wait(flow, signal);
    else this.#inFlight++;
    const round = this.#round;
    const number = ++this.#count;
    if (this.#inFlight >= Math.floor(this.#limit)) this.#lastFull = number;
    let isReleased = false;
    return {
      release: (outcome) => {
        if (isReleased) return;
        isReleased = true;
        this.#inFlight--;
        if (outcome === "throttled") this.#decrease(round);
        else if (this.#lastFull >= number && round === this.#round)
          this.#limit = Math.min(BOUNDS.max, this.#limit + (this.#isUntried ? 1 : 1 / this.#limit));
        this.#serve();
      },
    };
  }

  #decrease(round: number): void {
    if (round !== this.#round) return;
    this.#round++;
    this.#isUntried = false;
    this.#limit = Math.max(BOUNDS.min, this.#limit / 2);
  }

  #wait(flow: string, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted === true) {
        reject(abortError(signal));
        return;
      }
      const queue = this.#queues.get(flow) ?? [];
      this.#queues.set(flow, queue);
      const onAbort = (): void => {
        queue.splice(queue.indexOf(waiting), 1);
        if (queue.length === 0) this.#queues.delete(flow);
        if (signal !== undefined) reject(abortError(signal));
      };
      const waiting: Waiting = {
        grant: () => {
          signal?.removeEventListener("abort", onAbort);
          this.#inFlight++;
          resolve();
        },
      };
      queue.push(waiting);
      signal?.addEventListener("abort", onAbort, { once: true });
    });
  }

  #serve(): void {
    while (this.#inFlight < Math.floor(this.#limit)) {
      const [next] = this.#queues;
      if (next === undefined) return;
      const [flow, queue] = next;
      this.#queues.delete(flow);
      const waiting = queue.shift();
      if (queue.length > 0) this.#queues.set(flow, queue);
      waiting?.grant();
    }
  }
}
