import { abortable } from "@fairlead/base/abortable.ts";
import { backoffMs } from "@fairlead/base/backoff.ts";
import { type Clock, delay } from "@fairlead/base/clock.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import type { Logger } from "@fairlead/base/log.ts";
import type { Rng } from "@fairlead/base/rng.ts";
import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { NftDriver } from "@fairlead/os/nft/driver.ts";
import type { DesiredElements } from "./desired.ts";
import type { FlowTable } from "./flows.ts";
import { KernelTable, type TableLayout } from "./kernel-table.ts";

export interface TableLoopOptions {
  readonly layout: TableLayout;
  /** Brings the desired elements of these services up to date. */
  readonly plan: (due: ReadonlySet<ObjectKey>, desired: DesiredElements) => void;
  readonly nft: NftDriver;
  readonly flows: FlowTable;
  readonly clock: Clock;
  readonly rng: Rng;
  readonly log: Logger;
  /** The table was deleted by another program, and is there again. */
  readonly onLost?: (table: string) => void;
}

/** How often and how fast the kernel is asked again after it refused. */
const RETRY = { initialMs: 50, maxMs: 5000, factor: 2, jitter: 0.2 };

/** Keeps a table equal to what is planned: services that are due together share a transaction. Stopping it leaves the table as it is. */
export class TableLoop implements AsyncDisposable {
  readonly #options: TableLoopOptions;
  readonly #table: KernelTable;
  readonly #stop = new AbortController();
  /** Services to be planned again. */
  #due = new Set<ObjectKey>();
  #wake = Promise.withResolvers<void>();
  #isIdle = false;
  #idle = Promise.withResolvers<void>();
  #running: Promise<void> = Promise.resolve();

  constructor(options: TableLoopOptions) {
    this.#options = options;
    this.#table = new KernelTable(options);
  }

  start(): void {
    this.#wake.resolve();
    this.#running = this.#run(this.#stop.signal);
  }

  markDue(key: ObjectKey): void {
    this.#due.add(key);
    if (this.#isIdle) {
      this.#isIdle = false;
      this.#idle = Promise.withResolvers();
    }
    this.#wake.resolve();
  }

  /** Another program may have changed the table: all of it is compared. */
  doubt(): void {
    this.#table.doubt();
    this.#wake.resolve();
  }

  /** Resolves when the kernel holds what is planned, nothing is due, and flows of UDP have been ended. */
  async idle(signal: AbortSignal): Promise<void> {
    while (!this.#isIdle) await abortable(this.#idle.promise, signal);
    await this.#options.flows.idle(signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #run(signal: AbortSignal): Promise<void> {
    for (let failures = 0; !signal.aborted;) {
      try {
        await abortable(this.#wake.promise, signal);
        this.#wake = Promise.withResolvers();
        const due = this.#due;
        this.#due = new Set();
        this.#options.plan(due, this.#table.desired);
        await this.#table.sync(signal);
        failures = 0;
        if (this.#due.size === 0) this.#becomeIdle();
      } catch (error) {
        if (signal.aborted) return;
        this.#options.log.warn("the kernel's table could not be brought up to date; will try again", {
          error: messageOf(error),
        });
        await delay(this.#options.clock, backoffMs(RETRY, failures, this.#options.rng), signal).catch(
          () => {},
        );
        failures++;
        this.#wake.resolve();
      }
    }
  }

  #becomeIdle(): void {
    this.#isIdle = true;
    this.#idle.resolve();
  }
}
