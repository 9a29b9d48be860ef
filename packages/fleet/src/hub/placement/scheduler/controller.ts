import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { defined } from "@fairlead/base/defined.ts";
import { inParallel } from "@fairlead/base/parallel.ts";
import { keyOf, objectKey, type ObjectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { watching, watchingChanges } from "@fairlead/kube/controller/source.ts";
import { addFinalizer, isDeleting, removeFinalizer } from "@fairlead/kube/objects/finalizers.ts";
import { ignoreNotFound } from "@fairlead/kube/objects/not-found.ts";
import { writeConditions } from "@fairlead/kube/objects/write-conditions.ts";
import type { Change, Controller, Informer, KubeClient } from "@fairlead/kube/types.ts";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  BINDING_FINALIZER,
  PLACEMENT_MANAGER,
  SCHEDULER_FINALIZER,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import type {
  Placement,
  PlacementPolicy,
  ResourceBinding,
  SchedulingPolicySnapshot,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { type CompiledPolicy, compilePolicy } from "#placement/scheduling/policy.ts";
import type { Outcome } from "#placement/scheduling/outcome.ts";
import { schedule } from "#placement/scheduling/schedule.ts";
import { generationOf, policyOf, snapshotInForce } from "#placement/scheduling/snapshot.ts";
import { OF_CLUSTER, OF_PLACEMENT, placementOf, type ScopeInformers } from "../informers.ts";
import { type ClusterChange, Fleet } from "./fleet.ts";
import { concerns, type Known } from "./triggers.ts";
import { writeSchedule } from "./write.ts";

interface Parts {
  readonly client: KubeClient;
  readonly scopes: readonly ScopeInformers[];
  readonly members: Informer<MemberCluster>;
  readonly deps: RuntimeDeps;
}

interface Schedulers extends Disposable {
  readonly controllers: readonly Controller[];
}

/** Policy snapshots to bindings: one controller for each scope of placements. */
export function createSchedulers({ client, scopes, members, deps }: Parts): Schedulers {
  const fleet = new Fleet(members, deps.clock);
  const controllers = scopes.map((informers) => {
    const scheduler = new Scheduler({ client, informers, fleet, deps });
    const controller = createController(
      {
        name: `${informers.scope.placements.kind.toLowerCase()}-scheduler`,
        reconcile: (key, signal) => scheduler.reconcile(key, signal),
        sources: [
          watching(informers.placements),
          watchingChanges(informers.policySnapshots, ofPlacement),
          watchingChanges(informers.bindings, (change) => (isForOthers(change) ? [] : ofPlacement(change))),
          watchingChanges(members, () => []),
        ],
      },
      deps,
    );
    fleet.onChange((change) => {
      for (const key of scheduler.concernedBy(change)) controller.enqueue(key);
    });
    return controller;
  });
  return { controllers, [Symbol.dispose]: () => fleet[Symbol.dispose]() };
}

function ofPlacement({ before, after }: Change<SchedulingPolicySnapshot | ResourceBinding>): ObjectKey[] {
  const object = after ?? before;
  return object === undefined ? [] : [placementOf(object)];
}

/** Most changes of bindings are the progress of the rollout, and of what is placed. */
function isForOthers({ before, after }: Change<ResourceBinding>): boolean {
  if (before === undefined || after === undefined) return false;
  const facts = (it: ResourceBinding) =>
    [isDeleting(it), it.spec.state, it.spec.schedulingPolicySnapshotName, it.spec.targetCluster].join("/");
  return facts(before) === facts(after);
}

interface SchedulerParts {
  readonly client: KubeClient;
  readonly informers: ScopeInformers;
  readonly fleet: Fleet;
  readonly deps: RuntimeDeps;
}

class Scheduler {
  readonly #parts: SchedulerParts;
  readonly #known = new Map<ObjectKey, Known & { readonly snapshotUid: string | undefined }>();

  constructor(parts: SchedulerParts) {
    this.#parts = parts;
  }

  async reconcile(key: ObjectKey, signal: AbortSignal): Promise<void> {
    const { client, informers, fleet } = this.#parts;
    const { scope } = informers;
    const placement = informers.placements.store.get(key);
    if (placement === undefined) {
      this.#known.delete(key);
      return;
    }
    if (isDeleting(placement)) return this.#cleanUp(placement, signal);
    const snapshot = snapshotInForce(informers.policySnapshots.store.byIndex(OF_PLACEMENT, key));
    if (snapshot === undefined) return;
    await addFinalizer(client, scope.placements, placement, { finalizer: SCHEDULER_FINALIZER, signal });
    const { namespace, name } = splitKey(key);
    const wanted = policyOf(snapshot);
    const policy = this.#compiled(key, snapshot, wanted);
    const result = schedule({
      placement: { namespace, name },
      policy,
      snapshot: snapshot.metadata.name,
      count: wanted?.numberOfClusters ?? 0,
      clusters: fleet.clusters(),
      bindings: informers.bindings.store.byIndex(OF_PLACEMENT, key),
    });
    const isFulfilled = result.outcome.condition.status === "True";
    this.#known.set(key, { namespace, policy, isFulfilled, snapshotUid: snapshot.metadata.uid });
    await writeSchedule({ client, of: scope.bindings, snapshot: snapshot.metadata.name, signal }, result);
    await this.#report(snapshot, result.outcome, signal);
  }

  /** The placements that a change of a cluster concerns. Those that were not scheduled yet are due anyway. */
  *concernedBy(change: ClusterChange): Generator<ObjectKey> {
    const { bindings } = this.#parts.informers;
    if (change.after === undefined || change.after.isLeaving)
      for (const binding of bindings.store.byIndex(OF_CLUSTER, change.name)) yield placementOf(binding);
    for (const [key, known] of this.#known) if (concerns(change, known)) yield key;
  }

  /** The spec of a snapshot never changes, only the number of clusters does. */
  #compiled(
    key: ObjectKey,
    { metadata: { uid } }: SchedulingPolicySnapshot,
    policy: PlacementPolicy | undefined,
  ): CompiledPolicy {
    const known = this.#known.get(key);
    const isKnown = known?.snapshotUid === uid && known?.policy.problems.length === 0;
    return isKnown ? known.policy : compilePolicy(policy);
  }

  async #report(
    snapshot: SchedulingPolicySnapshot,
    { condition, targetClusters }: Outcome,
    signal: AbortSignal,
  ): Promise<void> {
    const { client, informers, deps } = this.#parts;
    await writeConditions(client, informers.scope.policySnapshots, {
      object: snapshot,
      own: OUR_CONDITIONS,
      next: [condition],
      rest: { observedCRPGeneration: generationOf(snapshot), targetClusters },
      fieldManager: PLACEMENT_MANAGER,
      clock: deps.clock,
      signal,
    });
  }

  /** Its bindings go with it; what they placed is removed by those who placed it. */
  async #cleanUp(placement: Placement, signal: AbortSignal): Promise<void> {
    const { client, informers } = this.#parts;
    const { scope, bindings } = informers;
    const all = [...bindings.store.byIndex(OF_PLACEMENT, keyOf(placement))];
    await inParallel(all, DELETES_AT_ONCE, async (binding) => {
      const { uid } = binding.metadata;
      const key = objectKey(binding.metadata.namespace, binding.metadata.name);
      if (!isDeleting(binding))
        await client.delete(scope.bindings, key, { signal, ...defined({ uid }) }).catch(ignoreNotFound);
      await removeFinalizer(client, scope.bindings, binding, { finalizer: BINDING_FINALIZER, signal });
    });
    await removeFinalizer(client, scope.placements, placement, { finalizer: SCHEDULER_FINALIZER, signal });
  }
}

const OUR_CONDITIONS = new Set(["Scheduled"]);
const DELETES_AT_ONCE = 16;
