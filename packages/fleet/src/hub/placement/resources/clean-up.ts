import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import { isDeleting, removeFinalizer } from "@fairlead/kube/objects/finalizers.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import {
  CLUSTER_PLACEMENT_FINALIZER,
  PLACEMENT_FINALIZER,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import type { Placement } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { OF_PLACEMENT, type PlacementInformers } from "../informers.ts";
import type { PlacementScope } from "#api/placement.kubernetes-fleet.io/scopes.ts";

export function finalizerOf({ name }: PlacementScope): string {
  return name === "cluster" ? CLUSTER_PLACEMENT_FINALIZER : PLACEMENT_FINALIZER;
}

/**
 * The end of a placement: its bindings first, whose Works are removed by the deleteStrategy of
 * the placement; then its snapshots; then the placement itself.
 */
export async function cleanUp(
  { client, informers }: { readonly client: KubeClient; readonly informers: PlacementInformers },
  placement: Placement,
  signal: AbortSignal,
): Promise<void> {
  const isNamespaced = placement.metadata.namespace !== undefined;
  const of = isNamespaced ? informers.namespaced : informers.cluster;
  const key = keyOf(placement);
  const bindings = [...of.bindings.store.byIndex(OF_PLACEMENT, key)];
  for (const it of bindings)
    if (!isDeleting(it)) await client.delete(of.scope.bindings, keyOf(it), { signal });
  // The end of the last one makes the placement due again.
  if (bindings.length > 0) return;
  for (const it of of.policySnapshots.store.byIndex(OF_PLACEMENT, key))
    await client.delete(of.scope.policySnapshots, keyOf(it), { signal });
  for (const it of of.resourceSnapshots.store.byIndex(OF_PLACEMENT, key))
    await client.delete(of.scope.resourceSnapshots, keyOf(it), { signal });
  await removeFinalizer(client, of.scope.placements, placement, { finalizer: finalizerOf(of.scope), signal });
}
