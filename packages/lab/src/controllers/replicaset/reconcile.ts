import { REPLICA_SETS, type ReplicaSet, type WorkloadCondition } from "@fairlead/kube/api/apps/v1/types.ts";
import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { removeCondition, setCondition } from "@fairlead/kube/objects/conditions.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { Controller, KubeClient, ReconcileResult } from "@fairlead/kube/types.ts";
import { claimantsOf } from "../claims.ts";
import { untilEnding } from "../ending.ts";
import { randomSuffix } from "../names.ts";
import { controllerOf, isActive } from "../pods.ts";
import { ownerReferenceTo, podOfTemplate } from "../templates.ts";
import { type WorkloadParts, WorkloadPods } from "../workload-pods.ts";
import { planScale, planStatus } from "./plan.ts";

type Parts = WorkloadParts<"replicaSets">;

/** Keeps as many pods as each ReplicaSet asks for. */
export function replicaSetController(parts: Parts, deps: RuntimeDeps): Controller {
  const reconciler = new Reconciler(parts, deps);
  return createController(
    {
      name: "replicaset",
      reconcile: untilEnding((key, signal) => reconciler.reconcile(key, signal)),
      sources: [
        watching(parts.informers.replicaSets),
        watching(parts.informers.pods, (change) => claimantsOf(parts.informers.replicaSets, change)),
      ],
    },
    deps,
  );
}

class Reconciler {
  readonly #client: KubeClient;
  readonly #informers: Parts["informers"];
  readonly #deps: RuntimeDeps;
  readonly #pods: WorkloadPods<ReplicaSet>;

  constructor(parts: Parts, deps: RuntimeDeps) {
    this.#client = parts.client;
    this.#informers = parts.informers;
    this.#deps = deps;
    this.#pods = new WorkloadPods(REPLICA_SETS, parts, deps.clock);
  }

  async reconcile(key: ObjectKey, signal: AbortSignal): Promise<ReconcileResult> {
    const replicaSet = this.#informers.replicaSets.store.get(key);
    if (replicaSet === undefined) return {};
    const isSettled = this.#pods.isSettled(replicaSet);
    const own = await this.#pods.claim(replicaSet, signal);
    let failure: Error | undefined;
    if (isSettled) {
      const plan = planScale(replicaSet, own, this.#crowds(replicaSet));
      failure = await this.#scale(replicaSet, plan, signal);
    }
    const nowMs = this.#deps.clock.now();
    const conditions = this.#conditions(replicaSet, failure);
    const { status, checkInMs } = planStatus(replicaSet, own, { nowMs, conditions });
    await this.#writeStatus(replicaSet, status, signal);
    if (failure !== undefined) throw failure;
    return checkInMs === undefined ? {} : { requeueAfterMs: checkInMs };
  }

  /** @returns The first failure: what was done before it counts all the same. */
  async #scale(
    replicaSet: ReplicaSet,
    plan: ReturnType<typeof planScale>,
    signal: AbortSignal,
  ): Promise<Error | undefined> {
    try {
      for (let made = 0; made < plan.create; made++) {
        const pod = podOf(replicaSet, randomSuffix(this.#deps.rng));
        await this.#pods.create(replicaSet, pod, signal);
      }
      for (const pod of plan.delete) await this.#pods.delete(replicaSet, pod, signal);
      return undefined;
    } catch (error) {
      return Error.isError(error) ? error : new Error(String(error));
    }
  }

  async #writeStatus(
    replicaSet: ReplicaSet,
    status: NonNullable<ReplicaSet["status"]>,
    signal: AbortSignal,
  ): Promise<void> {
    if (sameJson(withDefaults(replicaSet.status), withDefaults(status))) return;
    await this.#client.update(REPLICA_SETS, { ...replicaSet, status }, { subresource: "status", signal });
  }

  #conditions(replicaSet: ReplicaSet, failure: Error | undefined): WorkloadCondition[] {
    const present = replicaSet.status?.conditions;
    if (failure === undefined) return removeCondition(present, "ReplicaFailure");
    const next = {
      type: "ReplicaFailure",
      status: "True",
      reason: "FailedCreate",
      message: messageOf(failure),
    } as const;
    return setCondition<WorkloadCondition>(present, next, this.#deps.clock);
  }

  /** The number of pods that each node runs of the same Deployment, or of this set if it has no Deployment. */
  #crowds(replicaSet: ReplicaSet): ReadonlyMap<string, number> {
    const { replicaSets, pods } = this.#informers;
    const owner = controllerOf(replicaSet);
    const sets = owner === undefined ? [replicaSet] : [...replicaSets.store.byIndex("controller", owner.uid)];
    const crowds = new Map<string, number>();
    for (const set of sets) {
      for (const pod of pods.store.byIndex("controller", set.metadata.uid ?? "")) {
        const node = pod.spec?.nodeName ?? "";
        if (isActive(pod)) crowds.set(node, (crowds.get(node) ?? 0) + 1);
      }
    }
    return crowds;
  }
}

function podOf(replicaSet: ReplicaSet, suffix: string): Pod {
  const { name, namespace } = replicaSet.metadata;
  const owner = ownerReferenceTo(REPLICA_SETS, replicaSet);
  return podOfTemplate(owner, replicaSet.spec?.template, { namespace, prefix: `${name}-`, suffix });
}

/** A server may leave out counts of zero, as Go's encoder does. */
function withDefaults(status: ReplicaSet["status"]): object {
  return {
    fullyLabeledReplicas: 0,
    readyReplicas: 0,
    availableReplicas: 0,
    terminatingReplicas: 0,
    ...status,
  };
}
