import type { TrafficTarget } from "#api/fairlead.dev/v1alpha1/traffic-route.ts";

type Standing = Pick<TrafficTarget, "priority" | "degraded" | "drained">;

/**
 * The targets that share the requests now: of the healthy ones (all if none is healthy), those of clusters that are not
 * drained (all if all are), and of these, those with the lowest priority. "All degraded" counts as "all healthy", as
 * in Azure Traffic Manager: the checks are then more likely to be at fault than all targets.
 */
export function answering<T extends Standing>(targets: readonly T[]): readonly T[] {
  const well = preferring(targets, (it) => it.degraded !== true);
  const staying = preferring(well, (it) => it.drained !== true);
  const first = Math.min(...staying.map((it) => it.priority ?? 0));
  return staying.filter((it) => (it.priority ?? 0) === first);
}

function preferring<T>(all: readonly T[], isPreferred: (target: T) => boolean): readonly T[] {
  const preferred = all.filter((it) => isPreferred(it));
  return preferred.length > 0 ? preferred : all;
}
