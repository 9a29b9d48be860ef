import { OF_LATEST, placementOf, type ScopeInformers } from "../informers.ts";
import { splitKey } from "@fairlead/kube/api/meta/key.ts";
import type { ResourceSnapshot } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { applicableOverrides, candidatesFor } from "#placement/overrides/match.ts";
import type { ApplicableOverrides } from "#placement/rollout/plan.ts";
import { findSnapshot } from "../contents.ts";
import { overriddenCluster, type RolloutParts } from "../parts.ts";

/**
 * The override snapshots that apply to what a resource snapshot holds, by cluster. The contents are read only if there are overrides
 * that could apply.
 *
 * @param snapshot - Its first part.
 */
export async function overridesOf(
  { informers, members, contents }: Pick<RolloutParts, "contents" | "informers" | "members">,
  scope: ScopeInformers,
  snapshot: ResourceSnapshot,
  signal: AbortSignal,
): Promise<(cluster: string) => ApplicableOverrides> {
  const candidates = candidatesFor(
    splitKey(placementOf(snapshot)),
    informers.clusterOverrideSnapshots.store.byIndex(OF_LATEST, "true"),
    informers.overrideSnapshots.store.byIndex(OF_LATEST, "true"),
  );
  const isEmpty = candidates.cluster.length + candidates.namespaced.length === 0;
  const group = isEmpty
    ? undefined
    : findSnapshot(scope, snapshot.metadata.namespace, snapshot.metadata.name);
  if (group === undefined)
    return () => ({ clusterResourceOverrideSnapshots: [], resourceOverrideSnapshots: [] });
  const { selecting } = await contents.read(scope, group, { signal });
  return (cluster) => applicableOverrides(candidates, selecting(), overriddenCluster(members, cluster));
}
