import type { Clock } from "@fairlead/base/clock.ts";
import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";

/**
 * A status is as large as its clusters are many, and each of them changes it several times in a rollout: so that all of it costs a
 * constant for each cluster, writes keep a distance of 1 ms for each. Unit: milliseconds.
 */
const MS_PER_CLUSTER = 1;
/** A placement on few clusters is reported at once. */
const FEW_CLUSTERS = 20;
const MAX_WAIT_MS = 1000;

export class OwnPace {
  readonly #clock: Clock;
  readonly #nextMs = new Map<ObjectKey, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** How much longer to wait before the next write. */
  waitMs(key: ObjectKey): number {
    return Math.max(0, (this.#nextMs.get(key) ?? 0) - this.#clock.monotonic());
  }
  note(key: ObjectKey, clusters: number): void {
    if (clusters <= FEW_CLUSTERS) this.#nextMs.delete(key);
    else this.#nextMs.set(key, this.#clock.monotonic() + Math.min(MAX_WAIT_MS, clusters * MS_PER_CLUSTER));
  }
  forget(key: ObjectKey): void {
    this.#nextMs.delete(key);
  }
}
