import {
  DEPLOYMENTS,
  type Deployment,
  REPLICA_SETS,
  type ReplicaSet,
} from "@fairlead/kube/api/apps/v1/types.ts";
import { keyOf, objectKey, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { EventRecorder } from "@fairlead/kube/events/events.ts";
import { matcherOf } from "@fairlead/kube/objects/selector.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { Change, Controller, KubeClient, ReconcileResult } from "@fairlead/kube/types.ts";
import { untilEnding } from "../ending.ts";
import type { LabInformers } from "../informers.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { controllerOf, isControlledBy } from "../pods.ts";
import { findNewSet, newSet, REVISION, revisionOf, setAnnotations } from "./revisions.ts";
import {
  boundsOf,
  initialReplicas,
  isScalingEvent,
  planCleanup,
  planProportional,
  planRecreate,
  planRolling,
  replicasOf,
  type Scaled,
} from "./rollout.ts";
import { planStatus } from "./status.ts";

type Needs = Pick<LabInformers, "deployments" | "replicaSets">;

interface Parts {
  readonly client: KubeClient;
  readonly informers: Needs;
  readonly events: EventRecorder;
}

/** Rolls Deployments out through ReplicaSets. */
export function deploymentController(parts: Parts, deps: RuntimeDeps): Controller {
  const reconciler = new Reconciler(parts, deps);
  return createController(
    {
      name: "deployment",
      reconcile: untilEnding((key, signal) => reconciler.reconcile(key, signal)),
      sources: [
        watching(parts.informers.deployments),
        watching(parts.informers.replicaSets, (change) => deploymentsOfSet(parts.informers, change)),
      ],
    },
    deps,
  );
}

/** One pass over one Deployment. */
interface Pass {
  readonly deployment: Deployment;
  readonly newSet: ReplicaSet | undefined;
  readonly oldSets: readonly ReplicaSet[];
  readonly signal: AbortSignal;
}

class Reconciler {
  readonly #client: KubeClient;
  readonly #informers: Needs;
  readonly #events: EventRecorder;
  readonly #deps: RuntimeDeps;

  constructor(parts: Parts, deps: RuntimeDeps) {
    this.#client = parts.client;
    this.#informers = parts.informers;
    this.#events = parts.events;
    this.#deps = deps;
  }

  async reconcile(key: ObjectKey, signal: AbortSignal): Promise<ReconcileResult> {
    const deployment = this.#informers.deployments.store.get(key);
    if (deployment === undefined || isDeleting(deployment)) return {};
    const sets = await this.#claim(deployment, signal);
    const present = findNewSet(deployment, sets);
    const before = { deployment, newSet: present, oldSets: sets.filter((set) => set !== present), signal };
    const created = await this.#startRollout(before);
    const pass = { ...before, newSet: present ?? created };
    if (created === undefined) await this.#proceed(pass);
    return this.#report(pass, created !== undefined);
  }

  /** The sets that are the Deployment's own; those that match and have no controller are taken in. */
  async #claim(deployment: Deployment, signal: AbortSignal): Promise<ReplicaSet[]> {
    const matches = matcherOf(deployment.spec?.selector);
    const candidates = [
      ...this.#informers.replicaSets.store.byIndex("namespace", deployment.metadata.namespace ?? ""),
    ];
    const own = candidates.filter((set) => isControlledBy(set, deployment));
    const orphans = candidates.filter(
      (set) => controllerOf(set) === undefined && !isDeleting(set) && matches(set.metadata.labels),
    );
    const { name, uid = "" } = deployment.metadata;
    const owner = {
      apiVersion: "apps/v1",
      kind: "Deployment",
      name,
      uid,
      controller: true,
      blockOwnerDeletion: true,
    };
    for (const set of orphans) {
      const { resourceVersion, ownerReferences = [] } = set.metadata;
      const metadata = {
        uid: set.metadata.uid,
        resourceVersion,
        ownerReferences: [...ownerReferences, owner],
      };
      own.push(await this.#client.mergePatch(REPLICA_SETS, keyOf(set), { metadata }, { signal }));
    }
    return own;
  }

  /** Makes the set of a template that has none yet, unless the Deployment is paused or old pods have to end first. */
  async #startRollout({
    deployment,
    newSet: present,
    oldSets,
    signal,
  }: Pass): Promise<ReplicaSet | undefined> {
    if (present !== undefined || deployment.spec?.paused === true) return undefined;
    const bounds = boundsOf(deployment);
    const isRecreate = deployment.spec?.strategy?.type === "Recreate";
    if (isRecreate && !planRecreate(bounds, undefined, oldSets).mayStart) return undefined;
    const replicas = initialReplicas(bounds, oldSets, isRecreate);
    const desired = newSet(deployment, replicas, this.#notes(deployment, nextRevision(oldSets)));
    const created = await this.#client.create(REPLICA_SETS, desired, { signal });
    if (replicas > 0) this.#reportScaled(deployment, created, { from: 0, to: replicas });
    return created;
  }

  async #proceed(before: Pass): Promise<void> {
    const { deployment, oldSets } = before;
    const isPaused = deployment.spec?.paused === true;
    const present = isPaused ? before.newSet : await this.#annotate(before);
    const pass = { ...before, newSet: present };
    const bounds = boundsOf(deployment);
    const all = present === undefined ? oldSets : [present, ...oldSets];
    if (isPaused || isScalingEvent(bounds, all))
      await this.#scaleAll(pass, planProportional(bounds, present, oldSets));
    else await this.#roll(pass);
  }

  async #roll(pass: Pass): Promise<void> {
    const { deployment, newSet: present, oldSets, signal } = pass;
    const bounds = boundsOf(deployment);
    if (deployment.spec?.strategy?.type === "Recreate")
      await this.#scaleAll(pass, planRecreate(bounds, present, oldSets).scale);
    else if (present !== undefined) await this.#scaleAll(pass, planRolling(bounds, present, oldSets));
    for (const set of planCleanup(deployment, oldSets)) {
      const uid = set.metadata.uid ?? "";
      const options = { uid, propagationPolicy: "Background", signal } as const;
      await this.#client.delete(REPLICA_SETS, keyOf(set), options);
    }
  }

  /** A template that was rolled back to is the newest revision again, under the set that it had. */
  async #annotate({ deployment, newSet: present, oldSets, signal }: Pass): Promise<ReplicaSet | undefined> {
    if (present === undefined) return undefined;
    const revision = Math.max(revisionOf(present), nextRevision(oldSets));
    const { annotations = {} } = present.metadata;
    // How many pods it was scaled for is noted with the scaling, not before it.
    const notes = setAnnotations(deployment, annotations, this.#notes(deployment, revision));
    const next = { ...notes, ...keptCounts(annotations) };
    return sameJson(annotations, next) ? present : this.#patchAnnotations(present, next, signal);
  }

  #patchAnnotations(
    set: ReplicaSet,
    annotations: Record<string, string>,
    signal: AbortSignal,
  ): Promise<ReplicaSet> {
    return this.#client.mergePatch(REPLICA_SETS, keyOf(set), { metadata: { annotations } }, { signal });
  }

  async #scaleAll(pass: Pass, scaled: readonly Scaled[]): Promise<void> {
    const { deployment, oldSets, newSet: present, signal } = pass;
    for (const { set, replicas } of scaled) {
      const { resourceVersion, annotations = {} } = set.metadata;
      const notes = this.#notes(deployment, revisionOf(set));
      const metadata = {
        resourceVersion,
        annotations: set === present ? setAnnotations(deployment, annotations, notes) : counts(notes),
      };
      await this.#client.mergePatch(REPLICA_SETS, keyOf(set), { metadata, spec: { replicas } }, { signal });
      this.#reportScaled(deployment, set, { from: replicasOf(set), to: replicas });
    }
    // What was not scaled notes the new number too, or the change would count as one to scale for ever.
    const done = new Set(scaled.map((it) => it.set));
    for (const set of [...(present === undefined ? [] : [present]), ...oldSets]) {
      if (done.has(set) || replicasOf(set) === 0) continue;
      const wanted = counts(this.#notes(deployment, revisionOf(set)));
      const isNoted = sameJson(keptCounts(set.metadata.annotations ?? {}), wanted);
      if (!isNoted) await this.#patchAnnotations(set, wanted, signal);
    }
  }

  async #report(pass: Pass, isNew: boolean): Promise<ReconcileResult> {
    const { deployment, newSet: present, oldSets, signal } = pass;
    const revision = String(Math.max(present === undefined ? 0 : revisionOf(present), nextRevision(oldSets)));
    if (present !== undefined && deployment.metadata.annotations?.[REVISION] !== revision) {
      const metadata = { annotations: { [REVISION]: revision } };
      await this.#client.mergePatch(DEPLOYMENTS, keyOf(deployment), { metadata }, { signal });
    }
    const { status, deadlineInMs } = planStatus({
      deployment,
      newSet: present,
      oldSets,
      isNew,
      clock: this.#deps.clock,
    });
    if (!sameJson(withoutZeros(deployment.status), withoutZeros(status)))
      await this.#client.mergePatch(
        DEPLOYMENTS,
        keyOf(deployment),
        { status },
        { subresource: "status", signal },
      );
    return deadlineInMs === undefined ? {} : { requeueAfterMs: deadlineInMs };
  }

  #notes(deployment: Deployment, revision: number) {
    const { replicas, maxSurge } = boundsOf(deployment);
    return { revision, desiredReplicas: replicas, maxReplicas: replicas + maxSurge };
  }

  #reportScaled(
    deployment: Deployment,
    set: ReplicaSet,
    by: { readonly from: number; readonly to: number },
  ): void {
    const direction = by.to > by.from ? "up" : "down";
    const message = `Scaled ${direction} replica set ${set.metadata.name} from ${by.from} to ${by.to}`;
    this.#events.record(DEPLOYMENTS, deployment, { type: "Normal", reason: "ScalingReplicaSet", message });
  }
}

