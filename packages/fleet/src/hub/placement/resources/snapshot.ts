import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { clockOfServer } from "@fairlead/kube/client/server-clock.ts";
import type { ReconcileResult } from "@fairlead/kube/types.ts";
import type { Placement, ResourceSnapshot } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { problemText } from "#placement/selection/check.ts";
import {
  isIncomplete,
  type SelectedObject,
  type Selection,
  withPlacedBefore,
} from "#placement/selection/select.ts";
import { RESOURCE_INDEX_LABEL } from "#api/placement.kubernetes-fleet.io/names.ts";
import type { SnapshotPace } from "#placement/snapshots/pace.ts";
import { latestOf } from "#placement/snapshots/history.ts";
import { resourceHash } from "#placement/snapshots/parts.ts";
import { isMaster, planResourceSnapshot, resourceSnapshots } from "#placement/snapshots/resources.ts";
import { indexAwaitedBy } from "#updates/staged/advance.ts";
import { OF_PLACEMENT } from "../informers.ts";
import { placedBefore, takeOver } from "./held.ts";
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
  const { outcomes, evaluations } = parts;
  const waitMs = outcomes.get(key, placement) === undefined ? 0 : evaluations.waitMs(key);
  if (waitMs > 0) return { requeueAfterMs: waitMs };
  const found = await selectNow(parts, key, placement, signal);
  if ("waitMs" in found) return found.waitMs === undefined ? undefined : { requeueAfterMs: found.waitMs };
  if ("problem" in found) {
    outcomes.set(key, outcomeOf(placement, [], found.problem));
    return;
  }
  const { objects } = found;
  evaluations.note(key, objects.length);
  const ids = objects.map((it) => it.id);
  outcomes.set(key, outcomeOf(placement, ids));
  if (placement.spec.strategy?.type === "External") return;
  const next = await write(parts, key, placement, { objects, pace: parts.pace, signal });
  return next.waitMs === undefined ? undefined : { requeueAfterMs: next.waitMs };
}

/**
 * The master of the snapshot of what a placement selects now, which is made if the latest one holds something else: for what rolls
 * placements out that have strategy External. Undefined while it is not known what they select.
 */
export async function snapshotNow(
  parts: SnapshotParts,
  key: ObjectKey,
  placement: Placement,
  signal: AbortSignal,
): Promise<ResourceSnapshot | { readonly problem: string } | undefined> {
  const found = await selectNow(parts, key, placement, signal);
  if ("waitMs" in found) return undefined;
  if ("problem" in found) return found;
  const pace = { minIntervalMs: 0, collectMs: 0 };
  const { master } = await write(parts, key, placement, { objects: found.objects, pace, signal });
  return master;
}

type Selected =
  | { readonly objects: readonly SelectedObject[] }
  | { readonly problem: string }
  /** Unit: milliseconds. Undefined: until a change makes the placement due. */
  | { readonly waitMs: number | undefined };

async function selectNow(
  parts: SnapshotParts,
  key: ObjectKey,
  placement: Placement,
  signal: AbortSignal,
): Promise<Selected> {
  const { informers, resources } = parts;
  const of = scopeOf(informers, key);
  const found = resources.select(placement);
  if (found === undefined) return { waitMs: undefined };
  const { input } = found;
  let { selection } = found;
  if (isIncomplete(input, selection)) {
    const patienceMs = resources.patienceMs(selection.unread);
    if (patienceMs > 0) return { waitMs: patienceMs };
    const snapshots = [...of.resourceSnapshots.store.byIndex(OF_PLACEMENT, key)];
    const before = await placedBefore(parts, of, snapshots, signal);
    // What a user names is waited for; of a namespace's content what can be read is a beginning.
    if (before === undefined && isNamed(placement, selection)) return { waitMs: undefined };
    selection = withPlacedBefore(input, selection, before ?? []);
  }
  if (selection.problems.length > 0) return { problem: problemText(selection.problems) };
  return { objects: selection.objects };
}

/** @returns The master of the latest snapshot; and when another one is due. Unit: milliseconds. */
async function write(
  parts: SnapshotParts,
  key: ObjectKey,
  placement: Placement,
  {
    objects,
    pace,
    signal,
  }: {
    readonly objects: readonly SelectedObject[];
    readonly pace: SnapshotPace;
    readonly signal: AbortSignal;
  },
): Promise<{ readonly master: ResourceSnapshot | undefined; readonly waitMs?: number | undefined }> {
  const { client, informers, deps } = parts;
  const of = scopeOf(informers, key);
  const snapshots = [...of.resourceSnapshots.store.byIndex(OF_PLACEMENT, key)];
  const hash = resourceHash(objects);
  const taken = await takeOver(parts, { key, of, snapshots, hash }, signal);
  if (taken !== undefined) return { master: taken };
  const plan = planResourceSnapshot({
    placement,
    snapshots,
    bindings: [...of.bindings.store.byIndex(OF_PLACEMENT, key)],
    awaited: [...of.runs.store.byIndex(OF_PLACEMENT, key)].flatMap(indexAwaitedBy),
    hash,
    pace,
    nowMs: clockOfServer(client, deps.clock).now(),
  });
  const created =
    plan.create === undefined ? [] : resourceSnapshots(placement, { index: plan.create, hash, objects });
  const stored = await writeSnapshots({ client, of: of.scope.resourceSnapshots, signal }, plan, created);
  if (stored.length > 0) parts.contents.note(of, stored);
  const made = created.at(-1)?.metadata.name;
  if (made !== undefined) parts.compared.set(key, made);
  return {
    master: created.at(-1) ?? latestOf(snapshots.filter(isMaster), RESOURCE_INDEX_LABEL),
    waitMs: plan.waitMs,
  };
}

function isNamed({ spec }: Placement, { unread }: Selection): boolean {
  return unread.some((kind) =>
    spec.resourceSelectors.some((it) => it.group === kind.group && it.kind === kind.kind),
  );
}
