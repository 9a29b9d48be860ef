import type { Clock } from "@fairlead/base/clock.ts";
import { FleetError, hasCode } from "@fairlead/base/errors.ts";

export interface RequestOptions {
  /** Longest wait for a response. Unit: milliseconds. Default: 35 s, longer than any admission webhook may take. */
  readonly timeoutMs?: number;
}

const TIMEOUT_MS = 35_000;
/** Requests under way: fewer than the client allows, so that other controllers of the member have their turn. */
const MAX_TOTAL = 12;
const MAX_PER_LANE = 4;
/** Lanes that are remembered as hanging. */
const MAX_HANGING = 1000;

interface Waiting {
  readonly lane: string;
  readonly start: () => void;
}

/**
 * Writes to this cluster, with a deadline each. Writes that may meet the same admission webhooks are one lane. A lane in which a write
 * had no response in time takes one write at a time until one has: what hangs there does not hold up the other lanes.
 */
export class Requests {
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #underWay = new Map<string, number>();
  readonly #hanging = new Set<string>();
  readonly #waiting: Waiting[] = [];
  #total = 0;

  constructor(clock: Clock, { timeoutMs = TIMEOUT_MS }: RequestOptions = {}) {
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
  }

  /** @throws {FleetError} `TIMED_OUT` if there is no response in time, or if another request of the lane waits for one. */
  async write<T>(lane: string, signal: AbortSignal, call: (signal: AbortSignal) => Promise<T>): Promise<T> {
    if (this.#hanging.has(lane) && (this.#underWay.get(lane) ?? 0) > 0)
      throw new FleetError("TIMED_OUT", "not sent: an earlier request for this kind has no response yet", {
        retriable: true,
      });
    await this.#turn(lane);
    try {
      const response = await this.timed(signal, call);
      this.#hanging.delete(lane);
      return response;
    } catch (error) {
      if (hasCode(error, "TIMED_OUT")) this.#hang(lane);
      else this.#hanging.delete(lane);
      throw error;
    } finally {
      this.#end(lane);
    }
  }

  /** Lanes are named after objects, which come and go: what hung first is forgotten. */
  #hang(lane: string): void {
    this.#hanging.delete(lane);
    const [first] = this.#hanging;
    if (this.#hanging.size >= MAX_HANGING && first !== undefined) this.#hanging.delete(first);
    this.#hanging.add(lane);
  }

  /** @throws {FleetError} `TIMED_OUT` */
  async timed<T>(signal: AbortSignal, call: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const late = new AbortController();
    using _timer = this.#clock.after(this.#timeoutMs, () => late.abort());
    try {
      return await call(AbortSignal.any([signal, late.signal]));
    } catch (error) {
      if (!late.signal.aborted || signal.aborted) throw error;
      throw new FleetError(
        "TIMED_OUT",
        `the API server did not respond within ${this.#timeoutMs / 1000} s; an admission webhook may hang`,
        { retriable: true },
      );
    }
  }

  #turn(lane: string): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push({ lane, start: resolve });
      this.#serve();
    });
  }

  #end(lane: string): void {
    this.#total -= 1;
    const left = (this.#underWay.get(lane) ?? 1) - 1;
    if (left === 0) this.#underWay.delete(lane);
    else this.#underWay.set(lane, left);
    this.#serve();
  }

  #serve(): void {
    while (this.#total < MAX_TOTAL) {
      const at = this.#waiting.findIndex(({ lane }) => this.#hasRoom(lane));
      const [next] = at < 0 ? [] : this.#waiting.splice(at, 1);
      if (next === undefined) return;
      this.#total += 1;
      this.#underWay.set(next.lane, (this.#underWay.get(next.lane) ?? 0) + 1);
      next.start();
    }
  }

  #hasRoom(lane: string): boolean {
    return (this.#underWay.get(lane) ?? 0) < (this.#hanging.has(lane) ? 1 : MAX_PER_LANE);
  }
}
