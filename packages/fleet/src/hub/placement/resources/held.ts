import { byText } from "@fairlead/base/text.ts";
import { keyOf, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import {
  PLACEMENT_MANAGER,
  RESOURCE_HASH_ANNOTATION,
  RESOURCE_INDEX_LABEL,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import type { ResourceSnapshot } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { contentOf } from "#placement/selection/content.ts";
import { identifierIn, orderKey, type SelectedObject } from "#placement/selection/select.ts";
import { latestOf } from "#placement/snapshots/history.ts";
import { resourceHash } from "#placement/snapshots/parts.ts";
import { isMaster } from "#placement/snapshots/resources.ts";
import { findSnapshot } from "../contents.ts";
import type { ScopeInformers } from "../informers.ts";
import type { SnapshotParts } from "./parts.ts";

/** What snapshots hold, which is read from the API server: informers have them without. */

/** What the latest snapshot holds, in canonical order; undefined if no snapshot exists. */
export async function placedBefore(
  { contents }: SnapshotParts,
  of: ScopeInformers,
  snapshots: readonly ResourceSnapshot[],
  signal: AbortSignal,
): Promise<SelectedObject[] | undefined> {
  const latest = latestOf(snapshots.filter(isMaster), RESOURCE_INDEX_LABEL);
  if (latest === undefined) return undefined;
  const { name, namespace } = latest.metadata;
  const snapshot = findSnapshot(of, namespace, name);
  if (snapshot === undefined) return undefined;
  const { parts } = await contents.read(of, snapshot, { signal });
  return parts
    .flatMap((it) => it.resources.map(selectedBefore))
    .toSorted((x, y) => byText(orderKey(x.id), orderKey(y.id)));
}

function selectedBefore(object: KubeObject): SelectedObject {
  return { id: identifierIn(object), content: contentOf(object) };
}

/**
 * A snapshot that another program made, or another version of this one, has a hash that says nothing here: what it holds is compared
 * once. If it holds what is selected now it stays, and nothing is rolled out.
 *
 * @returns The master of that snapshot.
 */
export async function takeOver(
  parts: SnapshotParts,
  at: {
    readonly key: ObjectKey;
    readonly of: ScopeInformers;
    readonly snapshots: readonly ResourceSnapshot[];
    readonly hash: string;
  },
  signal: AbortSignal,
): Promise<ResourceSnapshot | undefined> {
  const { key, of, snapshots, hash } = at;
  const latest = latestOf(snapshots.filter(isMaster), RESOURCE_INDEX_LABEL);
  if (latest === undefined || latest.metadata.annotations?.[RESOURCE_HASH_ANNOTATION] === hash)
    return undefined;
  if (parts.compared.get(key) === latest.metadata.name) return undefined;
  const before = await placedBefore(parts, of, snapshots, signal);
  parts.compared.set(key, latest.metadata.name);
  if (before === undefined || resourceHash(before) !== hash) return undefined;
  const annotations = { [RESOURCE_HASH_ANNOTATION]: hash };
  await parts.client.mergePatch(
    of.scope.resourceSnapshots,
    keyOf(latest),
    { metadata: { annotations } },
    { fieldManager: PLACEMENT_MANAGER, signal },
  );
  return latest;
}
