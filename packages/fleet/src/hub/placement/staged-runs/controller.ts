import type { ResourceBinding } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { both, watching, watchingChanges } from "@fairlead/kube/controller/source.ts";
import type { Change, Controller } from "@fairlead/kube/types.ts";
import { isReady } from "#updates/staged/binding.ts";
import { isOver } from "#updates/staged/advance.ts";
import { OF_PLACEMENT, placementOf } from "../informers.ts";
import { type RunParts, runReconciler } from "./reconcile.ts";

/** Executes the staged update runs of one scope. Keys are runs. */
export function createStagedRuns(parts: RunParts): Controller {
  const { of, members, deps } = parts;
  const runsOf = (placement: ObjectKey): ObjectKey[] =>
    [...of.runs.store.byIndex(OF_PLACEMENT, placement)].flatMap((it) =>
      isOver(it) ? [] : [objectKey(it.metadata.namespace, it.metadata.name)],
    );
  const runsOfPart = both((it: KubeObject) => runsOf(placementOf(it)));
  return createController(
    {
      name: of.scope.name === "cluster" ? "clusterstagedupdaterun" : "stagedupdaterun",
      reconcile: runReconciler(parts),
      concurrency: 8,
      sources: [
        watching(of.runs),
        watching(
          of.approvals,
          both(({ metadata: { namespace }, spec }) => [objectKey(namespace, spec.parentStageRollout)]),
        ),
        watchingChanges(of.placements, ({ key, before, after }) =>
          sameJson(outlineOf(before), outlineOf(after)) ? [] : runsOf(key),
        ),
        watchingChanges(of.policySnapshots, runsOfPart),
        watchingChanges(of.resourceSnapshots, runsOfPart),
        // Read when a run is initialized; a change of it later makes no difference.
        watchingChanges(members, () => []),
        watchingChanges(of.bindings, (change) => (isOfInterest(change) ? runsOfPart(change) : [])),
      ],
    },
    deps,
  );
}

/** Without its status, which changes with every binding. */
function outlineOf(object: KubeObject | undefined): unknown {
  return object === undefined ? undefined : [object.metadata.generation, object.metadata.deletionTimestamp];
}

/** Whether a run may act on it: that is, not for each condition on the way to the one that it waits for. */
function isOfInterest({ before, after }: Change<ResourceBinding>): boolean {
  if (before === undefined || after === undefined) return true;
  return (
    before.metadata.generation !== after.metadata.generation ||
    before.metadata.deletionTimestamp !== after.metadata.deletionTimestamp ||
    isReady(before) !== isReady(after)
  );
}
