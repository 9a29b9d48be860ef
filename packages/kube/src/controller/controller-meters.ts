import type { Metrics } from "@fairlead/base/metrics.ts";

/** controller-runtime's. Unit: seconds. */
const TIME_BUCKETS = [
  0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5,
  1.75, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60,
];
/** Unit: seconds. */
const HOP_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];
const RESULTS = ["success", "error", "requeue", "requeue_after"] as const;

export interface ControllerMeters {
  result(result: (typeof RESULTS)[number]): void;
  failed(): void;
  took(tookSeconds: number): void;
  acted(tookSeconds: number): void;
  active(count: number): void;
  limit(count: number): void;
}

/** Names and labels are controller-runtime's, so that existing dashboards show them. */
export function createControllerMeters(metrics: Metrics, controller: string): ControllerMeters {
  const named = (suffix: string, help: string, labels = ["controller"]) => ({
    name: `controller_runtime_${suffix}`,
    help,
    labels,
  });
  const own = { controller };
  const total = metrics.counter(named("reconcile_total", "Passes, by result.", ["controller", "result"]));
  const errors = metrics.counter(named("reconcile_errors_total", "Passes that failed."));
  const seconds = metrics.histogram({
    ...named("reconcile_time_seconds", "How long a pass takes."),
    buckets: TIME_BUCKETS,
  });
  const workers = metrics.gauge(named("active_workers", "Passes that run."));
  const limit = metrics.gauge(named("max_concurrent_reconciles", "Passes that may run at a time."));
  const hops = metrics.histogram({
    name: "fairlead_hop_duration_seconds",
    help: "Time from the observation of a change to the end of its reconcile, including failures and waiting.",
    labels: ["controller"],
    buckets: HOP_BUCKETS,
  });
  // Rates of what has not happened yet are 0, not absent.
  for (const result of RESULTS) total.add({ ...own, result }, 0);
  errors.add(own, 0);
  workers.set(own, 0);
  return {
    result: (result) => total.add({ ...own, result }),
    failed: () => errors.add(own),
    took: (tookSeconds) => seconds.observe(own, tookSeconds),
    acted: (tookSeconds) => hops.observe(own, tookSeconds),
    active: (count) => workers.set(own, count),
    limit: (count) => limit.set(own, count),
  };
}
