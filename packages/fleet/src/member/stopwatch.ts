import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type {
  EndpointSliceImport,
  InternalServiceExport,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import type { IdentitySlice } from "#api/fairlead.dev/v1alpha1/identities.ts";
import { formatPropagation, propagationOf } from "#domain/propagation.ts";
import type { Clock } from "@fairlead/base/clock.ts";
import type { HistogramMetric, Metrics } from "@fairlead/base/metrics.ts";
import { findCondition, microTimestamp } from "@fairlead/kube/objects/conditions.ts";
import type { ServerTime } from "@fairlead/kube/client/server-clock.ts";

/**
 * How long exports, endpoints and identities take through the fleet. No object is written for it: within one program it is counted on
 * the monotonic clock, and across clusters from `exportedSince` and `publishedAt`, which are in the hub's time.
 */

/** Below fleet-networking's 1, 2.5, 5, 10, 25 and 50 seconds, what these take here. Unit: milliseconds. */
const BUCKETS = [5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 25_000, 50_000, 60_000];
/** fleet-networking's bound. Unit: milliseconds. */
const LONGEST_MS = 100_000;
/** A clock with a larger error is not better than the local clock. Unit: milliseconds. */
const USABLE_ERROR_MS = 250;

/** What is remembered of each member, for `propagation`. */
const MAX_RECENT = 100;
const RECENT_MS = 3_600_000;

interface Recent {
  readonly tookMs: number;
  /** On the monotonic clock. */
  readonly atMs: number;
}

interface Begun {
  readonly atMs: number;
  /** Of the InternalServiceExport that was sent. */
  readonly generation: number;
}

export class Stopwatch {
  readonly #cluster: string;
  readonly #clock: Clock;
  readonly #hub: { readonly serverTime: ServerTime | undefined };
  readonly #propagation: HistogramMetric;
  readonly #exports: HistogramMetric;
  readonly #identities: HistogramMetric;
  /** The last changes of each other member. */
  readonly #recent = new Map<string, Recent[]>();
  readonly #begun = new Map<ObjectKey, Begun>();
  /** What was observed last of each slice, by its name. */
  readonly #imported = new Map<ObjectKey, string>();

  constructor(parts: {
    readonly cluster: string;
    readonly clock: Clock;
    readonly hub: { readonly serverTime: ServerTime | undefined };
    readonly metrics: Metrics;
  }) {
    this.#cluster = parts.cluster;
    this.#clock = parts.clock;
    this.#hub = parts.hub;
    this.#propagation = parts.metrics.histogram({
      name: "fleet_networking_endpointslice_export_import_duration_milliseconds",
      help: "From when an exporter saw a change of endpoints to when an importer had it.",
      labels: ["origin_cluster_id", "destination_cluster_id", "is_first_import"],
      buckets: BUCKETS,
    });
    this.#identities = parts.metrics.histogram({
      name: "fairlead_member_identity_propagation_milliseconds",
      help: "From when a member published pods to when another one had them for its nodes.",
      labels: ["origin_cluster_id", "destination_cluster_id", "is_first_import"],
      buckets: BUCKETS,
    });
    this.#exports = parts.metrics.histogram({
      name: "fleet_networking_service_export_duration_milliseconds",
      help: "From when a changed export was sent to when the hub's condition for it arrived.",
      labels: ["origin_cluster_id"],
      buckets: BUCKETS,
    });
  }

  /** For `exportedSince`: the hub's time to the microsecond where it is known, else this cluster's. */
  stamp(): string {
    const time = this.#hub.serverTime;
    const isKnown = time !== undefined && time.errorMs <= USABLE_ERROR_MS;
    return microTimestamp(isKnown ? time.nowMs : this.#clock.now());
  }

  get nowMs(): number {
    return this.#clock.monotonic();
  }

  /** @param sinceMs - When the pass that sent it began. */
  sent(service: ObjectKey, object: InternalServiceExport, sinceMs: number): void {
    this.#begun.set(service, { atMs: sinceMs, generation: object.metadata.generation ?? 0 });
  }

  /** What the hub says of an export, as often as it is seen. */
  answered(service: ObjectKey, object: InternalServiceExport | undefined): void {
    const begun = this.#begun.get(service);
    if (begun === undefined) return;
    const about = findCondition(object?.status?.conditions, "Conflict")?.observedGeneration ?? 0;
    if (object !== undefined && about < begun.generation) return;
    this.#begun.delete(service);
    // A withdrawn export gets no condition.
    if (object === undefined) return;
    this.#exports.observe({ origin_cluster_id: this.#cluster }, bound(this.#clock.monotonic() - begun.atMs));
  }

  /** @param written - Undefined when nothing was; else whether it is the first that this cluster has of the slice. */
  imported(
    name: ObjectKey,
    copy: EndpointSliceImport | undefined,
    written: "first" | "again" | undefined,
  ): void {
    if (copy === undefined) {
      this.#imported.delete(name);
      return;
    }
    const { clusterId, exportedSince = "" } = copy.spec.endpointSliceReference;
    // Written for a reason of this cluster's own: the endpoints are as they were.
    if (written === undefined || this.#imported.get(name) === exportedSince) return;
    this.#imported.set(name, exportedSince);
    this.#observe(this.#propagation, {
      cluster: clusterId,
      since: exportedSince,
      isFirst: written === "first",
    });
  }

  /** @param isFirst - Whether this cluster had nothing of the slice before: it may be old. */
  copied({ spec: { cluster, publishedAt } }: IdentitySlice, isFirst: boolean): void {
    this.#observe(this.#identities, { cluster, since: publishedAt, isFirst });
  }

  /** How long changes of each member took in the last hour, as text; undefined: there were none. */
  propagation(): string | undefined {
    const sinceMs = this.nowMs - RECENT_MS;
    for (const [cluster, all] of this.#recent)
      if ((all.at(-1)?.atMs ?? 0) < sinceMs) this.#recent.delete(cluster);
    if (this.#recent.size === 0) return undefined;
    return formatPropagation(
      Array.from(this.#recent, ([cluster, all]) => {
        const recent = all.filter((it) => it.atMs >= sinceMs);
        return propagationOf(
          cluster,
          recent.map((it) => it.tookMs),
        );
      }),
    );
  }

  #observe(
    metric: HistogramMetric,
    {
      cluster,
      since,
      isFirst,
    }: { readonly cluster: string; readonly since: string; readonly isFirst: boolean },
  ): void {
    const tookMs = (this.#hub.serverTime?.nowMs ?? this.#clock.now()) - Date.parse(since);
    if (Number.isNaN(tookMs)) return;
    const labels = {
      origin_cluster_id: cluster,
      destination_cluster_id: this.#cluster,
      is_first_import: String(isFirst),
    };
    metric.observe(labels, bound(tookMs));
    // What is first here may be old.
    if (!isFirst) this.#remember(cluster, bound(tookMs));
  }

  #remember(cluster: string, tookMs: number): void {
    const all = this.#recent.get(cluster) ?? [];
    this.#recent.set(cluster, [...all.slice(1 - MAX_RECENT), { tookMs, atMs: this.nowMs }]);
  }
}

function bound(ms: number): number {
  return Math.min(LONGEST_MS, Math.max(0, ms));
}
