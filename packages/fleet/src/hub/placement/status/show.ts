import { hasCode, messageOf } from "@fairlead/base/errors.ts";
import { keyOf, type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import { type NewCondition, timestamp } from "@fairlead/kube/objects/conditions.ts";
import { addFinalizer, isDeleting, removeFinalizer } from "@fairlead/kube/objects/finalizers.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { PLACEMENT_MANAGER, PLACEMENT_STATUS_FINALIZER } from "#api/placement.kubernetes-fleet.io/names.ts";
import {
  CLUSTER_RESOURCE_PLACEMENT_STATUSES,
  CLUSTER_RESOURCE_PLACEMENTS,
  type Placement,
  type PlacementStatus,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { isNamespace } from "#placement/selection/rules.ts";
import { statusDigest } from "#placement/status/digest.ts";
import { OF_NAME, type PlacementInformers } from "../informers.ts";
import { nextConditions, type OwnStatus } from "./desired.ts";

/** The status of a ClusterResourcePlacement in the namespace that it selects, for users who may read no more than that. */

interface ShowParts {
  readonly client: KubeClient;
  readonly informers: PlacementInformers;
  readonly deps: RuntimeDeps;
}
/** Undefined: it is not to be shown. A text: why it could not be. */
export type Shown = { readonly problem?: string; readonly namespace: string } | undefined;

const PREFIX = "ClusterResourcePlacement";
const SYNCED = `${PREFIX}StatusSynced`;

export async function showStatus(
  parts: ShowParts,
  { placement, desired }: { readonly placement: Placement; readonly desired: OwnStatus },
  signal: AbortSignal,
): Promise<Shown> {
  const { client, informers } = parts;
  const { metadata, spec } = placement;
  if (metadata.namespace !== undefined) return undefined;
  const { name } = metadata;
  const isShown =
    spec.statusReportingScope === "NamespaceAccessible" && desired.placementStatuses !== undefined;
  const namespace = isShown ? spec.resourceSelectors.find(isNamespace)?.name : undefined;
  for (const it of informers.shownStatuses.store.byIndex(OF_NAME, name))
    if (it.metadata.namespace !== namespace && isShown)
      await client.delete(CLUSTER_RESOURCE_PLACEMENT_STATUSES, keyOf(it), { signal });
  if (namespace === undefined) return undefined;
  await addFinalizer(client, CLUSTER_RESOURCE_PLACEMENTS, placement, {
    finalizer: PLACEMENT_STATUS_FINALIZER,
    signal,
  });
  try {
    await write(parts, { placement, namespace, desired }, signal);
    return { namespace };
  } catch (error) {
    // Of a write a moment ago, or of a server that is away: the next attempt finds out more.
    if (signal.aborted || !hasCode(error, "API_NOT_FOUND", "API_FORBIDDEN", "API_INVALID")) throw error;
    return { namespace, problem: messageOf(error) };
  }
}

async function write(
  { client, informers, deps }: ShowParts,
  {
    placement,
    namespace,
    desired,
  }: { readonly placement: Placement; readonly namespace: string; readonly desired: OwnStatus },
  signal: AbortSignal,
): Promise<void> {
  const { name } = placement.metadata;
  const conditions: Condition[] = nextConditions(placement, PREFIX, desired.conditions, deps.clock).filter(
    (it) => it.type !== SYNCED,
  );
  const sourceStatus = { ...desired, conditions } as PlacementStatus;
  const current = informers.shownStatuses.store.get(objectKey(namespace, name));
  if (current?.sourceDigest === statusDigest(sourceStatus)) return;
  const content = { sourceStatus, lastUpdatedTime: timestamp(deps.clock.now()) };
  const by = { fieldManager: PLACEMENT_MANAGER, signal };
  if (current === undefined)
    await client.create(
      CLUSTER_RESOURCE_PLACEMENT_STATUSES,
      { metadata: { name, namespace }, ...content },
      by,
    );
  else await client.mergePatch(CLUSTER_RESOURCE_PLACEMENT_STATUSES, keyOf(current), content, by);
}

/** Says whether users of the namespace see the status. */
export function syncedCondition({ metadata }: Placement, shown: Shown): NewCondition[] {
  if (shown === undefined) return [];
  const { namespace, problem } = shown;
  const at = { type: SYNCED, observedGeneration: metadata.generation ?? 0 };
  return [
    problem === undefined
      ? {
          ...at,
          status: "True",
          reason: "StatusSyncSucceeded",
          message: `ClusterResourcePlacementStatus ${metadata.name} in namespace ${namespace} has the status`,
        }
      : {
          ...at,
          status: "False",
          reason: "StatusSyncFailed",
          message: `Cannot write ClusterResourcePlacementStatus ${metadata.name} in namespace ${namespace}: ${problem}`,
        },
  ];
}

/** After the placement: what was shown of it goes, then the placement may. */
export async function endShowing(
  { client, informers }: Pick<ShowParts, "client" | "informers">,
  key: ObjectKey,
  placement: Placement | undefined,
  signal: AbortSignal,
): Promise<void> {
  if (placement?.metadata.namespace !== undefined) return;
  for (const it of informers.shownStatuses.store.byIndex(OF_NAME, key))
    if (!isDeleting(it)) await client.delete(CLUSTER_RESOURCE_PLACEMENT_STATUSES, keyOf(it), { signal });
  if (placement !== undefined)
    await removeFinalizer(client, CLUSTER_RESOURCE_PLACEMENTS, placement, {
      finalizer: PLACEMENT_STATUS_FINALIZER,
      signal,
    });
}
