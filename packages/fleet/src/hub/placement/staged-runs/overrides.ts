import { PARENT_PLACEMENT_LABEL } from "#api/placement.kubernetes-fleet.io/names.ts";
import type { ResourceSnapshot } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { applicableOverrides, candidatesFor } from "#placement/overrides/match.ts";
import type { OverridesOf } from "#updates/staged/initialize.ts";
import { findSnapshot } from "../contents.ts";
import type { ScopeInformers } from "../informers.ts";
import { overriddenCluster, type RolloutParts } from "../parts.ts";

/** The override snapshots that apply to what a resource snapshot holds, by cluster. */
export async function overridesOf(
  { informers, members, contents }: RolloutParts,
  scope: ScopeInformers,
  { metadata: { name, namespace, labels } }: ResourceSnapshot,
  signal: AbortSignal,
): Promise<OverridesOf> {
  const candidates = candidatesFor(
    { name: labels?.[PARENT_PLACEMENT_LABEL] ?? "", namespace },
    informers.clusterOverrideSnapshots.store.list(),
    informers.overrideSnapshots.store.list(),
  );
  if (candidates.cluster.length + candidates.namespaced.length === 0) return () => ({});
  const group = findSnapshot(scope, namespace, name);
  const { selecting } =
    group === undefined ? { selecting: new Set<string>() } : await contents.read(scope, group, { signal });
  return (cluster) => {
    const found = applicableOverrides(candidates, selecting, overriddenCluster(members, cluster));
    return {
      ...(found.namespaced.length === 0 ? {} : { resourceOverrideSnapshots: [...found.namespaced] }),
      ...(found.cluster.length === 0 ? {} : { clusterResourceOverrideSnapshots: [...found.cluster] }),
    };
  };
}
