import { BEFORE_UPDATE_RUN_ANNOTATION } from "#api/fairlead.dev/names.ts";
import {
  PREVIOUS_BINDING_STATE_ANNOTATION,
  UPDATE_RUN_FINALIZER,
  UPDATE_RUN_MANAGER,
  WORK_FINALIZER,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import type { ResourceBinding } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type {
  ApprovalRequest,
  StagedUpdateRun,
  StagedUpdateRunStatus,
} from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { defined } from "@fairlead/base/defined.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { keyOf, type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { clockOfServer } from "@fairlead/kube/client/server-clock.ts";
import type { OwnWrites } from "@fairlead/kube/informer/own-writes.ts";
import { setCondition } from "@fairlead/kube/objects/conditions.ts";
import { addFinalizer, isDeleting, removeFinalizer } from "@fairlead/kube/objects/finalizers.ts";
import { ignoreNotFound } from "@fairlead/kube/objects/not-found.ts";
import type { Labels } from "@fairlead/kube/objects/selector.ts";
import type { ReconcileResult } from "@fairlead/kube/types.ts";
import { advance, isExecuted, isOver, type Plan } from "#updates/staged/advance.ts";
import { statusOf } from "#updates/staged/conditions.ts";
import { initialized, survey, uninitialized } from "#updates/staged/initialize.ts";
import type { BindingChange } from "#updates/staged/pass.ts";
import { replan } from "#updates/staged/replan.ts";
import { ClockJumps, type ClockLook } from "../../clock-jumps.ts";
import { findSnapshot } from "../contents.ts";
import { placementOfRun, type ScopeInformers } from "../informers.ts";
import { bindingsOf, type RolloutParts } from "../parts.ts";
import type { Selecting } from "../selecting.ts";
import { type PlacementView, readView, viewOf } from "./ground.ts";
import { overridesOfRun } from "./overrides.ts";
import { pickSnapshot, snapshotOf } from "./snapshot.ts";
import { RunStatuses } from "./statuses.ts";

export interface RunParts extends RolloutParts {
  /** Of the runs that one controller executes. */
  readonly of: ScopeInformers;
  readonly snapshotNow: Selecting["snapshotNow"];
}

type PassParts = RunParts & {
  readonly bindings: OwnWrites<ResourceBinding>;
  readonly statuses: RunStatuses;
};

/** Reconciles one run: prepares it once, then executes it. */
export function runReconciler(
  runParts: RunParts,
): (key: ObjectKey, signal: AbortSignal) => Promise<ReconcileResult | void> {
  const { of, client } = runParts;
  const bindings = bindingsOf(runParts, of);
  const statuses = new RunStatuses(client, of, runParts.deps.clock);
  const jumps = new ClockJumps(clockOfServer(client, runParts.deps.clock));
  const parts = { ...runParts, bindings, statuses };
  return async (key, signal) => {
    const run = statuses.get(key);
    if (run === undefined || isDeleting(run) || isOver(run)) {
      statuses.forget(key);
      jumps.forget(key);
    }
    if (run === undefined) return;
    const pass = new RunPass(parts, signal);
    if (isDeleting(run)) return pass.release(run);
    if (isOver(run)) return;
    const held = await addFinalizer(client, of.scope.runs, run, { finalizer: UPDATE_RUN_FINALIZER, signal });
    if (statusOf(held.status, "Initialized") !== "True") return pass.initialize(held);
    if (!isExecuted(held)) return undefined;
    return pass.execute(held, jumps.look(key));
  };
}

interface Initial {
  readonly status: StagedUpdateRunStatus;
  /** The run waits for what a placement selects, which is found out without an event for the run. */
  readonly isUnwatched?: boolean;
}

class RunPass {
  readonly #parts: PassParts;
  readonly #signal: AbortSignal;

  constructor(parts: PassParts, signal: AbortSignal) {
    this.#parts = parts;
    this.#signal = signal;
  }

  readonly #labelsOf = (cluster: string): Labels =>
    this.#parts.members.store.get(objectKey(undefined, cluster))?.metadata.labels;

  #nowMs(): number {
    return clockOfServer(this.#parts.client, this.#parts.deps.clock).now();
  }

  async initialize(run: StagedUpdateRun): Promise<ReconcileResult> {
    const { client, of, bindings } = this.#parts;
    const key = placementOfRun(run);
    const seen = await this.#initialStatus(run, viewOf(of, bindings, key));
    // A final answer is given only on what the API server says now.
    const { status, isUnwatched = false } = isOver({ ...run, status: seen.status })
      ? await this.#initialStatus(run, await readView(client, of, key, this.#signal))
      : seen;
    await this.#parts.statuses.write(run, status, this.#signal);
    return isUnwatched ? { requeueAfterMs: RETRY_MS } : {};
  }

  async #initialStatus(run: StagedUpdateRun, view: PlacementView): Promise<Initial> {
    const { client, of } = this.#parts;
    const strategyKey = objectKey(run.metadata.namespace, run.spec.stagedRolloutStrategyName);
    const strategy = await client.find(of.scope.strategies, strategyKey, { signal: this.#signal });
    const found = survey(run, { ...view, strategy, labelsOf: this.#labelsOf });
    if (!("stages" in found)) return { status: uninitialized(run, found, this.#nowMs()) };
    const picked = await pickSnapshot(run, found.placement, this.#parts, this.#signal);
    if (!("snapshot" in picked))
      return { status: uninitialized(run, picked, this.#nowMs()), isUnwatched: "pending" in picked };
    const { namespace, name } = picked.snapshot.metadata;
    // Made a moment ago: the run is due again when the informer has it, and overrides can be looked up.
    if (findSnapshot(of, namespace, name) === undefined) return { status: run.status ?? {} };
    const overrides = await overridesOfRun(this.#parts, of, picked.snapshot, this.#signal);
    const index = { index: picked.index, overridesOf: overrides };
    return { status: initialized(run, found, index, this.#nowMs()) };
  }

  async execute(run: StagedUpdateRun, look: ClockLook): Promise<ReconcileResult> {
    const { client, of, bindings } = this.#parts;
    const key = placementOfRun(run);
    const seen = this.#plan(run, viewOf(of, bindings, key), look);
    if (!isFailed(seen) && seen.outdated === undefined) return this.#carryOut(run, seen, look);
    // A run is aborted or planned again only for what the API server says now.
    const view = await readView(client, of, key, this.#signal);
    const plan = this.#plan(run, view, look);
    return plan.outdated === undefined ? this.#carryOut(run, plan, look) : this.#replan(run, view);
  }

  async #replan(run: StagedUpdateRun, view: PlacementView): Promise<ReconcileResult> {
    const { of } = this.#parts;
    const overrides = await overridesOfRun(this.#parts, of, snapshotOf(run, of), this.#signal);
    const status = replan(run, { ...view, labelsOf: this.#labelsOf }, overrides, this.#nowMs());
    if (status !== undefined) await this.#parts.statuses.write(run, status, this.#signal);
    return {};
  }

  async #carryOut(run: StagedUpdateRun, plan: Plan, look: ClockLook): Promise<ReconcileResult> {
    await this.#write(plan);
    const writeMs = await this.#parts.statuses.write(run, plan.status, this.#signal);
    look.settle();
    const dueMs = writeMs > 0 ? [writeMs] : [];
    if (plan.wakeMs.length > 0) dueMs.push(Math.min(...plan.wakeMs) - this.#nowMs());
    if (dueMs.length === 0) return {};
    const waitMs = Math.min(...dueMs);
    return { requeueAfterMs: Math.min(MAX_WAIT_MS, Math.max(1, waitMs)) };
  }

  #plan(run: StagedUpdateRun, view: PlacementView, { jumpMs }: ClockLook): Plan {
    const { approvals } = this.#parts.of;
    const { namespace } = run.metadata;
    return advance(run, {
      ...view,
      approval: (name) => approvals.store.get(objectKey(namespace, name)),
      nowMs: this.#nowMs(),
      jumpMs,
    });
  }

  async #write({ bind, remove, request, accept }: Plan): Promise<void> {
    const { client, of, bindings } = this.#parts;
    const signal = this.#signal;
    const results = await Promise.allSettled([
      ...bind.map((it) => this.#bind(it)),
      ...remove.map(async (it) => {
        // The version: the scheduler may have picked the cluster again.
        const { uid, resourceVersion } = it.metadata;
        await client.delete(of.scope.bindings, keyOf(it), { ...defined({ uid, resourceVersion }), signal });
        bindings.noteDeleted(it);
      }),
      ...request.map((it) => this.#request(it)),
      ...accept.map((it) => this.#accept(it)),
    ]);
    const failed = results.find((it) => it.status === "rejected");
    if (failed !== undefined) throw failed.reason;
  }

  /** Only if it was not changed since: the scheduler may just have taken the cluster out. */
  async #bind({ binding, spec, previous }: BindingChange): Promise<void> {
    const { uid, resourceVersion, finalizers = [], annotations = {} } = binding.metadata;
    const changed = {
      ...(previous === undefined ? {} : { [BEFORE_UPDATE_RUN_ANNOTATION]: previous }),
      ...(PREVIOUS_BINDING_STATE_ANNOTATION in annotations
        ? { [PREVIOUS_BINDING_STATE_ANNOTATION]: null }
        : {}),
    };
    const metadata = {
      uid,
      resourceVersion,
      annotations: changed,
      ...(finalizers.includes(WORK_FINALIZER) ? {} : { finalizers: [...finalizers, WORK_FINALIZER] }),
    };
    const { client, of, bindings } = this.#parts;
    const options = { fieldManager: UPDATE_RUN_MANAGER, signal: this.#signal };
    const patch = { metadata, spec: specPatch(binding.spec, spec) };
    bindings.note(await client.mergePatch(of.scope.bindings, keyOf(binding), patch, options));
  }

  async #request(approval: ApprovalRequest): Promise<void> {
    const options = { fieldManager: UPDATE_RUN_MANAGER, signal: this.#signal };
    try {
      await this.#parts.client.create(this.#parts.of.scope.approvals, approval, options);
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
        this.#parts.of.scope.approvals,
        keyOf(approval),
        { metadata: { resourceVersion }, status: { conditions } },
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
    const { items } = await client.list(this.#parts.of.scope.approvals, {
      ...defined({ namespace }),
      signal,
    });
    const own = items.filter((it) => it.spec.parentStageRollout === name);
    await Promise.all(own.map((it) => client.delete(this.#parts.of.scope.approvals, keyOf(it), { signal })));
    await removeFinalizer(client, this.#parts.of.scope.runs, run, {
      finalizer: UPDATE_RUN_FINALIZER,
      signal,
    });
  }
}

/** Unit: milliseconds. */
const RETRY_MS = 1000;
/** Timers have 31 bits. Unit: milliseconds. */
const MAX_WAIT_MS = 24 * 3600 * 1000;

/** As a merge patch: lists that are empty, and what another apply strategy had, go. */
function specPatch({ applyStrategy: had }: ResourceBinding["spec"], spec: BindingChange["spec"]): object {
  const patch: Record<string, unknown> = {};
  for (const [field, value] of Object.entries(spec))
    patch[field] = Array.isArray(value) && value.length === 0 ? null : value;
  if (spec.applyStrategy !== undefined) {
    const former: Record<string, null> = {};
    for (const field of Object.keys(had ?? {})) former[field] = null;
    patch["applyStrategy"] = { ...former, ...spec.applyStrategy };
  }
  return patch;
}

function isFailed({ status }: Plan): boolean {
  return statusOf(status, "Succeeded") === "False";
}
