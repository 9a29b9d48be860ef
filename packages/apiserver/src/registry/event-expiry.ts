import type { Clock } from "@fairlead/base/clock.ts";
import type { Store, StoreChange, Transaction } from "#storage/store.ts";
import type { FollowUp } from "./registry.ts";

/** As the real server: `--event-ttl`. Unit: milliseconds. */
const EVENT_TTL_MS = 3_600_000;
/** How much later than its expiry an event is deleted at most, so that one sweep deletes many. Unit: milliseconds. */
const SWEEP_GRACE_MS = 10_000;
const EVENTS = "events";

/** Deletes Events an hour after their last write. */
export class EventExpiry implements FollowUp {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #wake: () => void;
  /** Key → when it expires, soonest first: a Map keeps the order of insertion, and every event lives equally long. */
  readonly #expiries = new Map<string, number>();
  #timer: Disposable | undefined;

  /** @param wake - Makes a write happen, in which `collect` is called. */
  constructor(store: Store, clock: Clock, wake: () => void) {
    this.#store = store;
    this.#clock = clock;
    this.#wake = wake;
  }

  get isIdle(): boolean {
    const [soonest] = this.#expiries.values();
    return soonest === undefined || soonest > this.#clock.now();
  }

  observe({ table, key, after }: StoreChange): void {
    if (table.id !== EVENTS) return;
    this.#expiries.delete(key);
    if (after !== undefined) this.#expiries.set(key, this.#clock.now() + EVENT_TTL_MS);
    this.#arm();
  }

  collect(tx: Transaction, budget: number): void {
    const table = this.#store.table(EVENTS);
    const nowMs = this.#clock.now();
    let left = budget;
    for (const [key, expiry] of this.#expiries) {
      if (left === 0 || expiry > nowMs) break;
      left -= 1;
      this.#expiries.delete(key);
      tx.remove(table, key);
    }
  }

  #arm(): void {
    const [soonest] = this.#expiries.values();
    if (soonest === undefined || this.#timer !== undefined) return;
    const delayMs = Math.max(0, soonest - this.#clock.now()) + SWEEP_GRACE_MS;
    this.#timer = this.#clock.after(delayMs, () => {
      this.#timer = undefined;
      this.#wake();
      this.#arm();
    });
  }

  [Symbol.dispose](): void {
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
  }
}
