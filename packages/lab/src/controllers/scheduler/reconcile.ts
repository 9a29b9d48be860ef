import { type Node, type Pod, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, objectKey, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { byText } from "@fairlead/base/text.ts";
import { findCondition, setCondition } from "@fairlead/kube/objects/conditions.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { EventRecorder } from "@fairlead/kube/events/events.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { Change, Controller, KubeClient } from "@fairlead/kube/types.ts";
import { untilEnding } from "../ending.ts";
import type { LabInformers } from "../informers.ts";
import { isTerminal } from "../pods.ts";
import { planSchedule } from "./plan.ts";
import { NodeView } from "./snapshot.ts";

const SCHEDULER_NAME = "default-scheduler";

type Needs = Pick<LabInformers, "pods" | "nodes" | "namespaces">;

interface Parts {
  readonly client: KubeClient;
  readonly informers: Needs;
  readonly events: EventRecorder;
}

/** All pods that are due are decided in one pass: the most important first, each decision seeing those before it. */
const QUEUE = objectKey(undefined, SCHEDULER_NAME);

/** Gives pods their nodes. */
export function schedulerController(parts: Parts, deps: RuntimeDeps): Controller {
  const { pods, nodes } = parts.informers;
  const due = new Set<ObjectKey>();
  const scheduler = new Scheduler(parts, due, deps);
  const waiting = (accept: (pod: Pod) => boolean = () => true): void => {
    for (const pod of pods.store.byIndex("node", "")) if (accept(pod)) due.add(keyOf(pod));
  };
  return createController(
    {
      name: "scheduler",
      reconcile: untilEnding(async (key, signal) => {
        // Asked for by name, from outside: that pod is to be looked at.
        if (key !== QUEUE) due.add(key);
        await scheduler.scheduleDue(signal);
      }),
      sources: [
        watching(pods, (change) => {
          if (isUnassigned(change.after)) due.add(change.key);
          else if (isRoomMade(change)) waiting();
          // Where others are matters to those that want to be near them or far from them.
          else if (isMoved(change)) waiting(looksAtPods);
          return due.size === 0 ? [] : [QUEUE];
        }),
        watching(nodes, ({ before, after }) => {
          if (sameJson(facetsOf(before), facetsOf(after))) return [];
          waiting();
          return due.size === 0 ? [] : [QUEUE];
        }),
      ],
      concurrency: 1,
    },
    deps,
  );
}

/** All of a node that a decision depends on. */
function facetsOf(node: Node | undefined): unknown {
  if (node === undefined) return undefined;
  const { taints, unschedulable } = node.spec ?? {};
  const ready = findCondition(node.status?.conditions, "Ready")?.status;
  return { labels: node.metadata.labels, taints, unschedulable, ready, room: node.status?.allocatable };
}

function isUnassigned(pod: Pod | undefined): boolean {
  return pod !== undefined && (pod.spec?.nodeName ?? "") === "";
}

/** Whether a pod no longer takes what it took. */
function isRoomMade({ before, after }: Change<Pod>): boolean {
  if (before === undefined || isUnassigned(before) || isTerminal(before)) return false;
  return after === undefined || isTerminal(after);
}

function isMoved({ before, after }: Change<Pod>): boolean {
  return (
    isUnassigned(before) ||
    !sameJson(before?.metadata.labels, after?.metadata.labels) ||
    (before !== undefined && after !== undefined && isDeleting(before) !== isDeleting(after))
  );
}

function looksAtPods({ spec }: Pod): boolean {
  return (
    spec?.affinity?.podAffinity !== undefined ||
    spec?.affinity?.podAntiAffinity !== undefined ||
    (spec?.topologySpreadConstraints ?? []).length > 0
  );
}

class Scheduler {
  readonly #client: KubeClient;
  readonly #informers: Needs;
  readonly #events: EventRecorder;
  readonly #due: Set<ObjectKey>;
  readonly #deps: RuntimeDeps;
  /** Bound, and not yet seen to be: by uid, with the node they were sent to. */
  readonly #assumed = new Map<string, Pod>();

  constructor({ client, informers, events }: Parts, due: Set<ObjectKey>, deps: RuntimeDeps) {
    this.#client = client;
    this.#informers = informers;
    this.#events = events;
    this.#due = due;
    this.#deps = deps;
  }

  async scheduleDue(signal: AbortSignal): Promise<void> {
    this.#dropConfirmed();
    const pods = this.#takeDue();
    if (pods.length === 0) return;
    const nodes = this.#views();
    const failures: unknown[] = [];
    for (const pod of pods) {
      try {
        await this.#schedule(pod, nodes, signal);
      } catch (error) {
        // One that cannot be written must not keep the others waiting.
        this.#due.add(keyOf(pod));
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  }

  /** By priority, then by age, as the real one's queue is. */
  #takeDue(): Pod[] {
    const keys = [...this.#due];
    this.#due.clear();
    const pods = keys.flatMap((key) => this.#informers.pods.store.get(key) ?? []);
    return pods
      .filter((pod) => isOurs(pod) && !this.#assumed.has(pod.metadata.uid ?? ""))
      .toSorted(
        (a, b) =>
          (b.spec?.priority ?? 0) - (a.spec?.priority ?? 0) ||
          byText(a.metadata.creationTimestamp ?? "", b.metadata.creationTimestamp ?? ""),
      );
  }

  async #schedule(pod: Pod, nodes: readonly NodeView[], signal: AbortSignal): Promise<void> {
    const labelsOfNamespace = (name: string): Record<string, string> =>
      this.#informers.namespaces.store.get(objectKey(undefined, name))?.metadata.labels ?? {};
    const plan = planSchedule(pod, { nodes, labelsOfNamespace });
    if (plan.act === "wait") return this.#wait(pod, plan.message, signal);
    const view = nodes.find((it) => it.name === plan.node);
    if (await this.#bind(pod, plan.node, signal)) view?.add(pod);
  }

  /** @returns Whether the pod is on its way. */
  async #bind(pod: Pod, node: string, signal: AbortSignal): Promise<boolean> {
    const { namespace = "", name, uid = "" } = pod.metadata;
    const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(name)}/binding`;
    const target = { apiVersion: "v1", kind: "Node", name: node };
    const binding = { apiVersion: "v1", kind: "Binding", metadata: { namespace, name, uid }, target };
    try {
      await this.#client.request("POST", path, binding, { signal });
    } catch (error) {
      // Gone, or bound by another client: the watch will report it.
      if (hasCode(error, "API_NOT_FOUND", "API_CONFLICT")) return false;
      throw error;
    }
    this.#assumed.set(uid, { ...pod, spec: { containers: [], ...pod.spec, nodeName: node } });
    const message = `Successfully assigned ${namespace}/${name} to ${node}`;
    this.#events.record(PODS, pod, { type: "Normal", reason: "Scheduled", message });
    return true;
  }

  async #wait(pod: Pod, message: string, signal: AbortSignal): Promise<void> {
    const present = pod.status?.conditions;
    const next = { type: "PodScheduled", status: "False", reason: "Unschedulable", message } as const;
    const conditions = setCondition(present, next, this.#deps.clock);
    if (conditions === present) return;
    this.#events.record(PODS, pod, { type: "Warning", reason: "FailedScheduling", message });
    const { uid, resourceVersion } = pod.metadata;
    const patch = { metadata: { uid, resourceVersion }, status: { conditions } };
    try {
      await this.#client.mergePatch(PODS, keyOf(pod), patch, { subresource: "status", signal });
    } catch (error) {
      if (!hasCode(error, "API_NOT_FOUND", "API_CONFLICT")) throw error;
    }
  }

  #views(): NodeView[] {
    const sent = Map.groupBy(this.#assumed.values(), (pod) => pod.spec?.nodeName ?? "");
    return [...this.#informers.nodes.store.list()].map((node) => {
      const { name } = node.metadata;
      const there = this.#informers.pods.store.byIndex("node", name);
      return new NodeView(node, [...there, ...(sent.get(name) ?? [])]);
    });
  }

  #dropConfirmed(): void {
    for (const [uid, pod] of this.#assumed) {
      const seen = this.#informers.pods.store.get(keyOf(pod));
      if (seen?.metadata.uid !== uid || !isUnassigned(seen)) this.#assumed.delete(uid);
    }
  }
}

function isOurs(pod: Pod): boolean {
  const { schedulerName = SCHEDULER_NAME, schedulingGates = [] } = pod.spec ?? {};
  const isPending = isUnassigned(pod) && !isDeleting(pod) && !isTerminal(pod);
  return isPending && schedulerName === SCHEDULER_NAME && schedulingGates.length === 0;
}
