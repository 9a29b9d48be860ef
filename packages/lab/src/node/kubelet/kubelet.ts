import { join } from "node:path";
import { CONFIG_MAPS, type Pod, PODS, SECRETS, type Service } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, objectKey, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import type { Component } from "@fairlead/base/lifecycle.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { createEventRecorder, type EventRecorder } from "@fairlead/kube/events/events.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { Controller, Informer, KubeClient, ReconcileResult } from "@fairlead/kube/types.ts";
import type { Machine } from "#images/catalogue.ts";
import { ContainerRuntime, type ContainerView } from "../container/runtime.ts";
import type { RunningPod } from "../cri/server.ts";
import { PodAddresses } from "../network/pod-addresses.ts";
import type { ClusterDns } from "../pod/resolver.ts";
import { probeAttempts } from "../probe/attempt.ts";
import type { PodAccess } from "../server/server.ts";
import type { NodeContext } from "./context.ts";
import { ObjectCache } from "./object-cache.ts";
import { readPodRecords } from "./pod-record.ts";
import { refusalOf } from "../pod/admission.ts";
import { qosClass } from "../pod/qos.ts";
import { graceOf } from "./container-starter.ts";
import { PodRunner } from "./pod-runner.ts";
import { ContainerStops } from "./stops.ts";

export interface KubeletOptions {
  readonly client: KubeClient;
  readonly deps: RuntimeDeps;
  readonly nodeName: string;
  /** Folder of the node's state. Its file system should be a fast one; what must outlive the kubelet is in it. */
  readonly dataDir: string;
  /** One per family, the primary one first. */
  readonly nodeIPs: readonly string[];
  readonly podCidrs: readonly string[];
  readonly dns: ClusterDns;
  readonly machine: Machine;
  readonly capacity: Readonly<Record<string, string>>;
  /** Labels of the Node. */
  readonly labels: Readonly<Record<string, string>>;
  /** All Services of the cluster, with the index `BY_NAMESPACE`. The caller stops the informer. */
  readonly services: Informer<Service>;
  /** Environment of the processes that hold containers. */
  readonly shimEnv: Readonly<Record<string, string>>;
}

/** An index of Services. */
export const BY_NAMESPACE = "namespace";

/** A pod that the API server no longer knows gets this long to end. Unit: milliseconds. */
const ORPHAN_GRACE_MS = 1000;

/** Runs the pods that are bound to one node. Pods outlive it: the next one takes them over as they are. */
export class Kubelet implements Component {
  readonly #options: KubeletOptions;
  readonly #runtime: ContainerRuntime;
  readonly #stops: ContainerStops;
  readonly #runners = new Map<string, PodRunner>();
  readonly #pods: Informer<Pod>;
  readonly #controller: Controller;
  readonly #events: EventRecorder;
  readonly #context: NodeContext;

