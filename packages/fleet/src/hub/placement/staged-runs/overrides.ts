import type { ResourceSnapshot } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type { OverridesOf } from "#updates/staged/initialize.ts";
import type { ScopeInformers } from "../informers.ts";
import { overridesOf } from "../overrides/of-cluster.ts";
import type { RolloutParts } from "../parts.ts";

/** The override snapshots that apply to what a resource snapshot holds, by cluster; without lists that are empty. */
export async function overridesOfRun(
  parts: RolloutParts,
  scope: ScopeInformers,
  snapshot: ResourceSnapshot,
  signal: AbortSignal,
): Promise<OverridesOf> {
  const of = await overridesOf(parts, scope, snapshot, signal);
  return (cluster) => Object.fromEntries(Object.entries(of(cluster)).filter(([, list]) => list.length > 0));
}
