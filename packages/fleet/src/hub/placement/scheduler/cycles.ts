import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { GaugeMetric, HistogramMetric } from "@fairlead/base/metrics.ts";
import type { Clock } from "@fairlead/base/clock.ts";
import type { ReconcileResult } from "@fairlead/kube/types.ts";

/** KubeFleet's metrics of its scheduler: how many cycles there are, and how long they take. */
export class Cycles {
  readonly #clock: Clock;
  readonly #durations: HistogramMetric;
  readonly #active: GaugeMetric;
  #count = 0;

  constructor({ metrics, clock }: Pick<RuntimeDeps, "metrics" | "clock">) {
    this.#clock = clock;
    this.#durations = metrics.histogram({
      name: "scheduling_cycle_duration_milliseconds",
      help: "Duration of a scheduling cycle.",
      labels: ["is_failed", "needs_requeue"],
      buckets: [10, 50, 100, 500, 1000, 5000, 10_000, 50_000],
    });
    this.#active = metrics.gauge({ name: "scheduling_active_workers", help: "Scheduling cycles under way." });
  }

  async measure(cycle: Promise<ReconcileResult | void>): Promise<ReconcileResult | void> {
    const startMs = this.#clock.monotonic();
    this.#change(1);
    const note = (isFailed: boolean, isAgain: boolean): void => {
      this.#change(-1);
      const labels = { is_failed: String(isFailed), needs_requeue: String(isAgain) };
      this.#durations.observe(labels, this.#clock.monotonic() - startMs);
    };
    try {
      const result = await cycle;
      note(false, result?.requeueAfterMs !== undefined);
      return result;
    } catch (error) {
      note(true, true);
      throw error;
    }
  }

  #change(by: number): void {
    this.#count += by;
    this.#active.set({}, this.#count);
  }
}
