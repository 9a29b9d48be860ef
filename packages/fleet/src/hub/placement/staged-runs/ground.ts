import { PARENT_PLACEMENT_LABEL } from "#api/placement.kubernetes-fleet.io/names.ts";
import type {
  Placement,
  ResourceBinding,
  SchedulingPolicySnapshot,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { defined } from "@fairlead/base/defined.ts";
import { type ObjectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import type { OwnWrites } from "@fairlead/kube/informer/own-writes.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { isLatest } from "#placement/snapshots/history.ts";
import { OF_PLACEMENT, type ScopeInformers } from "../informers.ts";

/** What a run depends on in its placement. */
export interface PlacementView {
  readonly placement: Placement | undefined;
  /** The latest one. */
  readonly policy: SchedulingPolicySnapshot | undefined;
  readonly bindings: readonly ResourceBinding[];
}

export function viewOf(
  { placements, policySnapshots }: ScopeInformers,
  bindings: OwnWrites<ResourceBinding>,
  key: ObjectKey,
): PlacementView {
  return {
    placement: placements.store.get(key),
    policy: [...policySnapshots.store.byIndex(OF_PLACEMENT, key)].find(isLatest),
    bindings: bindings.list(key),
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
