import type { Clock } from "@fairlead/base/clock.ts";
import type { Steps } from "@fairlead/base/turn.ts";
import { Pending } from "./pending.ts";
import { PIECE_MS } from "./size.ts";

/** One piece of work of a write, as far as it is done. */
interface Work {
  readonly state: object | undefined;
  readonly steps: Steps<unknown>;
  done?: { readonly result: unknown };
}

/** What the attempts of one write have done of its work. */
export class Slices {
  readonly #clock: Clock;
  readonly #works = new Map<string, Work>();
  #untilMs = 0;
  /** By this attempt. */
  #hasWorked = false;
  #isCut = false;
  #isContinued = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get isContinued(): boolean {
    return this.#isContinued;
  }

  beginAttempt(): void {
    // What came after the slices may have changed their results.
    if (!this.#isCut) this.#works.clear();
    this.#isContinued = this.#isCut;
    this.#isCut = false;
    this.#hasWorked = false;
    this.#untilMs = this.#clock.monotonic() + PIECE_MS;
  }

  resultOf<T>(name: string, state: object | undefined, start: () => Steps<T>): T {
    const work = this.#workOf(name, state, start);
    while (work.done === undefined) {
      this.#cutWhenDue();
      const step = work.steps.next();
      this.#hasWorked = true;
      if (step.done === true) work.done = { result: step.value };
    }
    this.#cutWhenDue();
    return work.done.result as T;
  }

  /** Each attempt does one step at least. */
  #cutWhenDue(): void {
    if (!this.#hasWorked || this.#clock.monotonic() < this.#untilMs) return;
    this.#isCut = true;
    throw new Pending(() => Promise.resolve());
  }

  #workOf(name: string, state: object | undefined, start: () => Steps<unknown>): Work {
    const known = this.#works.get(name);
    if (known !== undefined && known.state === state) return known;
    if (known !== undefined) this.#works.clear();
    const work: Work = { state, steps: start() };
    this.#works.set(name, work);
    return work;
  }
}
