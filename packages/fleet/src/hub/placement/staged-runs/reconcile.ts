import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { UPDATE_RUN_FINALIZER, UPDATE_RUN_MANAGER } from "#api/placement.kubernetes-fleet.io/names.ts";
import type { ResourceSnapshot } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type {
  ApprovalRequest,
  StagedUpdateRun,
  StagedUpdateRunStatus,
} from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { BEFORE_UPDATE_RUN_ANNOTATION } from "#api/fairlead.dev/names.ts";
import { defined } from "@fairlead/base/defined.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { keyOf, type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { clockOfServer } from "@fairlead/kube/client/server-clock.ts";
import { setCondition } from "@fairlead/kube/objects/conditions.ts";
import { addFinalizer, isDeleting, removeFinalizer } from "@fairlead/kube/objects/finalizers.ts";
import type { Labels } from "@fairlead/kube/objects/selector.ts";
import { ignoreNotFound } from "@fairlead/kube/objects/not-found.ts";
import type { Informer, KubeClient, ReconcileResult } from "@fairlead/kube/types.ts";
import { advance, isExecuted, isOver, type Plan } from "#updates/staged/advance.ts";
import { statusOf } from "#updates/staged/conditions.ts";
import {
  type Ground,
  initialized,
  type OverridesOf,
  survey,
  uninitialized,
} from "#updates/staged/initialize.ts";
import { replan } from "#updates/staged/replan.ts";
import type { BindingChange } from "#updates/staged/pass.ts";
import type { ScopeInformers } from "../informers.ts";
import { type PlacementView, readView, viewOf } from "./ground.ts";
import { placementOfRun, RUN_KINDS, type RunInformers } from "./informers.ts";
import { pickSnapshot } from "./snapshot.ts";

export interface RunParts {
  readonly client: KubeClient;
  readonly placements: ScopeInformers;
  readonly own: RunInformers;
  readonly members: Informer<MemberCluster>;
  /** The override snapshots that apply to what a snapshot holds, by cluster. */
  readonly overridesFor: (snapshot: ResourceSnapshot, signal: AbortSignal) => Promise<OverridesOf>;
  readonly deps: RuntimeDeps;
}

/** Reconciles one run: prepares it once, then executes it. */
export function runReconciler(parts: RunParts) {
  return async (key: ObjectKey, signal: AbortSignal): Promise<ReconcileResult | void> => {
    const run = parts.own.runs.store.get(key);
    if (run === undefined) return;
    const pass = new RunPass(parts, signal);
    if (isDeleting(run)) return pass.release(run);
    if (isOver(run)) return;
    const held = await addFinalizer(parts.client, pass.kinds.runs, run, {
      finalizer: UPDATE_RUN_FINALIZER,
      signal,
    });
    if (statusOf(held.status, "Initialized") !== "True") return pass.initialize(held);
    return isExecuted(held) ? pass.execute(held) : undefined;
  };
}

class RunPass {
  readonly #parts: RunParts;
  readonly #signal: AbortSignal;

  constructor(parts: RunParts, signal: AbortSignal) {
    this.#parts = parts;
    this.#signal = signal;
  }

