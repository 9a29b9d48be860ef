import { sameJson } from "@fairlead/base/json.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { ignoreNotFound } from "@fairlead/kube/objects/not-found.ts";
import { APPLIED_GENERATION_ANNOTATION, WORK_MANAGER } from "#api/placement.kubernetes-fleet.io/names.ts";
import { versionOf } from "#placement/work/restored.ts";
import {
  APPLIED_WORKS,
  type AppliedWork,
  type Work,
  type WorkIdentifier,
} from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { isOwnedBy } from "#placement/work/ownership.ts";
import type { WorkMemory } from "./memory.ts";
import type { PassParts, WorkPass, WorkSession } from "./parts.ts";

export type Recorded = WorkIdentifier & { uid?: string };

/** The owner of what a Work applies; undefined while an earlier one is being deleted with all that it owns. */
export async function ensureAppliedWork(
  { local, appliedWorks }: WorkSession,
  work: Work,
  signal: AbortSignal,
): Promise<AppliedWork | undefined> {
  const { name, namespace = "" } = work.metadata;
  const current = appliedWorks.store.get(objectKey(undefined, name));
  if (current !== undefined && isDeleting(current)) return undefined;
  const owner = await applyIfChanged(local, APPLIED_WORKS, {
    current,
    desired: {
      metadata: { name, annotations: { [APPLIED_GENERATION_ANNOTATION]: versionOf(work) } },
      spec: { workName: name, workNamespace: namespace },
    },
    fieldManager: WORK_MANAGER,
    signal,
  });
  return isDeleting(owner) ? undefined : owner;
}

/** What the AppliedWork lists: the watch may not have brought yet what was written last. */
export function recordedOf(owner: AppliedWork, { recorded }: WorkMemory): readonly Recorded[] {
  return recorded !== undefined && recorded.owner === owner.metadata.uid
    ? recorded.resources
    : (owner.status?.appliedResources ?? []);
}

/** Writes what the AppliedWork lists, if that changes. It is written before objects are created, so that none is forgotten. */
export async function record(
  { session, owner, signal }: Pick<WorkPass, "session" | "owner" | "signal">,
  memory: WorkMemory,
  resources: readonly Recorded[],
): Promise<void> {
  if (sameJson(recordedOf(owner, memory), resources)) return;
  await session.local.mergePatch(
    APPLIED_WORKS,
    keyOf(owner),
    { status: { appliedResources: resources } },
    { subresource: "status", fieldManager: WORK_MANAGER, signal },
  );
  memory.recorded = { owner: owner.metadata.uid ?? "", resources };
}

/**
 * Removes an object that the Work has no longer: deletes it, or drops only the reference to the AppliedWork if it has other
 * owners. An object without the reference is not the Work's any more.
 */
export async function release(
  { session, requests, signal }: PassParts,
  owner: AppliedWork,
  resource: Recorded,
  mode: "delete" | "disown",
): Promise<void> {
  const of = resourceOf(resource);
  const key = objectKey(resource.namespace, resource.name ?? "");
  const options = { signal };
  const live = await session.local.find<KubeObject>(of, key, options);
  if (live === undefined || !isOwnedBy(live, owner)) return;
  const others = (live.metadata.ownerReferences ?? []).filter((it) => it.uid !== owner.metadata.uid);
  const { uid = "", resourceVersion } = live.metadata;
  const lane = `${of.group}/${of.plural} ${resource.namespace ?? ""}`;
  const isKept = mode === "disown" || others.length > 0;
  const ownerReferences = others.length === 0 ? null : others;
  await requests
    .write(lane, signal, async (timed) => {
      if (!isKept)
        return session.local.delete(of, key, { uid, propagationPolicy: "Background", signal: timed });
      const metadata = { ownerReferences, resourceVersion, uid };
      await session.local.mergePatch(of, key, { metadata }, { fieldManager: WORK_MANAGER, signal: timed });
    })
    .catch(ignoreNotFound);
}

function resourceOf({ group = "", version = "", kind = "", resource = "", namespace }: Recorded): Resource {
  return { group, version, kind, plural: resource, namespaced: namespace !== undefined && namespace !== "" };
}
