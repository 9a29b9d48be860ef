import { sameJson } from "@fairlead/base/json.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { watching, watchingChanges } from "@fairlead/kube/controller/source.ts";
import { type NewCondition, setCondition } from "@fairlead/kube/objects/conditions.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { ignoreNotFound } from "@fairlead/kube/objects/not-found.ts";
import type { Controller, KubeClient } from "@fairlead/kube/types.ts";
import {
  PLACEMENT_MANAGER,
  POLICY_INDEX_LABEL,
  RESOURCE_INDEX_LABEL,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import type { Placement } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { latestOf } from "#placement/snapshots/history.ts";
import { isMaster } from "#placement/snapshots/resources.ts";
import { ownConditions, placementStatus } from "#placement/status/status.ts";
import { OF_PLACEMENT, placementOf, type PlacementInformers, type ScopeInformers } from "../informers.ts";
import type { Outcome, Outcomes } from "../resources/outcomes.ts";
import { scopeOf } from "../resources/parts.ts";

export interface StatusParts {
  readonly client: KubeClient;
  readonly informers: PlacementInformers;
  readonly outcomes: Outcomes;
  readonly deps: RuntimeDeps;
}

/** Policy snapshots, bindings and what is selected to the status of placements. Keys are those of placements of both scopes. */
export function createPlacementStatus({ client, informers, outcomes, deps }: StatusParts): Controller {
  const controller = createController(
    {
      name: "placement-status",
      concurrency: 8,
      reconcile: async (key, signal) => {
        const of = scopeOf(informers, key);
        const placement = of.placements.store.get(key);
        if (placement === undefined || isDeleting(placement)) return;
        const outcome = outcomes.get(key, placement);
        // Made due again as soon as the selectors of this generation are evaluated.
        if (outcome === undefined) return;
        const status = statusOf(of, key, placement, outcome);
        const prefix = of.scope.conditionPrefix;
        const patch = {
          ...status,
          conditions: nextConditions(placement, {
            own: ownConditions(prefix),
            next: status.conditions,
            deps,
          }),
        };
        if (isWritten(placement.status, patch)) return;
        await client
          .mergePatch(
            of.scope.placements,
            key,
            { status: patch },
            {
              subresource: "status",
              fieldManager: PLACEMENT_MANAGER,
              signal,
            },
          )
          .catch(ignoreNotFound);
      },
      sources: [informers.cluster, informers.namespaced].flatMap(
        ({ placements, policySnapshots, resourceSnapshots, bindings }) => [
          watching(placements),
          watchingChanges(policySnapshots, ofPlacement),
          watchingChanges(resourceSnapshots, ofPlacement),
          watchingChanges(bindings, ofPlacement),
        ],
      ),
    },
    deps,
  );
  outcomes.onChange = (key) => controller.enqueue(key);
  return controller;
}

function ofPlacement({
  before,
  after,
}: {
  readonly before: Parameters<typeof placementOf>[0] | undefined;
  readonly after: Parameters<typeof placementOf>[0] | undefined;
}): ObjectKey[] {
  const object = after ?? before;
  return object === undefined ? [] : [placementOf(object)];
}

/** Fields of the status that this controller writes; what is undefined stays as it is. */
interface OwnStatus {
  readonly selectedResources?: readonly unknown[];
  readonly observedResourceIndex?: string;
  readonly placementStatuses?: readonly unknown[];
  readonly conditions: readonly NewCondition[];
}

function statusOf(
  { scope, policySnapshots, resourceSnapshots, bindings }: ScopeInformers,
  key: ObjectKey,
  placement: Placement,
  outcome: Outcome,
): OwnStatus {
  const prefix = scope.conditionPrefix;
  if (outcome.problem !== undefined)
    return {
      conditions: [
        {
          type: `${prefix}Scheduled`,
          status: "False",
          observedGeneration: placement.metadata.generation ?? 0,
          reason: "InvalidResourceSelectors",
          message: outcome.problem,
        },
      ],
    };
  return placementStatus({
    placement,
    prefix,
    policy: latestOf([...policySnapshots.store.byIndex(OF_PLACEMENT, key)], POLICY_INDEX_LABEL),
    snapshot: latestOf(
      [...resourceSnapshots.store.byIndex(OF_PLACEMENT, key)].filter(isMaster),
      RESOURCE_INDEX_LABEL,
    ),
    bindings: [...bindings.store.byIndex(OF_PLACEMENT, key)],
    resources: outcome.resources,
  });
}

/** All conditions of the placement: those of others as they are, ours as they are to be. */
function nextConditions(
  placement: Placement,
  { own, next, deps }: { own: ReadonlySet<string>; next: readonly NewCondition[]; deps: RuntimeDeps },
): NewCondition[] {
  const wanted = new Set(next.map((it) => it.type));
  let conditions = (placement.status?.conditions ?? []).filter(
    (it) => !own.has(it.type) || wanted.has(it.type),
  );
  for (const it of next) conditions = setCondition(conditions, it, deps.clock);
  return conditions;
}

function isWritten(status: Placement["status"], patch: OwnStatus): boolean {
  return (Object.keys(patch) as (keyof OwnStatus)[]).every((field) =>
    sameJson(status?.[field] ?? empty(field), patch[field]),
  );
}

/** What an API server leaves out. */
function empty(field: keyof OwnStatus): unknown {
  return field === "observedResourceIndex" ? "" : [];
}
