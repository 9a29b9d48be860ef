import { MANAGED_BY, MANAGED_BY_LABEL } from "#api/fairlead.dev/names.ts";
import { POLICY_AT_BOOT } from "#api/fairlead.dev/node-agents.ts";
import { MESH_NETWORKS, type MeshNetwork } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { isBootChanged, planStartupTaint } from "#domain/policy-at-boot.ts";
import { defined } from "@fairlead/base/defined.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { Component } from "@fairlead/base/lifecycle.ts";
import { type Node, NODES } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { watching, watchingChanges } from "@fairlead/kube/controller/source.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import type { Controller, Informer, KubeClient } from "@fairlead/kube/types.ts";

/**
 * Keeps new pods off nodes whose agent has not written their policies since their boot. It needs the own cluster alone: nodes take pods again
 * whether or not the hub is away.
 */
export class StartupTaints implements Component {
  readonly #client: KubeClient;
  readonly #nodes: Informer<Node>;
  readonly #networks: Informer<MeshNetwork>;
  readonly #controller: Controller;

  constructor(client: KubeClient, deps: RuntimeDeps) {
    this.#client = client;
    this.#nodes = createInformer(client, NODES, { trim: trimmed }, deps);
    this.#networks = createInformer(
      client,
      MESH_NETWORKS,
      {
        namespace: FLEET_SYSTEM_NAMESPACE,
        labelSelector: `${MANAGED_BY_LABEL}=${MANAGED_BY}`,
        // Before the cluster joins, the kind is not there.
        isOptional: () => true,
      },
      deps,
    );
    const all = (): ObjectKey[] => [...this.#nodes.store.list()].map(keyOf);
    this.#controller = createController(
      {
        name: "startup-taint",
        concurrency: 4,
        reconcile: (key, signal) => this.#reconcile(key, signal),
        sources: [
          watching(this.#nodes, ({ key, before, after }) => (isBootChanged(before, after) ? [key] : [])),
          watchingChanges(this.#networks, all),
        ],
      },
      deps,
    );
  }

  start(signal: AbortSignal): Promise<void> {
    return this.#controller.start(signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#controller[Symbol.asyncDispose]();
    await this.#networks[Symbol.asyncDispose]();
    await this.#nodes[Symbol.asyncDispose]();
  }

  async #reconcile(key: ObjectKey, signal: AbortSignal): Promise<void> {
    const seen = this.#nodes.store.get(key);
    const isHeld = [...this.#networks.store.list()].some((it) => !isDeleting(it));
    if (seen === undefined || planStartupTaint(seen, isHeld) === undefined) return;
    // The list of taints is written as a whole: those that others have written since then stay.
    const node = await this.#client.get(NODES, key, { signal });
    const taints = planStartupTaint(node, isHeld);
    if (taints === undefined) return;
    const { resourceVersion } = node.metadata;
    const patch = { metadata: { resourceVersion }, spec: { taints: taints.length === 0 ? null : taints } };
    await this.#client.mergePatch(NODES, key, patch, { signal });
  }
}

/** Kubelets write much that is of no use here. */
function trimmed({ metadata, spec, status }: Node): Node {
  const { name, uid = "", resourceVersion = "" } = metadata;
  const report = status?.conditions?.find((it) => it.type === POLICY_AT_BOOT);
  const { type, status: is, reason, message } = report ?? {};
  const { unschedulable, taints } = spec ?? {};
  return {
    metadata: { name, uid, resourceVersion },
    spec: defined({ unschedulable, taints }),
    status: {
      conditions:
        type === undefined || is === undefined ? [] : [{ type, status: is, ...defined({ reason, message }) }],
      nodeInfo: { bootID: status?.nodeInfo?.["bootID"] ?? "" },
    },
  };
}
