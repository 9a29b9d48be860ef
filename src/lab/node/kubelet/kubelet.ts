import { CONFIG_MAPS, type Pod, PODS, SECRETS, type Service, SERVICES } from "#api/core/v1/types.ts";
import { keyOf, objectKey, type ObjectKey } from "#api/meta/key.ts";
import { hasCode } from "#base/errors.ts";
import type { Component } from "#base/lifecycle.ts";
import { createController } from "#kube/controller.ts";
import type { RuntimeDeps } from "#kube/deps.ts";
import { createEventRecorder, type EventRecorder } from "#kube/events.ts";
import { createInformer } from "#kube/informer.ts";
import { watching } from "#kube/source.ts";
import type { Controller, Informer, KubeClient, ReconcileResult } from "#kube/types.ts";
import type { Machine } from "../../images/catalogue.ts";
import { ContainerRuntime, type ContainerView } from "../container/runtime.ts";
import { PodAddresses } from "../network/pod-addresses.ts";
import type { ClusterDns } from "../pod/resolver.ts";
import { probeAttempts } from "../probe/attempt.ts";
import type { PodAccess } from "../server/server.ts";
import type { NodeContext } from "./context.ts";
import { ObjectCache } from "./object-cache.ts";
import { readPodRecords } from "./pod-record.ts";
import { graceOf, PodRunner } from "./pod-runner.ts";
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
  /** Environment of the processes that hold containers. */
  readonly shimEnv: Readonly<Record<string, string>>;
}

/** A pod that the API server no longer knows gets this long to end. Unit: milliseconds. */
const ORPHAN_GRACE_MS = 1000;

/** Runs the pods that are bound to one node. Pods outlive it: the next one takes them over as they are. */
export class Kubelet implements Component {
  readonly #options: KubeletOptions;
  readonly #runtime: ContainerRuntime;
  readonly #stops: ContainerStops;
  readonly #runners = new Map<string, PodRunner>();
  readonly #pods: Informer<Pod>;
  readonly #kubernetes: Informer<Service>;
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
    const kubernetes = { namespace: "default", fieldSelector: "metadata.name=kubernetes" };
    this.#kubernetes = createInformer(client, SERVICES, kubernetes, deps);
    this.#events = createEventRecorder(client, "kubelet", deps);
    this.#controller = createController(
      {
        name: "kubelet",
        reconcile: (key, signal) => this.#reconcile(key, signal),
        sources: [watching(this.#pods), watching(this.#kubernetes, () => [])],
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
    await this.#kubernetes[Symbol.asyncDispose]();
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

  #createContext(): NodeContext {
    const { client, deps, machine, dns, nodeIPs, capacity, podCidrs } = this.#options;
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
      addresses: new PodAddresses(podCidrs),
      configMaps: new ObjectCache(client, CONFIG_MAPS, deps),
      secrets: new ObjectCache(client, SECRETS, deps),
      kubernetes: () => this.#kubernetes.store.get(objectKey("default", "kubernetes")),
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
    const runner = this.#runners.get(uid) ?? this.#addRunner(pod);
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

  #addRunner(pod: Pod): PodRunner {
    const { namespace = "", name, uid = "" } = pod.metadata;
    const runner = new PodRunner(this.#context, { namespace, name, uid, addresses: [] });
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
