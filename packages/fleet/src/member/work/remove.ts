import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { clockOfServer } from "@fairlead/kube/client/server-clock.ts";
import { isDeleting, removeFinalizer } from "@fairlead/kube/objects/finalizers.ts";
import type { ReconcileResult } from "@fairlead/kube/types.ts";
import { DELETION_PROPAGATION_ANNOTATION, WORK_FINALIZER } from "#api/placement.kubernetes-fleet.io/names.ts";
import {
  APPLIED_WORKS,
  type AppliedWork,
  type Work,
  WORKS,
} from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { release } from "./applied-work.ts";
import type { PassParts } from "./parts.ts";

/** How long the objects of a deleted Work may take to go, before they are left to themselves. Unit: milliseconds. */
const DELETION_WAIT_MS = 300_000;

/** Whether its placement is deleted and leaves what it placed. */
export function isAbandoned({ metadata: { annotations } }: Work): boolean {
  return annotations?.[DELETION_PROPAGATION_ANNOTATION] === "Abandon";
}

/** The cluster leaves the fleet; it has left when no Work has the finalizer any more. */
export async function leaveWork(parts: PassParts, work: Work): Promise<ReconcileResult> {
  const { session, signal } = parts;
  const placed = session.placedOnLeave?.() ?? "Keep";
  if (placed !== "Keep") return removeWork(parts, work, placed);
  await removeFinalizer(session.hub, WORKS, work, { finalizer: WORK_FINALIZER, signal });
  return {};
}

/**
 * A Work that is being deleted, or of a cluster that leaves: deletes the AppliedWork in the foreground, with which the garbage collector deletes what it owns
 * alone; co-owned objects lose only the reference. The Work goes when the AppliedWork is gone. "Orphan": all objects lose only the
 * reference.
 */
export async function removeWork(
  parts: PassParts,
  work: Work,
  mode: "Delete" | "Orphan",
): Promise<ReconcileResult> {
  const { session, signal } = parts;
  const { local, appliedWorks, deps, deletionWaitMs = DELETION_WAIT_MS } = session;
  const key = objectKey(undefined, work.metadata.name);
  // The watch may not have brought yet one that was just created.
  const owner = appliedWorks.store.get(key) ?? (await local.find(APPLIED_WORKS, key, { signal }));
  if (owner === undefined) {
    await removeFinalizer(session.hub, WORKS, work, { finalizer: WORK_FINALIZER, signal });
    return {};
  }
  if (!isDeleting(owner)) {
    await local.delete(APPLIED_WORKS, keyOf(owner), {
      uid: owner.metadata.uid ?? "",
      propagationPolicy: mode === "Orphan" ? "Orphan" : "Foreground",
      signal,
    });
    return { requeueAfterMs: deletionWaitMs };
  }
  const sinceMs = Date.parse(owner.metadata.deletionTimestamp ?? "");
  // The API server wrote it: by its clock, not by this machine's.
  const leftMs = sinceMs + deletionWaitMs - clockOfServer(local, deps.clock).now();
  // Of times far away, the clocks are to blame: no longer than from now on.
  if (leftMs > 0) return { requeueAfterMs: Math.min(leftMs, deletionWaitMs) };
  await disownAll(parts, owner);
  return { requeueAfterMs: deletionWaitMs };
}

/** What does not go, because of finalizers of others, must not keep the AppliedWork and the Work for ever. */
async function disownAll(parts: PassParts, owner: AppliedWork): Promise<void> {
  const { log } = parts.session.deps;
  const resources = owner.status?.appliedResources ?? [];
  log.warn("objects of a deleted Work do not go: they are no longer waited for", {
    work: owner.metadata.name,
  });
  for (const it of resources) await release(parts, owner, it, "disown");
}
