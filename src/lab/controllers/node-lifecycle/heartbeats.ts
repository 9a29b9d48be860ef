import type { Lease } from "#api/coordination/v1/types.ts";
import type { Clock } from "#base/clock.ts";
import type { Informer } from "#kube/types.ts";

/**
 * How long each node has been silent, by our own clock: nodes' clocks may be wrong. Silence counts only while we listen:
 * after the API server was away every node has the whole time again to speak.
 */
export class Heartbeats implements Disposable {
  readonly #leases: Informer<Lease>;
  readonly #clock: Clock;
  readonly #graceMs: number;
  readonly #heardAtMs = new Map<string, number>();
  readonly #subscription: Disposable;

  constructor(leases: Informer<Lease>, clock: Clock, graceMs: number) {
    this.#leases = leases;
    this.#clock = clock;
    this.#graceMs = graceMs;
    this.#subscription = leases.subscribe(({ before, after }) => {
      const name = (after ?? before)?.metadata.name ?? "";
      if (after === undefined) this.#heardAtMs.delete(name);
      else if (after.spec?.renewTime !== before?.spec?.renewTime)
        this.#heardAtMs.set(name, clock.monotonic());
    });
  }

  /** How long until the node counts as gone; 0 or less: it does. A node never heard of counts from now on. */
  leftMs(node: string): number {
    const nowMs = this.#clock.monotonic();
    const listeningSinceMs = this.#leases.watchingSinceMs ?? nowMs;
    const heardAtMs = this.#heardAtMs.get(node) ?? nowMs;
    this.#heardAtMs.set(node, heardAtMs);
    return Math.max(heardAtMs, listeningSinceMs) + this.#graceMs - nowMs;
  }

  forget(node: string): void {
    this.#heardAtMs.delete(node);
  }

  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]();
  }
}
