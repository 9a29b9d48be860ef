/** Placements of a namespace with one object on the members that have a label. */

import {
  CLUSTER_RESOURCE_PLACEMENTS,
  type Placement,
} from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { abortable } from "@fairlead/base/abortable.ts";
import { CONFIG_MAPS, NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { isConditionTrue } from "@fairlead/kube/objects/conditions.ts";
import type { Informer, KubeClient } from "@fairlead/kube/types.ts";

export interface Placing {
  readonly client: KubeClient;
  readonly placements: Informer<Placement>;
  /** The members that placements pick. */
  readonly picked: readonly string[];
  readonly signal: AbortSignal;
}

/** The first ones have the label that placements ask for. */
export function membersOf(members: number, clusters: number): Map<string, Record<string, string>> {
  const width = String(members - 1).length;
  return new Map(
    Array.from({ length: members }, (_, at) => [
      `c${String(at).padStart(width, "0")}`,
      { place: at < clusters ? "here" : "elsewhere" },
    ]),
  );
}

/** A namespace with a ConfigMap. */
export async function stage({ client, signal }: Placing, name: string): Promise<void> {
  await client.create(NAMESPACES, { metadata: { name } }, { signal });
  const metadata = { namespace: name, name: "app" };
  await client.create(CONFIG_MAPS, { metadata, data: { change: "1" } }, { signal });
}

export async function place({ client, signal }: Placing, name: string): Promise<void> {
  const clusterSelectorTerms = [{ labelSelector: { matchLabels: { place: "here" } } }];
  await client.create(
    CLUSTER_RESOURCE_PLACEMENTS,
    {
      metadata: { name },
      spec: {
        resourceSelectors: [{ group: "", version: "v1", kind: "Namespace", name }],
        policy: {
          placementType: "PickAll",
          affinity: {
            clusterAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { clusterSelectorTerms } },
          },
        },
      },
    },
    { signal },
  );
}

/** Resolves as soon as the watch says so. */
export async function untilAvailable(placing: Placing, name: string): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const look = (): void => {
    if (isAvailable(placing, name)) resolve();
  };
  using _subscription = placing.placements.subscribe(look);
  look();
  await abortable(promise, placing.signal);
}

export function isAvailable({ placements, picked }: Placing, name: string): boolean {
  const status = placements.store.get(objectKey(undefined, name))?.status;
  return (
    isConditionTrue(status?.conditions, "ClusterResourcePlacementAvailable") &&
    status?.placementStatuses?.length === picked.length
  );
}

export function observedIndex({ placements }: Placing, name: string): string | undefined {
  return placements.store.get(objectKey(undefined, name))?.status?.observedResourceIndex;
}
