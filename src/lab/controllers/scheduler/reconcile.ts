import { type Pod, PODS } from "#api/core/v1/types.ts";
import { keyOf, type ObjectKey } from "#api/meta/key.ts";
import { hasCode } from "#base/errors.ts";
import { setCondition } from "#kube/conditions.ts";
import { createController } from "#kube/controller.ts";
import type { RuntimeDeps } from "#kube/deps.ts";
import type { EventRecorder } from "#kube/events.ts";
import { watching } from "#kube/source.ts";
import type { Controller, Informer, KubeClient } from "#kube/types.ts";
import { untilEnding } from "../ending.ts";
import type { LabInformers } from "../informers.ts";
import { isDeleting } from "#kube/finalizers.ts";
import { controllerOf, isTerminal } from "../pods.ts";
import { planSchedule } from "./plan.ts";

const SCHEDULER_NAME = "default-scheduler";

interface Parts {
  readonly client: KubeClient;
  readonly informers: Pick<LabInformers, "pods" | "nodes">;
  readonly events: EventRecorder;
}

/** Gives pods their nodes, one after another: each decision sees those before it. */
export function schedulerController(parts: Parts, deps: RuntimeDeps): Controller {
  const { pods, nodes } = parts.informers;
  const scheduler = new Scheduler(parts, deps);
  const waiting = (): ObjectKey[] => [...pods.store.byIndex("node", "")].map((pod) => keyOf(pod));
  return createController(
    {
      name: "scheduler",
      reconcile: untilEnding((key, signal) => scheduler.schedule(key, signal)),
      sources: [
        // A pod that goes or comes may make room for another one; all that wait are looked at again.
        watching(pods, ({ key, before, after }) => {
          const isFreed = after === undefined && (before?.spec?.nodeName ?? "") !== "";
          return isFreed ? waiting() : [key];
        }),
        watching(nodes, waiting),
      ],
      concurrency: 1,
    },
    deps,
  );
}

class Scheduler {
  readonly #client: KubeClient;
  readonly #pods: Informer<Pod>;
  readonly #nodes: Parts["informers"]["nodes"];
  readonly #events: EventRecorder;
  readonly #deps: RuntimeDeps;
  /** Bound, and not yet seen to be: pod uid to node. */
  readonly #assumed = new Map<
    string,
    { readonly key: ObjectKey; readonly node: string; readonly owner: string }
  >();

  constructor(parts: Parts, deps: RuntimeDeps) {
    this.#client = parts.client;
    this.#pods = parts.informers.pods;
    this.#nodes = parts.informers.nodes;
    this.#events = parts.events;
    this.#deps = deps;
  }

  async schedule(key: ObjectKey, signal: AbortSignal): Promise<void> {
    this.#dropConfirmed();
    const pod = this.#pods.store.get(key);
    if (pod === undefined || !isOurs(pod) || this.#assumed.has(pod.metadata.uid ?? "")) return;
    const plan = planSchedule(pod, this.#views(pod));
    if (plan.act === "bind") await this.#bind(pod, plan.node, signal);
    else await this.#wait(pod, plan.message, signal);
  }

  async #bind(pod: Pod, node: string, signal: AbortSignal): Promise<void> {
    const { namespace = "", name, uid = "" } = pod.metadata;
    const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(name)}/binding`;
    const target = { apiVersion: "v1", kind: "Node", name: node };
    const binding = { apiVersion: "v1", kind: "Binding", metadata: { namespace, name, uid }, target };
    try {
      await this.#client.request("POST", path, binding, { signal });
    } catch (error) {
      // Gone, or bound by someone else: the watch will say so.
      if (hasCode(error, "API_NOT_FOUND", "API_CONFLICT")) return;
      throw error;
    }
    this.#assumed.set(uid, { key: keyOf(pod), node, owner: controllerOf(pod)?.uid ?? "" });
    const message = `Successfully assigned ${namespace}/${name} to ${node}`;
    this.#events.record(PODS, pod, { type: "Normal", reason: "Scheduled", message });
  }

  async #wait(pod: Pod, message: string, signal: AbortSignal): Promise<void> {
    const present = pod.status?.conditions;
    const next = { type: "PodScheduled", status: "False", reason: "Unschedulable", message } as const;
    const conditions = setCondition(present, next, this.#deps.clock);
    if (conditions === present) return;
    this.#events.record(PODS, pod, { type: "Warning", reason: "FailedScheduling", message });
    const { uid, resourceVersion } = pod.metadata;
    const patch = { metadata: { uid, resourceVersion }, status: { conditions } };
    await this.#client.mergePatch(PODS, keyOf(pod), patch, { subresource: "status", signal });
  }

  #views(pod: Pod) {
    const owner = controllerOf(pod)?.uid;
    const assumed = [...this.#assumed.values()];
    return [...this.#nodes.store.list()].map((node) => {
      const { name } = node.metadata;
      const there = [...this.#pods.store.byIndex("node", name)].filter((it) => !isTerminal(it));
      const sent = assumed.filter((it) => it.node === name);
      const own = owner === undefined ? 0 : there.filter((it) => controllerOf(it)?.uid === owner).length;
      const ownSent = owner === undefined ? 0 : sent.filter((it) => it.owner === owner).length;
      return { node, pods: there.length + sent.length, siblings: own + ownSent };
    });
  }

  #dropConfirmed(): void {
    for (const [uid, { key }] of this.#assumed) {
      const pod = this.#pods.store.get(key);
      if (pod?.metadata.uid !== uid || (pod.spec?.nodeName ?? "") !== "") this.#assumed.delete(uid);
    }
  }
}

function isOurs(pod: Pod): boolean {
  const { nodeName = "", schedulerName = SCHEDULER_NAME } = pod.spec ?? {};
  return nodeName === "" && schedulerName === SCHEDULER_NAME && !isDeleting(pod) && !isTerminal(pod);
}
