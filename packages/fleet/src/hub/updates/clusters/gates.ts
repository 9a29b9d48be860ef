import { defined } from "@fairlead/base/defined.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { type Gate, GATES, type UpdateRun } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { gatesOf } from "#updates/clusters/gates.ts";
import type { UpdateInformers } from "./informers.ts";

type Informers = Pick<UpdateInformers, "updateGates">;

/** Makes the Gates that a run has reached, and ends those that it has passed. */
export async function writeGates(
  client: KubeClient,
  { updateGates }: Informers,
  run: UpdateRun,
  signal: AbortSignal,
): Promise<void> {
  const options = { fieldManager: HUB_MANAGER, signal };
  for (const { name, spec } of gatesOf(run)) {
    const key = objectKey(undefined, name);
    const current = updateGates.store.get(key);
    if (current === undefined)
      await client.create(GATES, { metadata: { name }, spec }, options).catch(orExists);
    else if (current.spec.state === "Pending" && isChanged(current.spec, spec)) {
      const { state, scheduledStartTime } = spec;
      await client.mergePatch(GATES, key, { spec: { state, ...defined({ scheduledStartTime }) } }, options);
    }
  }
}

/** Its time changes when the clock was set back. */
function isChanged(current: Gate["spec"], { state, scheduledStartTime }: Gate["spec"]): boolean {
  return state !== "Pending" || current.scheduledStartTime !== scheduledStartTime;
}

/** The cache may not have it yet. */
function orExists(error: unknown): void {
  if (!hasCode(error, "API_CONFLICT", "API_ALREADY_EXISTS")) throw error;
}

/** Deletes the Gates of a run that is gone. */
export async function removeGates(
  client: KubeClient,
  { updateGates }: Informers,
  run: { readonly name: string; readonly uid: string | undefined },
  signal: AbortSignal,
): Promise<void> {
  for (const it of updateGates.store.byIndex("run", run.name))
    if (it.spec.target.id !== run.uid) await client.delete(GATES, keyOf(it), { signal });
}
