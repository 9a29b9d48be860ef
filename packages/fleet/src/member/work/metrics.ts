import type { CounterMetric, Metrics } from "@fairlead/base/metrics.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import type { Work } from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";

/** KubeFleet's counters of passes over Works and their manifests, by what came of them. */
export class WorkMetrics {
  readonly #works: CounterMetric;
  readonly #manifests: CounterMetric;

  constructor(metrics: Metrics) {
    const labels = ["apply_status", "availability_status", "diff_reporting_status"];
    this.#works = metrics.counter({
      name: "fleet_work_processing_requests_total",
      help: "Passes over Works, retries included.",
      labels,
    });
    this.#manifests = metrics.counter({
      name: "fleet_manifest_processing_requests_total",
      help: "Manifests in these passes, also those that had not changed.",
      labels: [...labels, "drift_detection_status", "diff_detection_status"],
    });
  }

  count({ conditions, manifestConditions = [] }: NonNullable<Work["status"]>): void {
    this.#works.add(statusesOf(conditions));
    for (const it of manifestConditions)
      this.#manifests.add({
        ...statusesOf(it.conditions),
        drift_detection_status: it.driftDetails === undefined ? "NotFound" : "Found",
        diff_detection_status: it.diffDetails === undefined ? "NotFound" : "Found",
      });
  }
}

function statusesOf(conditions: readonly Condition[] | undefined) {
  const of = (type: string): string => {
    const found = findCondition(conditions, type);
    if (found === undefined) return "Skipped";
    return found.status === "Unknown" ? "Unknown" : found.reason;
  };
  return {
    apply_status: of("Applied"),
    availability_status: of("Available"),
    diff_reporting_status: of("DiffReported"),
  };
}
