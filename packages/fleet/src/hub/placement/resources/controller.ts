import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { watching, watchingChanges } from "@fairlead/kube/controller/source.ts";
import { addFinalizers, isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import type { Controller, ReconcileResult } from "@fairlead/kube/types.ts";
import { SCHEDULER_FINALIZER } from "#api/placement.kubernetes-fleet.io/names.ts";
import type { Placement } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { planPolicySnapshot } from "#placement/snapshots/policy.ts";
import { OF_PLACEMENT, placementOf } from "../informers.ts";
import { cleanUp, finalizerOf } from "./clean-up.ts";
import { outcomeOf } from "./outcomes.ts";
import { scopeOf, type SnapshotParts } from "./parts.ts";
import { snapshotResources } from "./snapshot.ts";
import { writeSnapshots } from "./write-snapshots.ts";

/** Placements to policy snapshots and resource snapshots; and their end. Keys are those of placements of both scopes. */
export function createSnapshots(parts: SnapshotParts): Controller {
  const { client, informers, resources, outcomes, deps } = parts;
  const reconcile = async (key: ObjectKey, signal: AbortSignal): Promise<ReconcileResult | void> => {
    const { scope, placements, policySnapshots, bindings } = scopeOf(informers, key);
    const placement = placements.store.get(key);
    if (placement === undefined || isDeleting(placement)) {
      resources.forget(key);
      outcomes.delete(key);
      parts.evaluations.forget(key);
      parts.compared.delete(key);
      if (placement !== undefined) await cleanUp(parts, placement, signal);
      return;
    }
    const checked = resources.check(key, placement);
    // Made due again once it is known what the API server serves.
    if (checked === undefined) return;
    if (checked.problem !== undefined) {
      outcomes.set(key, outcomeOf(placement, [], checked.problem));
      return;
    }
    // That of the scheduler as well: one write in place of two.
    const finalizers = [finalizerOf(scope), SCHEDULER_FINALIZER];
    await addFinalizers(client, scope.placements, placement, { finalizers, signal });
    // First, so that the scheduler, which goes by the policy, finds the resources of the bindings that it makes.
    const resourcesDone = snapshotResources(parts, key, placement, signal);
    const waiting = await resourcesDone.catch(() => undefined);
    const snapshots = [...policySnapshots.store.byIndex(OF_PLACEMENT, key)];
    // Kinds are still being read, which has an end: what is placed first is not placed without its resources.
    if (snapshots.length === 0 && waiting !== undefined && outcomes.get(key, placement) === undefined)
      return waiting;
    const policy = planPolicySnapshot({
      placement,
      snapshots,
      bindings: [...bindings.store.byIndex(OF_PLACEMENT, key)],
    });
    const created = policy.create === undefined ? [] : [policy.create];
    await writeSnapshots({ client, of: scope.policySnapshots, signal }, policy, created);
    return resourcesDone;
  };
  const controller = createController(
    {
      name: "placement",
      concurrency: 8,
      reconcile,
      sources: [informers.cluster, informers.namespaced].flatMap(
        ({ placements, policySnapshots, resourceSnapshots, bindings }) => [
          watching(placements, ({ key, before, after }) => (isSpecChanged(before, after) ? [key] : [])),
          watchingChanges(policySnapshots, ({ before, after }) => ownersOf(before, after)),
          watchingChanges(resourceSnapshots, ({ before, after }) => ownersOf(before, after)),
          // The end of a placement waits for its last binding.
          watchingChanges(bindings, ({ before, after }) => (after === undefined ? ownersOf(before) : [])),
        ],
      ),
    },
    deps,
  );
  resources.onChange = (key) => controller.enqueue(key);
  return controller;
}

/** Not for a status that was written. */
function isSpecChanged(before: Placement | undefined, after: Placement | undefined): boolean {
  const of = (it: Placement | undefined): readonly unknown[] =>
    it === undefined
      ? []
      : [it.metadata.uid, it.metadata.generation, isDeleting(it), it.metadata.finalizers?.join()];
  return before === undefined || of(before).join("\n") !== of(after).join("\n");
}

function ownersOf(...objects: readonly (Parameters<typeof placementOf>[0] | undefined)[]): ObjectKey[] {
  return [...new Set(objects.flatMap((it) => (it === undefined ? [] : [placementOf(it)])))];
}
