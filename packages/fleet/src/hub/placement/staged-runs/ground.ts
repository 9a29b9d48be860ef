import { LATEST_SNAPSHOT_LABEL, PARENT_PLACEMENT_LABEL } from "#api/placement.kubernetes-fleet.io/names.ts";
import type {
  Placement,
  ResourceBinding,
  SchedulingPolicySnapshot,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { defined } from "@fairlead/base/defined.ts";
import { type ObjectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { OF_PLACEMENT, type ScopeInformers } from "../informers.ts";

/** What a run depends on in its placement. */
export interface PlacementView {
  readonly placement: Placement | undefined;
  /** The latest one. */
  readonly policy: SchedulingPolicySnapshot | undefined;
  readonly bindings: readonly ResourceBinding[];
}

export function viewOf(informers: ScopeInformers, placement: ObjectKey): PlacementView {
  return {
    placement: informers.placements.store.get(placement),
    policy: [...informers.policySnapshots.store.byIndex(OF_PLACEMENT, placement)].find(isLatest),
    bindings: [...informers.bindings.store.byIndex(OF_PLACEMENT, placement)],
  };
}

/** The same from the API server: what informers have of one kind may be older than what they have of another. */
export async function readView(
  client: KubeClient,
  { scope }: ScopeInformers,
  key: ObjectKey,
  signal: AbortSignal,
): Promise<PlacementView> {
  const { namespace, name } = splitKey(key);
  const options = { ...defined({ namespace }), labelSelector: `${PARENT_PLACEMENT_LABEL}=${name}`, signal };
  const [placement, policies, bindings] = await Promise.all([
    client.find(scope.placements, key, { signal }),
    client.list(scope.policySnapshots, options),
    client.list(scope.bindings, options),
  ]);
  return { placement, policy: policies.items.find(isLatest), bindings: bindings.items };
}

export function isLatest({ metadata: { labels } }: KubeObject): boolean {
  return labels?.[LATEST_SNAPSHOT_LABEL] === "true";
}
