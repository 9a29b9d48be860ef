import { inParallel } from "@fairlead/base/parallel.ts";
import { keyOf, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { clockOfServer } from "@fairlead/kube/client/server-clock.ts";
import { findCondition, setCondition } from "@fairlead/kube/objects/conditions.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { ignoreNotFound } from "@fairlead/kube/objects/not-found.ts";
import type { ReconcileResult } from "@fairlead/kube/types.ts";
import {
  PLACEMENT_MANAGER,
  PREVIOUS_BINDING_STATE_ANNOTATION,
  WORK_FINALIZER,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import type {
  ApplyStrategy,
  Placement,
  ResourceBinding,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { ROLLOUT_STARTED } from "#placement/conditions.ts";
import { completeStrategy, planRollout, type Target, type Waiting } from "#placement/rollout/plan.ts";
import type { ScopeInformers } from "../informers.ts";
import { overridesOf } from "../overrides/of-cluster.ts";
import { bindingsOf, type RolloutParts, scopeOfKey } from "../parts.ts";
import { latestSnapshot } from "./latest.ts";

/** At the same time, for one placement. */
const WRITES = 16;

export class RolloutReconciler {
  readonly #parts: RolloutParts;

  constructor(parts: RolloutParts) {
    this.#parts = parts;
  }

  async reconcile(key: ObjectKey, signal: AbortSignal): Promise<ReconcileResult | void> {
    const scope = scopeOfKey(this.#parts.informers, key);
    const placement = scope.placements.store.get(key);
    // The scheduler deletes the bindings of a placement that goes; staged runs roll out where the strategy leaves it to them.
    if (placement === undefined || isDeleting(placement)) return;
    if (placement.spec.strategy?.type === "External") return;
    const bindings = bindingsOf(this.#parts, scope).list(key);
    const snapshot = latestSnapshot(scope, key);
    if (snapshot === undefined || bindings.length === 0) return;
    const plan = planRollout({
      placement,
      snapshot: snapshot.metadata.name,
      bindings,
      overridesOf: await overridesOf(this.#parts, scope, snapshot, signal),
      nowMs: clockOfServer(this.#parts.client, this.#parts.deps.clock).now(),
    });
    const to = { snapshot: snapshot.metadata.name, placement };
    await inParallel(plan.remove, WRITES, (it) => this.#remove(scope, it, signal));
    await inParallel(plan.roll, WRITES, (it) => this.#roll(scope, it, to, signal));
    await inParallel(plan.restrategize, WRITES, (it) =>
      this.#patch(scope, it, { spec: { applyStrategy: strategyPatch(it, placement) } }, signal),
    );
    await inParallel(plan.waiting, WRITES, (it) => this.#reportWaiting(scope, it, signal));
    return plan.recheckMs === undefined ? {} : { requeueAfterMs: plan.recheckMs };
  }

  async #remove(scope: ScopeInformers, binding: ResourceBinding, signal: AbortSignal): Promise<void> {
    const { uid, resourceVersion } = binding.metadata;
    // The version: the scheduler may have picked the cluster again.
    const options = {
      signal,
      ...(uid === undefined ? {} : { uid }),
      ...(resourceVersion === undefined ? {} : { resourceVersion }),
    };
    await this.#parts.client.delete(scope.scope.bindings, keyOf(binding), options);
    bindingsOf(this.#parts, scope).noteDeleted(binding);
  }

  #roll(
    scope: ScopeInformers,
    { binding, overrides }: Target,
    { snapshot, placement }: { readonly snapshot: string; readonly placement: Placement },
    signal: AbortSignal,
  ): Promise<void> {
    const { finalizers = [], annotations = {} } = binding.metadata;
    const metadata = {
      ...(finalizers.includes(WORK_FINALIZER) ? {} : { finalizers: [...finalizers, WORK_FINALIZER] }),
      ...(PREVIOUS_BINDING_STATE_ANNOTATION in annotations
        ? { annotations: { [PREVIOUS_BINDING_STATE_ANNOTATION]: null } }
        : {}),
    };
    const spec = {
      state: "Bound",
      resourceSnapshotName: snapshot,
      clusterResourceOverrideSnapshots: orNull(overrides.clusterResourceOverrideSnapshots),
      resourceOverrideSnapshots: orNull(overrides.resourceOverrideSnapshots),
      applyStrategy: strategyPatch(binding, placement),
    };
    return this.#patch(scope, binding, { metadata, spec }, signal);
  }

  async #patch(
    scope: ScopeInformers,
    binding: ResourceBinding,
    {
      metadata,
      ...rest
    }: { readonly metadata?: object } & ({ readonly spec: object } | { readonly status: object }),
    signal: AbortSignal,
  ): Promise<void> {
    const { resourceVersion, uid } = binding.metadata;
    const patch = { metadata: { ...metadata, resourceVersion, uid }, ...rest };
    const options = {
      fieldManager: PLACEMENT_MANAGER,
      signal,
      ...("status" in rest ? { subresource: "status" as const } : {}),
    };
    try {
      const written = await this.#parts.client.mergePatch(
        scope.scope.bindings,
        keyOf(binding),
        patch,
        options,
      );
      bindingsOf(this.#parts, scope).note(written);
    } catch (error) {
      ignoreNotFound(error);
    }
  }

  /** The works controller says that the rollout has started, once a binding has its resources. */
  async #reportWaiting(scope: ScopeInformers, { binding, why }: Waiting, signal: AbortSignal): Promise<void> {
    const { generation } = binding.metadata;
    const next = {
      type: ROLLOUT_STARTED,
      status: "False" as const,
      reason: "RolloutNotStartedYet",
      message: why,
      observedGeneration: generation ?? 0,
    };
    const before = binding.status?.conditions;
    const found = findCondition(before, ROLLOUT_STARTED);
    if (found?.status === "False" && found.message === why && found.observedGeneration === generation) return;
    const conditions = setCondition(before, next, this.#parts.deps.clock);
    await this.#patch(scope, binding, { status: { conditions } }, signal);
  }
}

function orNull<T>(list: readonly T[]): readonly T[] | null {
  return list.length === 0 ? null : list;
}

/** The apply strategy of the placement, as a merge patch of that of the binding. */
function strategyPatch(
  { spec }: ResourceBinding,
  placement: Placement,
): Record<keyof ApplyStrategy, unknown> {
  const desired = completeStrategy(placement.spec.strategy?.applyStrategy);
  const gone = Object.keys(spec.applyStrategy ?? {}).filter((it) => !(it in desired));
  return { ...Object.fromEntries(gone.map((it) => [it, null])), ...desired } as Record<
    keyof ApplyStrategy,
    unknown
  >;
}
