import type { Condition, KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { keyOf, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Labels } from "@fairlead/base/metrics.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";

/** When the conditions of profiles and backends were written last, under the names that existing dashboards show. */
export interface StatusGauges {
  note(kind: "profile" | "backend", object: KubeObject, condition: Condition): void;
  /** Removes the series of an object that is deleted. */
  forget(kind: "profile" | "backend", key: ObjectKey): void;
}

export function createStatusGauges({ metrics, clock }: RuntimeDeps): StatusGauges {
  const labels = ["namespace", "name", "generation", "condition", "status", "reason"];
  const gauge = (kind: string) =>
    metrics.gauge({
      name: `fleet_networking_traffic_manager_${kind}_status_last_timestamp_seconds`,
      help: `When a condition of a traffic manager ${kind} was written last.`,
      labels,
    });
  const gauges = { profile: gauge("profile"), backend: gauge("backend") };
  const said = { profile: new Map<ObjectKey, Labels[]>(), backend: new Map<ObjectKey, Labels[]>() };
  const forget: StatusGauges["forget"] = (kind, key) => {
    for (const it of said[kind].get(key) ?? []) gauges[kind].remove(it);
    said[kind].delete(key);
  };
  return {
    forget,
    note(kind, object, { type, status, reason }) {
      const { namespace = "", name, generation = 0 } = object.metadata;
      const key = keyOf(object);
      const now: Labels = {
        namespace,
        name,
        generation: String(generation),
        condition: type,
        status,
        reason,
      };
      // Of one generation, what came after what stays visible; earlier ones would pile up.
      if (said[kind].get(key)?.[0]?.["generation"] !== now["generation"]) forget(kind, key);
      gauges[kind].set(now, clock.now() / 1000);
      const known = said[kind].get(key) ?? [];
      if (!known.some((it) => it["status"] === status && it["reason"] === reason))
        said[kind].set(key, [...known, now]);
    },
  };
}
