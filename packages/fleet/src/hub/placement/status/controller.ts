import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { defined } from "@fairlead/base/defined.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { watching, watchingChanges } from "@fairlead/kube/controller/source.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { ignoreNotFound } from "@fairlead/kube/objects/not-found.ts";
import type { Controller, KubeClient, ReconcileResult } from "@fairlead/kube/types.ts";
import { PLACEMENT_MANAGER, POLICY_INDEX_LABEL } from "#api/placement.kubernetes-fleet.io/names.ts";
import { latestOf } from "#placement/snapshots/history.ts";
import { isDecided } from "#placement/status/status.ts";
import { statusDigest } from "#placement/status/digest.ts";
import type { ContentsCache } from "../contents.ts";
import {
  OF_PLACEMENT,
  placementOf,
  type PlacementInformers,
  type ScopeInformers,
  type WatchedPlacement,
} from "../informers.ts";
import type { Outcome, Outcomes } from "../resources/outcomes.ts";
import { scopeOf } from "../resources/parts.ts";
import { desiredStatus, nextConditions, type OwnStatus } from "./desired.ts";
import { StatusPace } from "./pace.ts";
import { endShowing, showStatus, syncedCondition } from "./show.ts";

const RETRY_SHOWING_MS = 30_000;

export interface StatusParts {
  readonly client: KubeClient;
  readonly informers: PlacementInformers;
  readonly contents: ContentsCache;
  readonly outcomes: Outcomes;
  readonly deps: RuntimeDeps;
}

/** Policy snapshots, bindings and what is selected to the status of placements. Keys are those of placements of both scopes. */
export function createPlacementStatus(parts: StatusParts): Controller {
  const { informers, outcomes, deps } = parts;
  const reporting = new Reporting(parts);
  const controller = createController(
    {
      name: "placement-status",
      concurrency: 8,
      reconcile: (key, signal) => reporting.reconcile(key, signal),
      sources: [
        ...[informers.cluster, informers.namespaced].flatMap(
          ({ placements, policySnapshots, resourceSnapshots, bindings }) => [
            watching(placements),
            watchingChanges(policySnapshots, ofPlacement),
            watchingChanges(resourceSnapshots, ofPlacement),
            watchingChanges(bindings, ofPlacement),
          ],
        ),
        watching(informers.shownStatuses, ({ before, after }) =>
          [before, after].flatMap((it) => (it === undefined ? [] : [objectKey(undefined, it.metadata.name)])),
        ),
      ],
    },
    deps,
  );
  outcomes.onChange = (key) => controller.enqueue(key);
  return controller;
}

type Owned = Parameters<typeof placementOf>[0];

function ofPlacement({
  before,
  after,
}: {
  readonly before?: Owned | undefined;
  readonly after?: Owned | undefined;
}): ObjectKey[] {
  const object = after ?? before;
  return object === undefined ? [] : [placementOf(object)];
}

class Reporting {
  readonly #parts: StatusParts;
  readonly #pace: StatusPace;
  /** What was written last, until the watch brings it. */
  readonly #written = new Map<ObjectKey, { readonly before: string | undefined; readonly after: Written }>();

  constructor(parts: StatusParts) {
    this.#parts = parts;
    this.#pace = new StatusPace(parts.deps.clock);
  }

  async reconcile(key: ObjectKey, signal: AbortSignal): Promise<ReconcileResult | void> {
    const { client, informers, outcomes } = this.#parts;
    const of = scopeOf(informers, key);
    const seen = of.placements.store.get(key);
    if (seen === undefined || isDeleting(seen)) {
      this.#written.delete(key);
      this.#pace.forget(key);
      await endShowing({ client, informers }, key, seen, signal);
      return;
    }
    const outcome = outcomes.get(key, seen);
    // Made due again as soon as the selectors of this generation are evaluated.
    if (outcome === undefined) return;
    const waitMs = this.#waitMs(of, key, { placement: seen, outcome });
    if (waitMs > 0) return { requeueAfterMs: waitMs };
    const placement = this.#newest(key, seen);
    const desired = await desiredStatus(this.#parts, of, { key, placement, outcome }, signal);
    const shown = await showStatus(this.#parts, { placement, desired }, signal);
    const next = [...desired.conditions, ...syncedCondition(placement, shown)];
    const status = {
      ...desired,
      conditions: nextConditions(placement, of.scope.conditionPrefix, next, this.#parts.deps.clock),
    };
    // Nothing watched says when a refused write is allowed.
    const result = shown?.problem === undefined ? {} : { requeueAfterMs: RETRY_SHOWING_MS };
    const digest = digestOf(status);
    if (isWritten(placement, status.conditions, digest)) return result;
    this.#pace.note(key, desired.placementStatuses?.length ?? 0);
    await client
      .mergePatch(
        of.scope.placements,
        key,
        { status },
        { subresource: "status", fieldManager: PLACEMENT_MANAGER, returns: "metadata", signal },
      )
      .then(
        ({ metadata }) =>
          this.#note(key, seen, {
            metadata,
            status: { conditions: status.conditions },
            ...defined({ reportDigest: digest ?? placement.reportDigest }),
          }),
        ignoreNotFound,
      );
    return result;
  }

  #waitMs(
    { policySnapshots, bindings: { store } }: ScopeInformers,
    key: ObjectKey,
    { placement, outcome }: { readonly placement: WatchedPlacement; readonly outcome: Outcome },
  ): number {
    const policy = latestOf([...policySnapshots.store.byIndex(OF_PLACEMENT, key)], POLICY_INDEX_LABEL);
    const bindings = [...store.byIndex(OF_PLACEMENT, key)];
    // Where nothing can be selected, no clusters are going to be picked.
    const isSettled = outcome.problem !== undefined || isDecided(placement, policy, bindings);
    return this.#pace.waitMs(key, bindings, isSettled);
  }

  #newest(key: ObjectKey, seen: WatchedPlacement): WatchedPlacement {
    const written = this.#written.get(key);
    if (written === undefined) return seen;
    if (written.before === seen.metadata.resourceVersion) return { ...seen, ...written.after };
    this.#written.delete(key);
    return seen;
  }

  #note(key: ObjectKey, { metadata: { resourceVersion: before } }: WatchedPlacement, after: Written): void {
    this.#written.set(key, { before, after });
  }
}

type Written = Pick<WatchedPlacement, "metadata" | "status" | "reportDigest">;

/** Undefined for invalid selectors: then the conditions alone are written. */
function digestOf(status: OwnStatus): string | undefined {
  const { conditions: _, ...report } = status;
  return Object.keys(report).length === 0 ? undefined : statusDigest(report);
}

function isWritten(
  { status, reportDigest }: WatchedPlacement,
  conditions: readonly Condition[],
  digest: string | undefined,
): boolean {
  if (!sameJson(status?.conditions ?? [], conditions)) return false;
  return digest === undefined || (reportDigest ?? statusDigest({})) === digest;
}
