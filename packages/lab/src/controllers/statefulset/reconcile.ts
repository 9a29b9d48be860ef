import { CONTROLLER_REVISIONS, STATEFUL_SETS, type StatefulSet } from "@fairlead/kube/api/apps/v1/types.ts";
import { type Pod, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { hasCode, messageOf } from "@fairlead/base/errors.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { EventRecorder } from "@fairlead/kube/events/events.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { matcherOf } from "@fairlead/kube/objects/selector.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { Controller, KubeClient, ReconcileResult } from "@fairlead/kube/types.ts";
import { claimantsOf, ownerOf, planClaims, settleClaims } from "../claims.ts";
import { untilEnding } from "../ending.ts";
import {
  planHistory,
  planRevisions,
  type RevisionPlan,
  templateOf,
  type Versioned,
  writeRevision,
} from "../history.ts";
import type { LabInformers } from "../informers.ts";
import { controllerOf } from "../pods.ts";
import { ownerReferenceTo } from "../templates.ts";
import { newPod, ordinalOf, revisionOf } from "./identity.ts";
import { planPods, planStatus, type View } from "./plan.ts";

type Needs = Pick<LabInformers, "statefulSets" | "controllerRevisions" | "pods">;

interface Parts {
  readonly client: KubeClient;
  readonly informers: Needs;
  readonly events: EventRecorder;
}

/** Keeps the pods of StatefulSets: each under its own name, made, removed and updated in order. */
export function statefulSetController(parts: Parts, deps: RuntimeDeps): Controller {
  const reconciler = new Reconciler(parts, deps);
  const { statefulSets, controllerRevisions, pods } = parts.informers;
  return createController(
    {
      name: "statefulset",
      reconcile: untilEnding((key, signal) => reconciler.reconcile(key, signal)),
      sources: [
        watching(statefulSets),
        watching(controllerRevisions, ({ before, after }) => ownerOf("StatefulSet", after ?? before)),
        watching(pods, (change) =>
          claimantsOf(parts.informers.statefulSets, change, (set, pod) => ordinalOf(set, pod) !== undefined),
        ),
      ],
    },
    deps,
  );
}

/** Pod names identify existing pods, so no expectations are needed for what the cache does not show yet. */
class Reconciler {
  readonly #client: KubeClient;
  readonly #informers: Needs;
  readonly #events: EventRecorder;
  readonly #deps: RuntimeDeps;

  constructor({ client, informers, events }: Parts, deps: RuntimeDeps) {
    this.#client = client;
    this.#informers = informers;
    this.#events = events;
    this.#deps = deps;
  }

  async reconcile(key: ObjectKey, signal: AbortSignal): Promise<ReconcileResult> {
    const set = this.#informers.statefulSets.store.get(key);
    if (set === undefined || isDeleting(set)) return {};
    if ((set.spec?.volumeClaimTemplates ?? []).length > 0) {
      this.#report(set, "Warning", "FailedCreate", "volumeClaimTemplates: no volume can be claimed here");
      return {};
    }
    const own = await this.#claim(set, signal);
    const revisions = [...this.#informers.controllerRevisions.store.byIndex("controller", uidOf(set))];
    const versioned = versionedOf(set);
    const plan = planRevisions(versioned, revisions);
    await writeRevision(this.#client, plan, signal);
    const { current, update } = plan;
    const nowMs = this.#deps.clock.now();
    const view = { set, own, current: current.metadata.name, update: update.metadata.name, nowMs };
    // The status first: what becomes of the pods comes back through the watch, and makes the next pass due.
    const { status, checkInMs } = planStatus(view);
    await this.#writeStatus(set, status, signal);
    await this.#changePods(view, plan, signal);
    const inUse = new Set([view.current, view.update, ...own.map(revisionOf)]);
    for (const revision of planHistory(versioned, revisions, inUse))
      await this.#client.delete(CONTROLLER_REVISIONS, keyOf(revision), { signal });
    return checkInMs === undefined ? {} : { requeueAfterMs: checkInMs };
  }

  async #claim(set: StatefulSet, signal: AbortSignal): Promise<readonly Pod[]> {
    const inNamespace = this.#informers.pods.store.byIndex("namespace", set.metadata.namespace ?? "");
    const candidates = [...inNamespace].filter((pod) => ordinalOf(set, pod) !== undefined);
    const claims = planClaims(set, candidates, matcherOf(set.spec?.selector));
    await settleClaims(this.#client, ownerReferenceTo(STATEFUL_SETS, set), claims, signal);
    return claims.own;
  }

  async #changePods(view: View, revisions: RevisionPlan, signal: AbortSignal): Promise<void> {
    const plan = planPods(view);
    for (const { ordinal, revision } of plan.create) {
      const of = revision === view.update ? revisions.update : revisions.current;
      await this.#create(view.set, newPod(view.set, ordinal, templateOf(of), revision), signal);
    }
    for (const pod of plan.delete) await this.#delete(view.set, pod, signal);
  }

  async #create(set: StatefulSet, pod: Pod, signal: AbortSignal): Promise<void> {
    const what = `create Pod ${pod.metadata.name} in StatefulSet ${set.metadata.name}`;
    try {
      await this.#client.create(PODS, pod, { signal });
    } catch (error) {
      if (hasCode(error, "API_ALREADY_EXISTS") && (await this.#isOwn(set, pod, signal))) return;
      this.#report(set, "Warning", "FailedCreate", `${what} failed error: ${messageOf(error)}`);
      throw error;
    }
    this.#report(set, "Normal", "SuccessfulCreate", `${what} successful`);
  }

  /** Whether a pod that the cache does not show was made in a pass before. */
  async #isOwn(set: StatefulSet, pod: Pod, signal: AbortSignal): Promise<boolean> {
    const present = await this.#client.find(PODS, keyOf(pod), { signal });
    return present === undefined || controllerOf(present)?.uid === uidOf(set);
  }

  async #delete(set: StatefulSet, pod: Pod, signal: AbortSignal): Promise<void> {
    try {
      await this.#client.delete(PODS, keyOf(pod), { uid: pod.metadata.uid ?? "", signal });
    } catch (error) {
      // Another pod has the name by now: the watch will show it.
      if (!hasCode(error, "API_CONFLICT")) throw error;
      return;
    }
    const message = `delete Pod ${pod.metadata.name} in StatefulSet ${set.metadata.name} successful`;
    this.#report(set, "Normal", "SuccessfulDelete", message);
  }

  async #writeStatus(
    set: StatefulSet,
    status: NonNullable<StatefulSet["status"]>,
    signal: AbortSignal,
  ): Promise<void> {
    if (sameJson(withDefaults(set.status), withDefaults(status))) return;
    await this.#client.update(STATEFUL_SETS, { ...set, status }, { subresource: "status", signal });
  }

  #report(set: StatefulSet, type: "Normal" | "Warning", reason: string, message: string): void {
    this.#events.record(STATEFUL_SETS, set, { type, reason, message });
  }
}

function versionedOf(set: StatefulSet): Versioned {
  return {
    object: set,
    template: set.spec?.template ?? {},
    owner: ownerReferenceTo(STATEFUL_SETS, set),
    hashLabel: "controller.kubernetes.io/hash",
    historyLimit: set.spec?.revisionHistoryLimit ?? 10,
    currentRevision: set.status?.currentRevision,
  };
}

function uidOf(set: StatefulSet): string {
  return set.metadata.uid ?? "";
}

/** A server may leave out counts of zero, as Go's encoder does. */
function withDefaults(status: StatefulSet["status"]): object {
  const zero = { readyReplicas: 0, availableReplicas: 0, currentReplicas: 0, updatedReplicas: 0 };
  return { ...zero, collisionCount: 0, ...status };
}
