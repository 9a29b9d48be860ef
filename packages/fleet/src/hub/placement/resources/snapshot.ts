import { keyOf, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { clockOfServer } from "@fairlead/kube/client/server-clock.ts";
import type { ReconcileResult } from "@fairlead/kube/types.ts";
import type { Placement, ResourceSnapshot } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { problemText } from "#placement/selection/check.ts";
import { contentOf } from "#placement/selection/content.ts";
import {
  isIncomplete,
  placedIdentifier,
  type SelectedObject,
  type Selection,
  withPlacedBefore,
} from "#placement/selection/select.ts";
import { RESOURCE_INDEX_LABEL } from "#api/placement.kubernetes-fleet.io/names.ts";
import { latestOf } from "#placement/snapshots/history.ts";
import { resourceHash } from "#placement/snapshots/parts.ts";
import {
  indexOfResources,
  isComplete,
  isMaster,
  planResourceSnapshot,
  resourceSnapshots,
} from "#placement/snapshots/resources.ts";
import { OF_PLACEMENT, type ScopeInformers } from "../informers.ts";
import { outcomeOf } from "./outcomes.ts";
import { scopeOf, type SnapshotParts } from "./parts.ts";
import { writeSnapshots } from "./write-snapshots.ts";

/** What a placement selects now to a resource snapshot, if it is time for one. */
export async function snapshotResources(
  parts: SnapshotParts,
  key: ObjectKey,
  placement: Placement,
  signal: AbortSignal,
): Promise<ReconcileResult | void> {
  const { client, informers, resources, outcomes, pace, deps } = parts;
  const of = scopeOf(informers, key);
  const found = resources.select(placement);
  if (found === undefined) return;
  const { input } = found;
  let { selection } = found;
  const snapshots = [...of.resourceSnapshots.store.byIndex(OF_PLACEMENT, key)];
  if (isIncomplete(input, selection)) {
    const patienceMs = resources.patienceMs(selection.unread);
    if (patienceMs > 0) return { requeueAfterMs: patienceMs };
    const before = await placedBefore(parts, of, snapshots, signal);
    // What a user names is waited for; of a namespace's content what can be read is a beginning.
    if (before === undefined && isNamed(placement, selection)) return;
    selection = withPlacedBefore(input, selection, before ?? []);
  }
  if (selection.problems.length > 0) {
    outcomes.set(key, outcomeOf(placement, [], problemText(selection.problems)));
    return;
  }
  const { objects } = selection;
  const ids = objects.map((it) => it.id);
  outcomes.set(key, outcomeOf(placement, ids));
  if (placement.spec.strategy?.type === "External") return;
  const hash = resourceHash(objects);
  const plan = planResourceSnapshot({
    placement,
    snapshots,
    bindings: [...of.bindings.store.byIndex(OF_PLACEMENT, key)],
    hash,
    pace,
    nowMs: clockOfServer(client, deps.clock).now(),
  });
  const created =
    plan.create === undefined ? [] : resourceSnapshots(placement, { index: plan.create, hash, objects });
  await writeSnapshots({ client, of: of.scope.resourceSnapshots, signal }, plan, created);
  return plan.waitMs === undefined ? undefined : { requeueAfterMs: plan.waitMs };
}

function isNamed({ spec }: Placement, { unread }: Selection): boolean {
  return unread.some((kind) =>
    spec.resourceSelectors.some((it) => it.group === kind.group && it.kind === kind.kind),
  );
}

/** What the latest snapshot holds; undefined if no snapshot exists. */
async function placedBefore(
  { client }: SnapshotParts,
  { scope }: ScopeInformers,
  snapshots: readonly ResourceSnapshot[],
  signal: AbortSignal,
): Promise<SelectedObject[] | undefined> {
  const latest = latestOf(snapshots.filter(isMaster), RESOURCE_INDEX_LABEL);
  if (latest === undefined || !isComplete(latest, snapshots)) return undefined;
  const parts = snapshots.filter((it) => indexOfResources(it) === indexOfResources(latest));
  const read = await Promise.all(
    parts.map((it) => client.get(scope.resourceSnapshots, keyOf(it), { signal })),
  );
  return read.flatMap((it) => it.spec.selectedResources.map(selectedBefore));
}

function selectedBefore(object: KubeObject): SelectedObject {
  const { apiVersion = "" } = object;
  const slash = apiVersion.indexOf("/");
  const group = slash < 0 ? "" : apiVersion.slice(0, slash);
  return { id: placedIdentifier(object, group, apiVersion.slice(slash + 1)), content: contentOf(object) };
}