  constructor(options: KubeletOptions) {
    const { client, deps, dataDir, nodeName, shimEnv } = options;
    this.#options = options;
    const onExit = (run: ContainerView): void => this.#runners.get(run.podUid)?.onExit(run);
    this.#runtime = new ContainerRuntime({ dataDir, shimEnv, clock: deps.clock, onExit });
    this.#stops = new ContainerStops(this.#runtime, deps.clock);
    this.#pods = createInformer(client, PODS, { fieldSelector: `spec.nodeName=${nodeName}` }, deps);
    this.#events = createEventRecorder(client, "kubelet", deps);
    this.#controller = createController(
      {
        name: "kubelet",
        reconcile: (key, signal) => this.#reconcile(key, signal),
        sources: [watching(this.#pods), watching(options.services, () => [])],
        concurrency: 8,
      },
      deps,
    );
    this.#context = this.#createContext();
  }

  async start(signal: AbortSignal): Promise<void> {
    for (const record of readPodRecords(this.#runtime.pods)) {
      // What another pod holds by now is not this one's any more; it gets others when it starts again.
      const isOwn = record.addresses.length === 0 || this.#context.addresses.reserve(record.addresses);
      const runner = new PodRunner(this.#context, isOwn ? record : { ...record, addresses: [] });
      this.#runners.set(record.uid, runner);
      this.#controller.enqueue(runner.key);
    }
    await this.#controller.start(signal);
  }

  /** Leaves the pods running. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#controller[Symbol.asyncDispose]();
    for (const runner of this.#runners.values()) await runner[Symbol.asyncDispose]();
    this.#stops[Symbol.dispose]();
    this.#runtime[Symbol.dispose]();
    await this.#context.configMaps[Symbol.asyncDispose]();
    await this.#context.secrets[Symbol.asyncDispose]();
    await this.#pods[Symbol.asyncDispose]();
    await this.#events.flushed();
  }

  /** For the kubelet's server. */
  get access(): PodAccess {
    const find = (namespace: string, name: string): PodRunner | undefined => {
      const uid = this.#pods.store.get(objectKey(namespace, name))?.metadata.uid;
      return uid === undefined ? undefined : this.#runners.get(uid);
    };
    return {
      netnsOf: (namespace, pod) => {
        const runner = find(namespace, pod);
        return runner && { netns: runner.netns() };
      },
      runOf: (namespace, pod, container, back) => {
        const runner = find(namespace, pod);
        return runner && this.#runtime.latest(runner.uid, container, back);
      },
      endOf: (run) => this.#runtime.endOf(run),
    };
  }

  /** The pods that have their network. */
  get running(): readonly RunningPod[] {
    return [...this.#runners.values()].flatMap(({ running }) => (running === undefined ? [] : [running]));
  }

  #createContext(): NodeContext {
    const { client, deps, machine, dns, nodeIPs, capacity, podCidrs, dataDir } = this.#options;
    return {
      client,
      deps,
      machine,
      dns,
      nodeIPs,
      capacity,
      runtime: this.#runtime,
      stops: this.#stops,
      events: this.#events,
      addresses: new PodAddresses(podCidrs, {
        clock: deps.clock,
        file: join(dataDir, "free-addresses.json"),
      }),
      configMaps: new ObjectCache(client, CONFIG_MAPS, deps),
      secrets: new ObjectCache(client, SECRETS, deps),
      servicesFor: (pod) => this.#servicesFor(pod),
      attempt: probeAttempts(deps.clock),
      enqueue: (key) => this.#controller.enqueue(key),
    };
  }

  async #reconcile(key: ObjectKey, signal: AbortSignal): Promise<ReconcileResult | void> {
    const pod = this.#pods.store.get(key);
    const uid = pod?.metadata.uid ?? "";
    for (const runner of this.#runners.values())
      if (runner.key === key && runner.uid !== uid)
        await this.#end(runner, undefined, { graceMs: ORPHAN_GRACE_MS, signal });
    if (pod === undefined) return {};
    const runner = this.#runners.get(uid) ?? (await this.#admit(pod, signal));
    if (runner === undefined) return {};
    if (pod.metadata.deletionTimestamp !== undefined) {
      const seconds = pod.metadata.deletionGracePeriodSeconds;
      const graceMs = seconds === undefined ? graceOf(pod) : seconds * 1000;
      await this.#end(runner, pod, { graceMs, signal });
      return {};
    }
    const dueAtMs = await runner.sync(pod, signal);
    if (dueAtMs === undefined) return {};
    return { requeueAfterMs: Math.max(1, dueAtMs - this.#options.deps.clock.now()) };
  }

  /** Services of the pod's namespace, unless it wants none, and the API server's own. */
  *#servicesFor(pod: Pod): Iterable<Service> {
    const { store } = this.#options.services;
    const { namespace = "" } = pod.metadata;
    const kubernetes = store.get(objectKey("default", "kubernetes"));
    if (kubernetes !== undefined) yield kubernetes;
    if (pod.spec?.enableServiceLinks === false) return;
    for (const service of store.byIndex(BY_NAMESPACE, namespace)) if (service !== kubernetes) yield service;
  }

  /** Makes room for a pod that is new to the node. Undefined for one that is over, or that the node refuses. */
  async #admit(pod: Pod, signal: AbortSignal): Promise<PodRunner | undefined> {
    const isEnding = pod.metadata.deletionTimestamp !== undefined;
    if (isEnding) return this.#addRunner(pod);
    if (isOver(pod)) return undefined;
    const others = [...this.#runners.values()].flatMap(({ pod: it }) => (it && !isOver(it) ? [it] : []));
    const { capacity: allocatable, labels } = this.#options;
    const refusal = refusalOf({ pod, others, allocatable, labels });
    if (refusal === undefined) return this.#addRunner(pod);
    const { reason, message } = refusal;
    const reported = message.replace(/^Pod was rejected: /, "");
    this.#events.record(PODS, pod, { type: "Warning", reason, message: reported });
    const status = { ...refusal, phase: "Failed", qosClass: pod.status?.qosClass ?? qosClass(pod) };
    const patch = { metadata: { uid: pod.metadata.uid }, status };
    await this.#options.client.mergePatch(PODS, keyOf(pod), patch, { subresource: "status", signal });
    return undefined;
  }

  #addRunner(pod: Pod): PodRunner {
    const { namespace = "", name, uid = "" } = pod.metadata;
    const runner = new PodRunner(this.#context, { namespace, name, uid, addresses: [] }, pod);
    this.#runners.set(uid, runner);
    return runner;
  }

  /** Once nothing is left of the pod on the node, the API server may forget it. */
  async #end(
    runner: PodRunner,
    pod: Pod | undefined,
    { graceMs, signal }: { readonly graceMs: number; readonly signal: AbortSignal },
  ): Promise<void> {
    if (!(await runner.end(pod, graceMs, signal))) return;
    this.#runners.delete(runner.uid);
    await runner[Symbol.asyncDispose]();
    if (pod === undefined) return;
    try {
      await this.#options.client.delete(PODS, keyOf(pod), { uid: runner.uid, gracePeriodSeconds: 0, signal });
    } catch (error) {
      // Another pod has the name already.
      if (!hasCode(error, "API_CONFLICT")) throw error;
    }
  }
}

function isOver({ status }: Pod): boolean {
  return status?.phase === "Succeeded" || status?.phase === "Failed";
}