const COUNTS = [
  "deployment.kubernetes.io/desired-replicas",
  "deployment.kubernetes.io/max-replicas",
] as const;

function keptCounts(annotations: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    COUNTS.flatMap((key) => (annotations[key] === undefined ? [] : [[key, annotations[key]]])),
  );
}

function counts(notes: {
  readonly desiredReplicas: number;
  readonly maxReplicas: number;
}): Record<string, string> {
  return { [COUNTS[0]]: String(notes.desiredReplicas), [COUNTS[1]]: String(notes.maxReplicas) };
}

function nextRevision(oldSets: readonly ReplicaSet[]): number {
  return Math.max(0, ...oldSets.map(revisionOf)) + 1;
}

/** A server may leave out counts of zero, as Go's encoder does. */
function withoutZeros(status: Deployment["status"]): object {
  return Object.fromEntries(Object.entries(status ?? {}).filter(([, value]) => value !== 0));
}

/** The Deployment that owns the set or owned it, and for an orphan all whose selector may take it in. */
function deploymentsOfSet({ deployments }: Needs, { before, after }: Change<ReplicaSet>): ObjectKey[] {
  return [before, after].flatMap((set) => {
    if (set === undefined) return [];
    const { namespace } = set.metadata;
    const owner = controllerOf(set);
    if (owner !== undefined) return owner.kind === "Deployment" ? [objectKey(namespace, owner.name)] : [];
    return [...deployments.store.byIndex("namespace", namespace ?? "")]
      .filter((deployment) => matcherOf(deployment.spec?.selector)(set.metadata.labels))
      .map((deployment) => keyOf(deployment));
  });
}
