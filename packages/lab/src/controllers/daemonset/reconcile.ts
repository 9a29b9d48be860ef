import {
  CONTROLLER_REVISIONS,
  type ControllerRevision,
  DAEMON_SETS,
  type DaemonSet,
} from "@fairlead/kube/api/apps/v1/types.ts";
import type { Node, Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { Controller, KubeClient, ReconcileResult } from "@fairlead/kube/types.ts";
import { claimantsOf, ownerOf } from "../claims.ts";
import { untilEnding } from "../ending.ts";
import { planHistory, planRevisions, type RevisionPlan, type Versioned, writeRevision } from "../history.ts";
import { randomSuffix } from "../names.ts";
import { ownerReferenceTo } from "../templates.ts";
import { type WorkloadParts, WorkloadPods } from "../workload-pods.ts";
import { FailureBackoff } from "./backoff.ts";
import { planPods, planStatus, type PodsPlan, type View } from "./plan.ts";
import { HASH_LABEL, newPod, nodeOf } from "./pods.ts";

type Parts = WorkloadParts<"daemonSets" | "controllerRevisions" | "nodes">;

/** Keeps a pod of each DaemonSet on every node that is to have one. */
export function daemonSetController(parts: Parts, deps: RuntimeDeps): Controller {
  const reconciler = new Reconciler(parts, deps);
  const { daemonSets, controllerRevisions, pods, nodes } = parts.informers;
  return createController(
    {
      name: "daemonset",
      reconcile: untilEnding((key, signal) => reconciler.reconcile(key, signal)),
      sources: [
        watching(daemonSets),
        watching(controllerRevisions, ({ before, after }) => ownerOf("DaemonSet", after ?? before)),
        watching(pods, (change) => claimantsOf(parts.informers.daemonSets, change)),
        watching(nodes, ({ before, after }) =>
          sameJson(facetsOf(before), facetsOf(after))
            ? []
            : [...daemonSets.store.list()].map((set) => keyOf(set)),
        ),
      ],
    },
    deps,
  );
}

/** All of a node that a DaemonSet looks at. */
function facetsOf(node: Node | undefined): unknown {
  return node === undefined ? undefined : { labels: node.metadata.labels, taints: node.spec?.taints };
}

class Reconciler {
  readonly #client: KubeClient;
  readonly #informers: Parts["informers"];
  readonly #deps: RuntimeDeps;
  readonly #pods: WorkloadPods<DaemonSet>;
  readonly #backoff = new FailureBackoff();

  constructor(parts: Parts, deps: RuntimeDeps) {
    this.#client = parts.client;
    this.#informers = parts.informers;
    this.#deps = deps;
    this.#pods = new WorkloadPods(DAEMON_SETS, parts, deps.clock);
  }

  async reconcile(key: ObjectKey, signal: AbortSignal): Promise<ReconcileResult> {
    const set = this.#informers.daemonSets.store.get(key);
    if (set === undefined) this.#backoff.forget(key);
    if (set === undefined || isDeleting(set)) return {};
    const isSettled = this.#pods.isSettled(set);
    const revisions = [
      ...this.#informers.controllerRevisions.store.byIndex("controller", set.metadata.uid ?? ""),
    ];
    const versioned = versionedOf(set);
    const revision = planRevisions(versioned, revisions);
    await writeRevision(this.#client, revision, signal);
    const view = await this.#view(set, revision, signal);
    const waitMs = isSettled ? await this.#changePods(key, view, signal) : undefined;
    const { status, checkInMs } = planStatus(view);
    await this.#writeStatus(set, status, signal);
    const inUse = new Set([revision.update.metadata.name, ...revisionsInUse(revisions, view.own)]);
    for (const it of planHistory(versioned, revisions, inUse))
      await this.#client.delete(CONTROLLER_REVISIONS, keyOf(it), { signal });
    const times = [waitMs, checkInMs].filter((ms) => ms !== undefined);
    return times.length === 0 ? {} : { requeueAfterMs: Math.max(1, Math.min(...times)) };
  }

  async #view(set: DaemonSet, revision: RevisionPlan, signal: AbortSignal): Promise<View> {
    const own = await this.#pods.claim(set, signal);
    const hash = revision.update.metadata.labels?.[HASH_LABEL] ?? "";
    const nodes = [...this.#informers.nodes.store.list()];
    return { set, nodes, own, hash, nowMs: this.#deps.clock.now() };
  }

  /** @returns When a failed pod may be replaced, if one has to wait. Unit: milliseconds from now. */
  async #changePods(key: ObjectKey, view: View, signal: AbortSignal): Promise<number | undefined> {
    const plan = planPods(view);
    const { now, waitMs } = this.#delayFailed(key, view, plan);
    for (const pod of now) await this.#pods.delete(view.set, pod, signal);
    for (const node of plan.create) {
      const pod = newPod(view.set, node, { hash: view.hash, suffix: randomSuffix(this.#deps.rng) });
      await this.#pods.create(view.set, pod, signal);
    }
    return waitMs;
  }

  /** Pods that fail again and again are replaced more and more slowly: a kubelet may refuse them for good. */
  #delayFailed(key: ObjectKey, { set, hash, nowMs }: View, plan: PodsPlan) {
    const now: Pod[] = [];
    let waitMs: number | undefined;
    for (const pod of plan.delete) {
      const { namespace, name } = pod.metadata;
      const found = `Found ${pod.status?.phase === "Failed" ? "failed" : "succeeded"} daemon pod`;
      const what = `${found} ${namespace}/${name} on node ${nodeOf(pod)}, will try to`;
      if (pod.status?.phase === "Succeeded")
        this.#pods.report(set, "Normal", "SucceededDaemonPod", `${what} delete it`);
      // One of an older template goes in any case: the new one may do better.
      if (pod.status?.phase === "Failed" && pod.metadata.labels?.[HASH_LABEL] === hash) {
        const leftMs = this.#backoff.leftMs(key, nodeOf(pod), nowMs);
        if (leftMs > 0) {
          waitMs = Math.min(leftMs, waitMs ?? leftMs);
          continue;
        }
        this.#backoff.note(key, nodeOf(pod), nowMs);
        this.#pods.report(set, "Warning", "FailedDaemonPod", `${what} kill it`);
      }
      now.push(pod);
    }
    return { now, waitMs };
  }

  async #writeStatus(
    set: DaemonSet,
    status: NonNullable<DaemonSet["status"]>,
    signal: AbortSignal,
  ): Promise<void> {
    if (sameJson(withDefaults(set.status), withDefaults(status))) return;
    await this.#client.update(DAEMON_SETS, { ...set, status }, { subresource: "status", signal });
  }
}

function versionedOf(set: DaemonSet): Versioned {
  return {
    object: set,
    template: set.spec?.template ?? {},
    owner: ownerReferenceTo(DAEMON_SETS, set),
    hashLabel: HASH_LABEL,
    historyLimit: set.spec?.revisionHistoryLimit ?? 10,
    currentRevision: undefined,
  };
}

function revisionsInUse(revisions: readonly ControllerRevision[], own: readonly Pod[]): string[] {
  const hashes = new Set(own.map((pod) => pod.metadata.labels?.[HASH_LABEL]));
  return revisions.filter((it) => hashes.has(it.metadata.labels?.[HASH_LABEL])).map((it) => it.metadata.name);
}

/** A server may leave out counts of zero, as Go's encoder does. */
function withDefaults(status: DaemonSet["status"]): object {
  return { numberAvailable: 0, numberUnavailable: 0, updatedNumberScheduled: 0, ...status };
}
