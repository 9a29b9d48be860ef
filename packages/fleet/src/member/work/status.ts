import { sameJson } from "@fairlead/base/json.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import { ignoreNotFound } from "@fairlead/kube/objects/not-found.ts";
import { WORK_MANAGER } from "#api/placement.kubernetes-fleet.io/names.ts";
import { type Work, WORKS } from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { trimStatus } from "#placement/work/trim.ts";
import { knownStatus, type WorkMemory } from "./memory.ts";
import type { WorkSession } from "./parts.ts";

/** Writes the status of a Work to the hub, if it changes. Returns true if it did. */
export async function writeStatus(
  { hub, works, deps }: WorkSession,
  {
    work,
    memory,
    status,
  }: { readonly work: Work; readonly memory: WorkMemory; readonly status: NonNullable<Work["status"]> },
  signal: AbortSignal,
): Promise<boolean> {
  const before = knownStatus(work, memory);
  const next = trimStatus(work, status, deps.clock);
  if (sameJson(before, next)) return false;
  const seen = works.store.get(keyOf(work));
  try {
    await hub.mergePatch(
      WORKS,
      keyOf(work),
      { metadata: { uid: work.metadata.uid }, status: next },
      { subresource: "status", fieldManager: WORK_MANAGER, signal },
    );
    memory.written = { after: [work, seen].map((it) => it?.metadata.resourceVersion), status: next };
  } catch (error) {
    ignoreNotFound(error);
  }
  return true;
}
