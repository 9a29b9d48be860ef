import { defined } from "@fairlead/base/defined.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { EventRecorder } from "@fairlead/kube/events/events.ts";
import { keyOf, objectKey, type ObjectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { watching, watchingChanges } from "@fairlead/kube/controller/source.ts";
import { addFinalizer, isDeleting, removeFinalizer } from "@fairlead/kube/objects/finalizers.ts";
import { writeConditions } from "@fairlead/kube/objects/write-conditions.ts";
import type { OwnWrites } from "@fairlead/kube/informer/own-writes.ts";
import type { Change, Controller, Informer, KubeClient, ReconcileResult } from "@fairlead/kube/types.ts";
import type { Namespace } from "@fairlead/kube/api/core/v1/types.ts";
import { clusterOfMailbox, mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import {
  PARENT_PLACEMENT_LABEL,
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
import {
  type ExecutionMemory,
  type ExecutionSettings,
  executionSettings,
  NO_MEMORY,
  planExecution,
  withReplaced,
} from "#placement/scheduling/execution.ts";
import type { Outcome } from "#placement/scheduling/outcome.ts";
import { type Schedule, schedule, type Task } from "#placement/scheduling/schedule.ts";
import { generationOf, policyOf, snapshotInForce } from "#placement/scheduling/snapshot.ts";
import { OF_CLUSTER, OF_PLACEMENT, placementOf, type ScopeInformers } from "../informers.ts";
import { bindingsOf, type RolloutParts } from "../parts.ts";
import { withFirstResources } from "../rollout/first.ts";
import { type ClusterChange, Fleet } from "./fleet.ts";
import { concerns, type Known } from "./triggers.ts";
import { Cycles } from "./cycles.ts";
import { deleteBindings, writeSchedule } from "./write.ts";

interface Parts extends RolloutParts {
  readonly namespaces: Informer<Namespace>;
  readonly events: EventRecorder;
}

interface Schedulers extends Disposable {
  readonly controllers: readonly Controller[];
}

/** Policy snapshots to bindings: one controller for each scope of placements. */
export function createSchedulers(parts: Parts): Schedulers {
  const { client, members, namespaces, events, deps } = parts;
  const fleet = new Fleet(members, deps.clock);
  const cycles = new Cycles(deps);
  const controllers = [parts.informers.cluster, parts.informers.namespaced].map((informers) => {
    const writes = bindingsOf(parts, informers);
    const rollout = parts;
    const scheduler = new Scheduler({ client, informers, rollout, writes, fleet, namespaces, events, deps });
    const controller = createController(
      {
        name: `${informers.scope.placements.kind.toLowerCase()}-scheduler`,
        reconcile: (key, signal) => cycles.measure(scheduler.reconcile(key, signal)),
        sources: [
          watching(informers.placements, (change) => (isStatusOnly(change) ? [] : [change.key])),
          watchingChanges(informers.policySnapshots, ofPlacement),
          watchingChanges(informers.bindings, (change) => (isForOthers(change) ? [] : ofPlacement(change))),
          watchingChanges(members, () => []),
          // Read when the first bindings are made; the rollout follows changes.
          watchingChanges(informers.resourceSnapshots, () => []),
          watchingChanges(parts.informers.clusterOverrideSnapshots, () => []),
          watchingChanges(parts.informers.overrideSnapshots, () => []),
          watchingChanges(namespaces, (change) => scheduler.inRemoved(change)),
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

function isStatusOnly({ before, after }: Change<Placement>): boolean {
  if (before === undefined || after === undefined) return false;
  const facts = ({ metadata: { uid, generation, finalizers = [] } }: Placement) =>
    [uid, generation, finalizers.join(",")].join("/");
  return facts(before) === facts(after) && isDeleting(before) === isDeleting(after);
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
  readonly rollout: RolloutParts;
  readonly writes: OwnWrites<ResourceBinding>;
  readonly fleet: Fleet;
  readonly namespaces: Informer<Namespace>;
  readonly events: EventRecorder;
  readonly deps: RuntimeDeps;
}

class Scheduler {
  readonly #parts: SchedulerParts;
  readonly #known = new Map<ObjectKey, Known & { readonly snapshotUid: string | undefined }>();
  readonly #memories = new Map<ObjectKey, ExecutionMemory>();

  constructor(parts: SchedulerParts) {
    this.#parts = parts;
  }

  async reconcile(key: ObjectKey, signal: AbortSignal): Promise<ReconcileResult | void> {
    const { client, informers, rollout, writes } = this.#parts;
    const { scope } = informers;
    const placement = informers.placements.store.get(key);
    if (placement === undefined) return this.#forget(key);
    if (isDeleting(placement)) return this.#cleanUp(placement, signal);
    const snapshot = snapshotInForce(informers.policySnapshots.store.byIndex(OF_PLACEMENT, key));
    if (snapshot === undefined) return;
    await addFinalizer(client, scope.placements, placement, { finalizer: SCHEDULER_FINALIZER, signal });
    const { result, againInMs } = this.#decide(key, placement, snapshot);
    const isFirst = writes.list(key).length === 0;
    const create = isFirst
      ? await withFirstResources(rollout, informers, { placement, bindings: result.create }, signal)
      : result.create;
    const version = { name: snapshot.metadata.name, hash: snapshot.spec.policyHash };
    await writeSchedule(
      { client, of: scope.bindings, writes, snapshot: version, signal },
      { ...result, create },
    );
    await this.#report(snapshot, result.outcome, signal);
    return againInMs === undefined || againInMs === Infinity ? {} : { requeueAfterMs: Math.ceil(againInMs) };
  }

  #forget(key: ObjectKey): void {
    this.#known.delete(key);
    this.#memories.delete(key);
  }

  #decide(
    key: ObjectKey,
    placement: Placement,
    snapshot: SchedulingPolicySnapshot,
  ): { readonly result: Schedule; readonly againInMs: number | undefined } {
    const { writes, fleet } = this.#parts;
    const { namespace, name } = splitKey(key);
    const wanted = policyOf(snapshot);
    const policy = this.#compiled(key, snapshot, wanted);
    const task = {
      placement: { namespace, name },
      policy,
      snapshot: { name: snapshot.metadata.name, hash: snapshot.spec.policyHash },
      count: wanted?.numberOfClusters ?? 0,
      clusters: fleet.clusters(),
      bindings: writes.list(key),
      isLost: (cluster: string) => this.#hasMailbox(cluster),
    };
    const settings = executionSettings(placement.spec.policy);
    const { result, againInMs } =
      settings === undefined
        ? { result: schedule(task), againInMs: undefined }
        : this.#execute(placement, task, settings);
    this.#known.set(key, {
      namespace,
      policy,
      isFulfilled: result.outcome.condition.status === "True",
      isContinuous: settings !== undefined,
      snapshotUid: snapshot.metadata.uid,
    });
    return { result, againInMs };
  }

  /** Schedules, and replaces clusters that meet the policy no longer. */
  #execute(
    placement: Placement,
    task: Task,
    settings: ExecutionSettings,
  ): { readonly result: Schedule; readonly againInMs: number } {
    const { informers, fleet, events, deps } = this.#parts;
    const key = keyOf(placement);
    const nowMs = deps.clock.monotonic();
    const execution = planExecution(task, settings, this.#memories.get(key) ?? NO_MEMORY, nowMs);
    const result = schedule({ ...task, execution });
    const gone = new Set(result.unschedule.map((it) => it.spec.targetCluster));
    const replaced = execution.drop.filter((it) => gone.has(it));
    for (const cluster of replaced)
      events.record(informers.scope.placements, placement, {
        type: "Normal",
        reason: "ClusterReplaced",
        message: `cluster ${cluster} has not met the policy for ${settings.afterMs / 1000} s and is replaced`,
      });
    this.#memories.set(key, withReplaced(execution.memory, replaced, nowMs));
    return { result, againInMs: Math.min(execution.againInMs, fleet.validForMs()) };
  }

  /** A MemberCluster that is removed takes its mailbox with it. */
  #hasMailbox(cluster: string): boolean {
    const mailbox = this.#parts.namespaces.store.get(objectKey(undefined, mailboxOf(cluster)));
    return mailbox !== undefined && !isDeleting(mailbox);
  }

  /** The placements that have a cluster whose mailbox goes. */
  *inRemoved({ key, after }: Change<Namespace>): Generator<ObjectKey> {
    const cluster = clusterOfMailbox(key);
    if (cluster === undefined || (after !== undefined && !isDeleting(after))) return;
    const { bindings } = this.#parts.informers;
    for (const binding of bindings.store.byIndex(OF_CLUSTER, cluster)) yield placementOf(binding);
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

  async #cleanUp(placement: Placement, signal: AbortSignal): Promise<void> {
    const { client, informers } = this.#parts;
    const { scope } = informers;
    if (placement.metadata.finalizers?.includes(SCHEDULER_FINALIZER) !== true) return;
    const { name, namespace } = placement.metadata;
    // Not from the store: those of the last pass may not be there yet, and without the placement no pass would find them.
    const { items } = await client.list(scope.bindings, {
      ...defined({ namespace }),
      labelSelector: `${PARENT_PLACEMENT_LABEL}=${name}`,
      signal,
    });
    await deleteBindings({ client, of: scope.bindings, signal }, items);
    await removeFinalizer(client, scope.placements, placement, { finalizer: SCHEDULER_FINALIZER, signal });
  }
}

const OUR_CONDITIONS = new Set(["Scheduled"]);
