import { type Lease, LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { type Node, NODES } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { backoffMs } from "@fairlead/base/backoff.ts";
import { type Clock, delay } from "@fairlead/base/clock.ts";
import { hasCode, messageOf } from "@fairlead/base/errors.ts";
import type { Component } from "@fairlead/base/lifecycle.ts";
import { microTimestamp } from "@fairlead/kube/objects/conditions.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { Controller, Informer, KubeClient } from "@fairlead/kube/types.ts";
import { newNode, type NodeFacts, planLabels, planStatus } from "./node-object.ts";

/** Keeps the Node object up to date: creates it, restores it after foreign changes, and writes only differences. */
export class NodeRegistration implements Component {
  readonly #client: KubeClient;
  readonly #facts: NodeFacts;
  readonly #clock: Clock;
  readonly #nodes: Informer<Node>;
  readonly #controller: Controller;

  constructor(client: KubeClient, facts: NodeFacts, deps: RuntimeDeps) {
    this.#client = client;
    this.#facts = facts;
    this.#clock = deps.clock;
    this.#nodes = createInformer(client, NODES, { fieldSelector: `metadata.name=${facts.name}` }, deps);
    this.#controller = createController(
      {
        name: "node-registration",
        reconcile: (_, signal) => this.#reconcile(signal),
        sources: [watching(this.#nodes)],
        concurrency: 1,
      },
      deps,
    );
  }

  async start(signal: AbortSignal): Promise<void> {
    this.#controller.enqueue(objectKey(undefined, this.#facts.name));
    await this.#controller.start(signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#controller[Symbol.asyncDispose]();
    await this.#nodes[Symbol.asyncDispose]();
  }

  async #reconcile(signal: AbortSignal): Promise<void> {
    const key = objectKey(undefined, this.#facts.name);
    let node = this.#nodes.store.get(key);
    if (node === undefined) {
      try {
        node = await this.#client.create(NODES, newNode(this.#facts), { signal });
      } catch (error) {
        if (!hasCode(error, "API_ALREADY_EXISTS")) throw error;
        node = await this.#client.get(NODES, key, { signal });
      }
    }
    const labels = planLabels(node, this.#facts);
    if (labels !== undefined) await this.#client.mergePatch(NODES, key, labels, { signal });
    const status = planStatus(node, this.#facts, this.#clock.now());
    if (status !== undefined)
      await this.#client.mergePatch(NODES, key, { status }, { subresource: "status", signal });
  }
}

/** The namespace in which kubelets renew their Leases. */
const LEASE_NAMESPACE = "kube-node-lease";

/** As kubelets do (k8s.io/component-helpers/apimachinery/lease, backoffEnsureLease), with jitter: the nodes of a lab try again together. */
const RETRY = { initialMs: 100, maxMs: 7000, factor: 2, jitter: 0.2 };

/** Reports that the node is alive: renews its Lease three times within its duration, and soon after a failure. */
export class Heartbeat implements Component {
  readonly #client: KubeClient;
  readonly #nodeName: string;
  readonly #leaseSeconds: number;
  readonly #deps: RuntimeDeps;
  readonly #stop = new AbortController();
  #running: Promise<void> | undefined;

  constructor(
    client: KubeClient,
    node: { readonly name: string; readonly leaseSeconds: number },
    deps: RuntimeDeps,
  ) {
    this.#client = client;
    this.#nodeName = node.name;
    this.#leaseSeconds = node.leaseSeconds;
    this.#deps = deps;
  }

  start(signal: AbortSignal): Promise<void> {
    this.#running = this.#run(AbortSignal.any([signal, this.#stop.signal]));
    return Promise.resolve();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#deps;
    const periodMs = Math.round((this.#leaseSeconds * 1000) / 3);
    let failures = 0;
    while (!signal.aborted) {
      const startedMs = clock.monotonic();
      let restMs: number;
      try {
        // An answer that takes longer than a period is as good as none.
        await this.#renew(AbortSignal.any([signal, AbortSignal.timeout(Math.max(1000, periodMs))]));
        failures = 0;
        restMs = Math.max(100, periodMs - (clock.monotonic() - startedMs));
      } catch (error) {
        if (signal.aborted) return;
        log.warn("the node's lease could not be renewed", { error: messageOf(error) });
        restMs = this.#retryMs(periodMs, failures);
        failures += 1;
      }
      await delay(clock, restMs, signal).catch(() => {});
    }
  }

  /** At most half a period, and jitter: a server that is away for a period and such a wait does not cost the lease. */
  #retryMs(periodMs: number, failures: number): number {
    const maxMs = Math.min(RETRY.maxMs, periodMs / 2);
    return backoffMs({ ...RETRY, maxMs }, failures, this.#deps.rng);
  }

  async #renew(signal: AbortSignal): Promise<void> {
    const key = objectKey(LEASE_NAMESPACE, this.#nodeName);
    const now = microTimestamp(this.#deps.clock.now());
    const spec = { holderIdentity: this.#nodeName, leaseDurationSeconds: this.#leaseSeconds, renewTime: now };
    try {
      await this.#client.mergePatch(LEASES, key, { spec }, { signal });
    } catch (error) {
      if (!hasCode(error, "API_NOT_FOUND")) throw error;
      const lease: Lease = { metadata: { name: this.#nodeName, namespace: LEASE_NAMESPACE }, spec };
      await this.#client.create(LEASES, lease, { signal });
    }
  }
}
