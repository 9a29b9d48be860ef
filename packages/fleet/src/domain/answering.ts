import type { TrafficTarget } from "#api/fairlead.dev/v1alpha1/traffic-route.ts";

type Standing = Pick<TrafficTarget, "priority" | "degraded" | "drained">;

/**
 * The targets that share the requests now: of those that are well, or of all where none is, those whose clusters are not
 * being drained, or all where all are; and of these the ones that serve first. "All degraded" counts as "all well", as
 * in Azure Traffic Manager: the checks are then more likely to be at fault than everything they check.
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
