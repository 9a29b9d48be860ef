import { abortable } from "@fairlead/base/abortable.ts";
import { backoffMs } from "@fairlead/base/backoff.ts";
import { delay } from "@fairlead/base/clock.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import type { RegistrationChange } from "./registration-table.ts";

const RETRY = { initialMs: 50, maxMs: 5000, factor: 2, jitter: 0.2 };

export interface ChangeWriterDeps extends Pick<RuntimeDeps, "clock" | "rng" | "log"> {
  /** For the log. */
  readonly nameOf: (index: number) => string;
}

/** Puts changed registrations into force, in order; those that come in the meantime go together. */
export class ChangeWriter {
  readonly #write: (changes: readonly RegistrationChange[]) => Promise<void>;
  readonly #deps: ChangeWriterDeps;
  #changes: RegistrationChange[] = [];
  #written: (() => void)[] = [];
  #wake = Promise.withResolvers<void>();

  /** @param write - Makes good for an earlier failure when it is called again, with or without changes. */
  constructor(write: (changes: readonly RegistrationChange[]) => Promise<void>, deps: ChangeWriterDeps) {
    this.#write = write;
    this.#deps = deps;
  }

  /** @param written - Called once the changes are in force. */
  enqueue(changes: readonly RegistrationChange[], written: () => void = () => {}): void {
    if (changes.length === 0) return;
    const { log, nameOf } = this.#deps;
    for (const { before, after } of changes) {
      const of = after ?? before;
      if (of === undefined) continue;
      const detail = { from: nameOf(of.from), to: nameOf(of.to), address: of.source.address };
      log.info(after === undefined ? "a gateway is gone" : "a gateway has registered", detail);
    }
    this.#changes.push(...changes);
    this.#written.push(written);
    this.#wake.resolve();
  }

  /** Runs until `signal` aborts; rejects then. */
  async run(signal: AbortSignal): Promise<never> {
    const { clock, rng, log } = this.#deps;
    for (let failures = 0; ;) {
      await abortable(this.#wake.promise, signal);
      this.#wake = Promise.withResolvers<void>();
      const [changes, written] = [this.#changes, this.#written];
      [this.#changes, this.#written] = [[], []];
      try {
        await this.#write(changes);
        failures = 0;
        for (const it of written) it();
      } catch (error) {
        signal.throwIfAborted();
        log.error("cannot change what is forwarded", { error: messageOf(error) });
        await delay(clock, backoffMs(RETRY, failures++, rng), signal);
        this.#wake.resolve();
      }
    }
  }
}