  get kinds() {
    return RUN_KINDS[this.#parts.placements.scope.name];
  }

  readonly #labelsOf = (cluster: string): Labels =>
    this.#parts.members.store.get(objectKey(undefined, cluster))?.metadata.labels;

  #nowMs(): number {
    return clockOfServer(this.#parts.client, this.#parts.deps.clock).now();
  }

  async initialize(run: StagedUpdateRun): Promise<void> {
    const { client, placements } = this.#parts;
    const key = placementOfRun(run);
    const seen = await this.#initialStatus(run, viewOf(placements, key));
    // A final answer is given only on what the API server says now.
    const status = isOver({ ...run, status: seen })
      ? await this.#initialStatus(run, await readView(client, placements, key, this.#signal))
      : seen;
    await this.#writeStatus(run, status);
  }

  async #initialStatus(run: StagedUpdateRun, view: PlacementView): Promise<StagedUpdateRunStatus> {
    const { client, placements } = this.#parts;
    const strategyKey = objectKey(run.metadata.namespace, run.spec.stagedRolloutStrategyName);
    const ground: Ground = {
      ...view,
      strategy: await client.find(this.kinds.strategies, strategyKey, { signal: this.#signal }),
      labelsOf: this.#labelsOf,
    };
    const found = survey(run, ground);
    if (!("stages" in found)) return uninitialized(run, found, this.#nowMs());
    const picked = pickSnapshot(run, placements);
    if (!("snapshot" in picked)) return uninitialized(run, picked, this.#nowMs());
    const overridesOf = await this.#parts.overridesFor(picked.snapshot, this.#signal);
    return initialized(run, found, { index: picked.index, overridesOf }, this.#nowMs());
  }

  async execute(run: StagedUpdateRun): Promise<ReconcileResult> {
    const { client, placements } = this.#parts;
    const key = placementOfRun(run);
    const seen = this.#plan(run, viewOf(placements, key));
    if (!isFailed(seen) && seen.outdated === undefined) return this.#carryOut(run, seen);
    // A run is aborted or planned again only for what the API server says now.
    const view = await readView(client, placements, key, this.#signal);
    const plan = this.#plan(run, view);
    return plan.outdated === undefined ? this.#carryOut(run, plan) : this.#replan(run, view);
  }

  async #replan(run: StagedUpdateRun, view: PlacementView): Promise<ReconcileResult> {
    const picked = pickSnapshot(
      {
        ...run,
        spec: { ...run.spec, ...defined({ resourceSnapshotIndex: run.status?.resourceSnapshotIndexUsed }) },
      },
      this.#parts.placements,
    );
    if (!("snapshot" in picked))
      throw new FleetError("API_NOT_FOUND", "fault" in picked ? picked.fault : picked.pending);
    const overridesOf = await this.#parts.overridesFor(picked.snapshot, this.#signal);
    const status = replan(run, { ...view, labelsOf: this.#labelsOf }, overridesOf, this.#nowMs());
    if (status !== undefined) await this.#writeStatus(run, status);
    return {};
  }

  async #carryOut(run: StagedUpdateRun, plan: Plan): Promise<ReconcileResult> {
    await this.#write(plan);
    await this.#writeStatus(run, plan.status);
    if (plan.wakeMs.length === 0) return {};
    const waitMs = Math.min(...plan.wakeMs) - this.#nowMs();
    return { requeueAfterMs: Math.min(MAX_WAIT_MS, Math.max(1, waitMs)) };
  }

  #plan(run: StagedUpdateRun, view: PlacementView): Plan {
    const { approvals } = this.#parts.own;
    const { namespace } = run.metadata;
    return advance(run, {
      ...view,
      approval: (name) => approvals.store.get(objectKey(namespace, name)),
      nowMs: this.#nowMs(),
    });
  }

  async #write({ bind, remove, request, accept }: Plan): Promise<void> {
    const { client, placements } = this.#parts;
    const signal = this.#signal;
    const results = await Promise.allSettled([
      ...bind.map((it) => this.#bind(it)),
      ...remove.map((it) =>
        client.delete(placements.scope.bindings, keyOf(it), { ...defined({ uid: it.metadata.uid }), signal }),
      ),
      ...request.map((it) => this.#request(it)),
      ...accept.map((it) => this.#accept(it)),
    ]);
    const failed = results.find((it) => it.status === "rejected");
    if (failed !== undefined) throw failed.reason;
  }

  /** Only if it was not changed since: the scheduler may just have taken the cluster out. */
  async #bind({ binding, spec, previous }: BindingChange): Promise<void> {
    const { uid, resourceVersion } = binding.metadata;
    const annotations = { [BEFORE_UPDATE_RUN_ANNOTATION]: previous };
    const metadata = { uid, resourceVersion, ...(previous === undefined ? {} : { annotations }) };
    const { scope } = this.#parts.placements;
    await this.#parts.client.mergePatch(
      scope.bindings,
      keyOf(binding),
      { metadata, spec },
      { fieldManager: UPDATE_RUN_MANAGER, signal: this.#signal },
    );
  }

  async #request(approval: ApprovalRequest): Promise<void> {
    const options = { fieldManager: UPDATE_RUN_MANAGER, signal: this.#signal };
    try {
      await this.#parts.client.create(this.kinds.approvals, approval, options);
    } catch (error) {
      // The informer is about to see it.
      if (!hasCode(error, "API_ALREADY_EXISTS")) throw error;
    }
  }

  async #accept(approval: ApprovalRequest): Promise<void> {
    const conditions = setCondition(
      approval.status?.conditions,
      {
        type: "ApprovalAccepted",
        status: "True",
        reason: "ApprovalRequestApprovalAccepted",
        message: "the approval is accepted",
        ...defined({ observedGeneration: approval.metadata.generation }),
      },
      { now: () => this.#nowMs() },
    );
    const { resourceVersion } = approval.metadata;
    await this.#parts.client
      .mergePatch(
        this.kinds.approvals,
        keyOf(approval),
        { metadata: { resourceVersion }, status: { conditions } },
        { subresource: "status", fieldManager: UPDATE_RUN_MANAGER, signal: this.#signal },
      )
      .catch(ignoreNotFound);
  }

  /** Only the fields that change, and only onto the status that was read: one that is older must not undo a newer one. */
  async #writeStatus(run: StagedUpdateRun, status: StagedUpdateRunStatus): Promise<void> {
    const before: Readonly<Record<string, unknown>> = { ...run.status };
    const changed = Object.entries(status).filter(([field, value]) => !sameJson(before[field], value));
    if (changed.length === 0) return;
    const { resourceVersion } = run.metadata;
    await this.#parts.client
      .mergePatch(
        this.kinds.runs,
        keyOf(run),
        { metadata: { resourceVersion }, status: Object.fromEntries(changed) },
        { subresource: "status", fieldManager: UPDATE_RUN_MANAGER, signal: this.#signal },
      )
      .catch(ignoreNotFound);
  }

  /** A run that is deleted takes its approval requests with it. */
  async release(run: StagedUpdateRun): Promise<void> {
    const { client } = this.#parts;
    const signal = this.#signal;
    const { name, namespace } = run.metadata;
    // Also those that a user made before they were due, without labels.
    const { items } = await client.list(this.kinds.approvals, { ...defined({ namespace }), signal });
    const own = items.filter((it) => it.spec.parentStageRollout === name);
    await Promise.all(own.map((it) => client.delete(this.kinds.approvals, keyOf(it), { signal })));
    await removeFinalizer(client, this.kinds.runs, run, { finalizer: UPDATE_RUN_FINALIZER, signal });
  }
}

/** Timers have 31 bits. Unit: milliseconds. */
const MAX_WAIT_MS = 24 * 3600 * 1000;

function isFailed({ status }: Plan): boolean {
  return statusOf(status, "Succeeded") === "False";
}
