import { defined } from "@fairlead/base/defined.ts";
import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import { inParallel } from "@fairlead/base/parallel.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import { isDeleting, removeFinalizer } from "@fairlead/kube/objects/finalizers.ts";
import { ignoreNotFound } from "@fairlead/kube/objects/not-found.ts";
import type { OwnWrites } from "@fairlead/kube/informer/own-writes.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { POLICY_HASH_ANNOTATION } from "#api/fairlead.dev/names.ts";
import {
  BINDING_FINALIZER,
  PLACEMENT_MANAGER,
  PREVIOUS_BINDING_STATE_ANNOTATION,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import type { ResourceBinding } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type { PolicyVersion } from "#placement/scheduling/bindings.ts";
import type { PatchedBinding, Schedule } from "#placement/scheduling/schedule.ts";

/** Requests at the same time for one placement. */
const WRITES_AT_ONCE = 16;

/** All of them: one that failed, as another writer was faster, does not keep the others waiting for the next pass. */
async function forEach<T>(items: readonly T[], write: (item: T) => Promise<void>): Promise<void> {
  const tries: Promise<void>[] = [];
  await inParallel(items, WRITES_AT_ONCE, async (it) => {
    const done = write(it);
    tries.push(done);
    await done.catch(() => {});
  });
  await Promise.all(tries);
}

/** The bindings of a placement that is deleted go with it; what they placed is removed by those who placed it. */
export async function deleteBindings(
  { client, of, signal }: Pick<Target, "client" | "of" | "signal">,
  bindings: readonly ResourceBinding[],
): Promise<void> {
  await forEach(bindings, async (binding) => {
    const { uid } = binding.metadata;
    // Before the deletion, which makes another version of it.
    await removeFinalizer(client, of, binding, { finalizer: BINDING_FINALIZER, signal });
    if (!isDeleting(binding))
      await client.delete(of, keyOf(binding), { signal, ...defined({ uid }) }).catch(ignoreNotFound);
  });
}

interface Target {
  readonly client: KubeClient;
  readonly of: Resource<ResourceBinding>;
  /** By which the next pass sees what this one wrote. */
  readonly writes: OwnWrites<ResourceBinding>;
  readonly snapshot: PolicyVersion;
  readonly signal: AbortSignal;
}

/** One request for each binding that changes. New ones first: nothing is removed if they cannot be written. */
export async function writeSchedule(
  target: Target,
  { create, patch, unschedule, release }: Schedule,
): Promise<void> {
  const { client, of, signal } = target;
  await forEach(release, (it) => removeFinalizer(client, of, it, { finalizer: BINDING_FINALIZER, signal }));
  await forEach(create, (it) => createBinding(target, it));
  await forEach(patch, (it) => patchBinding(target, it));
  await forEach(unschedule, (it) => unscheduleBinding(target, it));
}

async function createBinding(
  { client, of, writes, signal }: Target,
  binding: ResourceBinding,
): Promise<void> {
  try {
    writes.noteCreated(await client.create(of, binding, { fieldManager: PLACEMENT_MANAGER, signal }));
  } catch (error) {
    if (!hasCode(error, "API_ALREADY_EXISTS")) throw error;
    // Of the last pass, and not in the store yet.
    throw new FleetError("API_CONFLICT", `${of.kind} ${keyOf(binding)} exists already`, { cause: error });
  }
}

async function patchBinding(target: Target, { binding, state, decision }: PatchedBinding): Promise<void> {
  const isBack = state !== binding.spec.state;
  await patchWith(target, binding, {
    metadata: {
      // Restores only the binding that was read: the rollout may have removed it since.
      ...(isBack ? versionOf(binding) : {}),
      annotations: {
        [POLICY_HASH_ANNOTATION]: target.snapshot.hash,
        ...(isBack ? { [PREVIOUS_BINDING_STATE_ANNOTATION]: null } : {}),
      },
    },
    spec: {
      ...(isBack ? { state } : {}),
      schedulingPolicySnapshotName: target.snapshot.name,
      // A merge patch keeps what it does not name.
      clusterDecision: { ...decision, clusterScore: decision.clusterScore ?? null },
    },
  });
}

async function unscheduleBinding(target: Target, binding: ResourceBinding): Promise<void> {
  const annotations = { [PREVIOUS_BINDING_STATE_ANNOTATION]: binding.spec.state };
  // The annotation has to say what the state was: the rollout may just be changing it.
  await patchWith(target, binding, {
    metadata: { ...versionOf(binding), annotations },
    spec: { state: "Unscheduled" },
  });
}

function versionOf({ metadata: { uid, resourceVersion } }: ResourceBinding): object {
  return { uid, resourceVersion };
}

async function patchWith(
  { client, of, writes, signal }: Target,
  binding: ResourceBinding,
  patch: object,
): Promise<void> {
  try {
    const options = { fieldManager: PLACEMENT_MANAGER, signal };
    writes.note(await client.mergePatch(of, keyOf(binding), patch, options));
  } catch (error) {
    ignoreNotFound(error);
  }
}
