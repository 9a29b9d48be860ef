import { hasCode, messageOf } from "@fairlead/base/errors.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { TurnQueue } from "@fairlead/base/turn.ts";
import { keyOf, type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import { clockOfServer } from "@fairlead/kube/client/server-clock.ts";
import { setCondition } from "@fairlead/kube/objects/conditions.ts";
import { addFinalizer, isDeleting, removeFinalizer } from "@fairlead/kube/objects/finalizers.ts";
import { ignoreNotFound } from "@fairlead/kube/objects/not-found.ts";
import { OwnWrites } from "@fairlead/kube/informer/own-writes.ts";
import type { ReconcileResult } from "@fairlead/kube/types.ts";
import { WORK_INPUTS_ANNOTATION } from "#api/fairlead.dev/names.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import {
  DELETION_PROPAGATION_ANNOTATION,
  PLACEMENT_MANAGER,
  WORK_FINALIZER,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import type { Placement, ResourceBinding } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { type Work, WORKS } from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { OverrideError, type ResolvedOverride, resolveOverrides } from "#placement/overrides/resolve.ts";
import { placementDetails } from "#placement/works/details.ts";
import { ContentError, Envelopes } from "#placement/works/envelopes.ts";
import { areMadeFrom, inputsOf, type WorkInputs } from "#placement/works/inputs.ts";
import { type PlannedWork, planWorks } from "#placement/works/plan.ts";
import {
  bindingConditions,
  comparableConditions,
  isAnswered,
  type SyncOutcome,
} from "#placement/works/status.ts";
import { findSnapshot, type SnapshotGroup } from "../contents.ts";
import { bindingOf, OF_BINDING, placementOf, type ScopeInformers } from "../informers.ts";
import { bindingsOf, overriddenCluster, type RolloutParts, scopeOfKey } from "../parts.ts";

/**
 * How long a binding whose Works the member has not answered may say nothing about them. A member that is there answers earlier, which
 * saves a write for each cluster and change. Unit: milliseconds.
 */
const PATIENCE_MS = 1000;
/** Work on envelopes gives way after so long: less than a person or a lease notices. Unit: milliseconds. */
const LONGEST_TURN_MS = 10;

/** What a binding comes to: what its Works are made from, and from where. */
interface Source {
  readonly inputs: WorkInputs;
  readonly snapshot: SnapshotGroup | undefined;
  readonly overrides: readonly ResolvedOverride[] | undefined;
  readonly placement: Placement | undefined;
}

/** Outcome of a pass over the Works; `error` is thrown once the binding reports it. */
interface Synced {
  readonly outcome: SyncOutcome;
  readonly works: readonly Work[];
  readonly error?: Error;
}

export class WorksReconciler {
  readonly #parts: RolloutParts;
  readonly #works: OwnWrites<Work>;
  readonly #envelopes: Envelopes;
  readonly #turns: TurnQueue;
  /** Since when the Works of a generation of a binding are unanswered, on the monotonic clock. */
  readonly #unanswered = new Map<ObjectKey, { readonly generation: number; readonly sinceMs: number }>();

  constructor(parts: RolloutParts) {
    const { informers, deps } = parts;
    this.#parts = parts;
    this.#envelopes = new Envelopes(parts.configMapEnvelopes);
    this.#turns = new TurnQueue(() => deps.clock.monotonic(), LONGEST_TURN_MS);
    this.#works = new OwnWrites({
      informer: informers.works,
      index: OF_BINDING,
      valueOf: bindingOf,
      isCreator: true,
      clock: deps.clock,
    });
  }

  async reconcile(key: ObjectKey, signal: AbortSignal): Promise<ReconcileResult | void> {
    const scope = scopeOfKey(this.#parts.informers, key);
    const binding = bindingsOf(this.#parts, scope).get(key);
    // Works without a binding stay: a binding is not deleted before its Works are, so it was lost.
    if (binding === undefined) return void this.#unanswered.delete(key);
    const works = this.#worksOf(binding);
    if (isDeleting(binding)) return this.#remove(scope, binding, works, signal);
    const { state, resourceSnapshotName } = binding.spec;
    if (state === "Scheduled" || resourceSnapshotName === "") return;
    if (state === "Unscheduled")
      return this.#report(scope, binding, { outcome: { kind: "synced" }, works }, signal);
    const { client } = this.#parts;
    const held = await addFinalizer(client, scope.scope.bindings, binding, {
      finalizer: WORK_FINALIZER,
      signal,
    });
    if (held !== binding) bindingsOf(this.#parts, scope).note(held);
    const synced = await this.#synchronize(scope, held, works, signal);
    const waitMs = this.#patienceMs(held, synced);
    if (waitMs > 0) return { requeueAfterMs: waitMs };
    await this.#report(scope, held, synced, signal);
    if (synced.error !== undefined) throw synced.error;
  }

  /** How much longer to wait for the member before the binding says that it has not answered. Unit: milliseconds. */
  #patienceMs(binding: ResourceBinding, { outcome, works }: Synced): number {
    const key = keyOf(binding);
    if (outcome.kind !== "synced" || works.every(isAnswered)) {
      this.#unanswered.delete(key);
      return 0;
    }
    const { generation = 0 } = binding.metadata;
    const nowMs = this.#parts.deps.clock.monotonic();
    const known = this.#unanswered.get(key);
    const since = known?.generation === generation ? known : { generation, sinceMs: nowMs };
    this.#unanswered.set(key, since);
    return since.sinceMs + PATIENCE_MS - nowMs;
  }

  /** Those in the mailbox of the cluster: a member may write any label into its own, and nothing into others. */
  #worksOf(binding: ResourceBinding): readonly Work[] {
    const namespace = mailboxOf(binding.spec.targetCluster);
    return this.#works.list(keyOf(binding)).filter((it) => it.metadata.namespace === namespace);
  }

  async #remove(
    { scope, placements }: ScopeInformers,
    binding: ResourceBinding,
    works: readonly Work[],
    signal: AbortSignal,
  ): Promise<void> {
    const { client, members } = this.#parts;
    const release = { finalizer: WORK_FINALIZER, signal };
    // A member that leaves decides itself what becomes of them, and they go with its mailbox.
    const member = members.store.get(objectKey(undefined, binding.spec.targetCluster));
    if (member !== undefined && isDeleting(member)) {
      await removeFinalizer(client, scope.bindings, binding, release);
      return;
    }
    // It is there until its bindings are gone. Of a cluster that it only leaves, the objects are deleted in any case.
    const placement = placements.store.get(placementOf(binding));
    const policy = placement?.spec.strategy?.deleteStrategy?.propagationPolicy;
    if (placement !== undefined && isDeleting(placement) && policy === "Abandon")
      await this.#abandon(works, signal);
    await this.#delete(works, signal);
    // The watch reports the last one that goes.
    if (this.#worksOf(binding).length > 0) return;
    await removeFinalizer(client, scope.bindings, binding, release);
  }

  /** Has the member leave what the Works applied, when they are deleted. */
  async #abandon(works: readonly Work[], signal: AbortSignal): Promise<void> {
    const metadata = { annotations: { [DELETION_PROPAGATION_ANNOTATION]: "Abandon" } };
    for (const work of works.filter(
      (it) => it.metadata.annotations?.[DELETION_PROPAGATION_ANNOTATION] !== "Abandon",
    ))
      await this.#parts.client
        .mergePatch(WORKS, keyOf(work), { metadata }, { fieldManager: PLACEMENT_MANAGER, signal })
        .catch(ignoreNotFound);
  }

  async #delete(works: readonly Work[], signal: AbortSignal): Promise<void> {
    for (const work of works.filter((it) => !isDeleting(it))) {
      const { uid } = work.metadata;
      await this.#parts.client.delete(WORKS, keyOf(work), { signal, ...(uid === undefined ? {} : { uid }) });
      this.#works.noteDeleted(work);
    }
  }

  /** Makes the Works that the binding asks for; none that is there already is written, and no contents are read for it. */
  async #synchronize(
    scope: ScopeInformers,
    binding: ResourceBinding,
    works: readonly Work[],
    signal: AbortSignal,
  ): Promise<Synced> {
    let written: readonly Work[] = works;
    try {
      const source = this.#sourceOf(scope, binding);
      const kept = works.filter((it) => isMadeFrom(it, source.inputs));
      if (!areMadeFrom(source.inputs, kept.map(inputsIn))) {
        const planned = await this.#plan(scope, binding, source, signal);
        written = await this.#write(planned, works, signal);
        const names = new Set(planned.map((it) => it.metadata.name));
        return { outcome: { kind: "synced" }, works: written.filter((it) => names.has(it.metadata.name)) };
      }
      // What objects moved to takes them over before what they were in goes.
      if (kept.every(isAnswered))
        await this.#delete(
          works.filter((it) => !kept.includes(it)),
          signal,
        );
      return { outcome: { kind: "synced" }, works: kept };
    } catch (error) {
      const message = messageOf(error);
      if (error instanceof OverrideError) return { outcome: { kind: "overrideFailed", message }, works };
      if (error instanceof ContentError) return { outcome: { kind: "workFailed", message }, works };
      if (signal.aborted || hasCode(error, "API_UNAVAILABLE", "API_TIMEOUT", "API_TOO_MANY_REQUESTS"))
        throw error;
      return { outcome: { kind: "workFailed", message }, works: written, error: toError(error) };
    }
  }

  #sourceOf(scope: ScopeInformers, binding: ResourceBinding): Source {
    const { informers, members } = this.#parts;
    const { metadata, spec } = binding;
    const placement = scope.placements.store.get(placementOf(binding));
    const reportBack = placement?.spec.strategy?.reportBackStrategy;
    const snapshot = findSnapshot(scope, metadata.namespace, spec.resourceSnapshotName);
    const found = [
      (spec.clusterResourceOverrideSnapshots ?? []).map((name) =>
        informers.clusterOverrideSnapshots.store.get(objectKey(undefined, name)),
      ),
      (spec.resourceOverrideSnapshots ?? []).map(({ namespace, name }) =>
        informers.overrideSnapshots.store.get(objectKey(namespace, name)),
      ),
    ] as const;
    const [cluster, namespaced] = [
      found[0].filter((it) => it !== undefined),
      found[1].filter((it) => it !== undefined),
    ];
    const hasAll = cluster.length === found[0].length && namespaced.length === found[1].length;
    const overrides = hasAll
      ? resolveOverrides(cluster, namespaced, overriddenCluster(members, spec.targetCluster))
      : undefined;
    const contents =
      snapshot === undefined || overrides === undefined
        ? undefined
        : [snapshot.hash, overrides, this.#envelopes.mode];
    return { inputs: inputsOf(spec, reportBack, contents), snapshot, overrides, placement };
  }

  async #plan(
    scope: ScopeInformers,
    binding: ResourceBinding,
    { inputs, snapshot, overrides, placement }: Source,
    signal: AbortSignal,
  ): Promise<readonly PlannedWork[]> {
    if (overrides === undefined)
      throw new OverrideError("an override snapshot that the binding names does not exist");
    if (snapshot === undefined)
      throw new ContentError(
        `the resource snapshot "${binding.spec.resourceSnapshotName}" or a part of it does not exist: what the cluster has stays`,
      );
    const { parts } = await this.#parts.contents.read(scope, snapshot, { signal });
    const reportBack = placement?.spec.strategy?.reportBackStrategy;
    const { index } = snapshot;
    const envelopes = this.#envelopes;
    return this.#turns.finish(planWorks({ binding, index, parts, overrides, reportBack, inputs, envelopes }));
  }

  /** @returns All Works of the binding as they are then. */
  async #write(
    planned: readonly PlannedWork[],
    works: readonly Work[],
    signal: AbortSignal,
  ): Promise<readonly Work[]> {
    const byName = new Map(works.map((it) => [it.metadata.name, it]));
    for (const work of planned) {
      const { name } = work.metadata;
      const present = byName.get(name);
      // Of an earlier pass that did not come to its end.
      if (present !== undefined && inputsIn(present) === work.metadata.annotations[WORK_INPUTS_ANNOTATION])
        continue;
      const { metadata } = await this.#parts.client.apply(WORKS, work, {
        fieldManager: PLACEMENT_MANAGER,
        returns: "metadata",
        signal,
      });
      const { workload: _, ...spec } = work.spec;
      const written: Work = { ...present, metadata, spec };
      this.#works.note(written);
      byName.set(name, written);
    }
    return [...byName.values()];
  }

  async #report(
    scope: ScopeInformers,
    binding: ResourceBinding,
    { outcome, works }: Synced,
    signal: AbortSignal,
  ): Promise<void> {
    const { client, deps } = this.#parts;
    const { generation, resourceVersion, uid } = binding.metadata;
    const before = comparableConditions(binding);
    const next = bindingConditions(binding, outcome, works);
    // Rollouts and runs of any replica of the hub go by these times.
    const clock = clockOfServer(client, deps.clock);
    const conditions = next.map((it) => dated(before, { ...it, observedGeneration: generation ?? 0 }, clock));
    const details = placementDetails(works);
    const status = { ...details, conditions };
    if (sameJson(binding.status ?? {}, status)) return;
    const cleared = { failedPlacements: null, driftedPlacements: null, diffedPlacements: null };
    const patch = { metadata: { resourceVersion, uid }, status: { ...cleared, ...status } };
    const options = { subresource: "status" as const, fieldManager: PLACEMENT_MANAGER, signal };
    try {
      bindingsOf(this.#parts, scope).note(
        await client.mergePatch(scope.scope.bindings, keyOf(binding), patch, options),
      );
    } catch (error) {
      ignoreNotFound(error);
    }
  }
}

function toError(error: unknown): Error {
  return Error.isError(error) ? error : new Error(String(error));
}

/** The condition with the time of its last change. */
function dated(
  before: readonly Condition[],
  next: Omit<Condition, "lastTransitionTime">,
  clock: Parameters<typeof setCondition>[2],
): Condition {
  const [condition] = setCondition(
    before.filter((it) => it.type === next.type),
    next,
    clock,
  );
  return condition ?? { ...next, lastTransitionTime: "" };
}

function inputsIn(work: Work): string | undefined {
  return work.metadata.annotations?.[WORK_INPUTS_ANNOTATION];
}

function isMadeFrom(work: Work, inputs: WorkInputs): boolean {
  const [names, contents] = (inputsIn(work) ?? "").split(".");
  return names === inputs.names && (inputs.contents === undefined || contents === inputs.contents);
}
