import { ignoreNotFound } from "@fairlead/kube/objects/not-found.ts";
import { type Node, NODES, type Pod, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { keyOf, objectKey, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { setCondition } from "@fairlead/kube/objects/conditions.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { EventRecorder } from "@fairlead/kube/events/events.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { Controller, KubeClient, ReconcileResult } from "@fairlead/kube/types.ts";
import { markDisrupted } from "../disruption-target.ts";
import { untilEnding } from "../ending.ts";
import type { LabInformers } from "../informers.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { isReady } from "../pods.ts";
import { Heartbeats } from "./heartbeats.ts";
import { evictionInMs, plannedTaints, silentConditions } from "./plan.ts";

const BY_TAINT = {
  reason: "DeletionByTaintManager",
  message: "Taint manager: deleting due to NoExecute taint",
};
const LEASE_NAMESPACE = "kube-node-lease";

interface Parts {
  readonly client: KubeClient;
  readonly informers: Pick<LabInformers, "nodes" | "leases" | "pods">;
  readonly events: EventRecorder;
  /** How long a node may be silent. Unit: seconds. */
  readonly nodeLeaseSeconds: number;
}

/**
 * Notices nodes that fall silent: their readiness becomes unknown, their pods are no longer ready, and taints keep new
 * pods away and, after their tolerations, send those there away.
 */
export function nodeLifecycleController(parts: Parts, deps: RuntimeDeps): Controller {
  const { nodes, leases, pods } = parts.informers;
  const lifecycle = new NodeLifecycle(parts, deps);
  return createController(
    {
      name: "node-lifecycle",
      reconcile: untilEnding((key, signal) => lifecycle.reconcile(key, signal)),
      sources: [
        watching(nodes),
        watching(leases, ({ before, after }) => [
          objectKey(undefined, (after ?? before)?.metadata.name ?? ""),
        ]),
        // A pod that says it is ready on a node that does not report, or that a taint may send away.
        watching(pods, ({ after }) => {
          const node = after?.spec?.nodeName ?? "";
          return node === "" ? [] : [objectKey(undefined, node)];
        }),
      ],
    },
    deps,
  );
}

class NodeLifecycle {
  readonly #client: KubeClient;
  readonly #informers: Parts["informers"];
  readonly #events: EventRecorder;
  readonly #deps: RuntimeDeps;
  readonly #heartbeats: Heartbeats;

  constructor(parts: Parts, deps: RuntimeDeps) {
    this.#client = parts.client;
    this.#informers = parts.informers;
    this.#events = parts.events;
    this.#deps = deps;
    this.#heartbeats = new Heartbeats(parts.informers, deps.clock, parts.nodeLeaseSeconds * 1000);
  }

  async reconcile(key: ObjectKey, signal: AbortSignal): Promise<ReconcileResult> {
    const found = this.#informers.nodes.store.get(key);
    if (found === undefined) {
      this.#heartbeats.forget(key);
      return {};
    }
    if (this.#heartbeats.leftMs(key) <= 0) await this.#readLease(key, signal);
    const leftMs = this.#heartbeats.leftMs(key);
    const isSilent = leftMs <= 0;
    const node = isSilent ? await this.#markSilent(found, signal) : found;
    const tainted = await this.#taint(node, signal);
    const pods = [...this.#informers.pods.store.byIndex("node", key)];
    if (isSilent) for (const pod of pods) await this.#markNotReady(pod, signal);
    const evictMs = await this.#evict(tainted, pods, signal);
    const nextMs = Math.min(evictMs, leftMs > 0 ? leftMs : Number.POSITIVE_INFINITY);
    return Number.isFinite(nextMs) ? { requeueAfterMs: Math.max(1, nextMs) } : {};
  }

  /** The watch may be late or dead without an error: before a node counts as unreachable its Lease is read again. */
  async #readLease(key: ObjectKey, signal: AbortSignal): Promise<void> {
    const lease = await this.#client.find(LEASES, objectKey(LEASE_NAMESPACE, key), { signal });
    this.#heartbeats.noteLease(key, lease?.spec?.renewTime);
  }

  async #markSilent(node: Node, signal: AbortSignal): Promise<Node> {
    const conditions = silentConditions(node, this.#deps.clock);
    if (conditions === node.status?.conditions) return node;
    const { uid, resourceVersion } = node.metadata;
    const patch = { metadata: { uid, resourceVersion }, status: { conditions } };
    const written = await this.#client.mergePatch(NODES, keyOf(node), patch, {
      subresource: "status",
      signal,
    });
    const message = `Node ${node.metadata.name} status is now: NodeNotReady`;
    this.#events.record(NODES, node, { type: "Normal", reason: "NodeNotReady", message });
    this.#deps.log.warn("a node fell silent", { node: node.metadata.name });
    return written;
  }

  async #taint(node: Node, signal: AbortSignal): Promise<Node> {
    const taints = plannedTaints(node, this.#deps.clock);
    if (taints === node.spec?.taints || (taints.length === 0 && node.spec?.taints === undefined)) return node;
    const { uid, resourceVersion } = node.metadata;
    const patch = { metadata: { uid, resourceVersion }, spec: { taints } };
    return this.#client.mergePatch(NODES, keyOf(node), patch, { signal });
  }

  async #markNotReady(pod: Pod, signal: AbortSignal): Promise<void> {
    if (!isReady(pod)) return;
    const next = { type: "Ready", status: "False" } as const;
    const conditions = setCondition(pod.status?.conditions, next, this.#deps.clock);
    const { uid, resourceVersion } = pod.metadata;
    const patch = { metadata: { uid, resourceVersion }, status: { conditions } };
    await this.#client
      .mergePatch(PODS, keyOf(pod), patch, { subresource: "status", signal })
      .catch(ignoreNotFound);
  }

  /** @returns When the next pod has to leave. Unit: milliseconds from now. */
  async #evict(node: Node, pods: readonly Pod[], signal: AbortSignal): Promise<number> {
    const taints = node.spec?.taints ?? [];
    let nextMs = Number.POSITIVE_INFINITY;
    for (const pod of pods.filter((it) => !isDeleting(it))) {
      const inMs = evictionInMs(pod, taints, this.#deps.clock.now());
      if (inMs > 0) {
        nextMs = Math.min(nextMs, inMs);
        continue;
      }
      const message = `Marking for deletion Pod ${keyOf(pod)}`;
      this.#events.record(PODS, pod, { type: "Normal", reason: "TaintManagerEviction", message });
      await markDisrupted({ client: this.#client, clock: this.#deps.clock }, pod, BY_TAINT, signal).catch(
        ignoreNotFound,
      );
      await this.#client
        .delete(PODS, keyOf(pod), { uid: pod.metadata.uid ?? "", signal })
        .catch(ignoreNotFound);
    }
    return nextMs;
  }
}
