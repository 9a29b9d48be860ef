import { NODE_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import {
  NODE_AGENT_CONDITION,
  NODE_POLICY_CONDITION,
  NODE_POLICY_REASONS,
  POLICY_AT_BOOT,
} from "#api/fairlead.dev/node-agents.ts";
import { formatSupport, ownSupport } from "#domain/kubernetes-support.ts";
import { AGENT_REPORT_MS } from "#domain/node-agents.ts";
import { describeBoot } from "#domain/policy-at-boot.ts";
import { engineReport } from "#domain/policy-engine.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import type { Component } from "@fairlead/base/lifecycle.ts";
import { type Node, type NodeCondition, NODES } from "@fairlead/kube/api/core/v1/types.ts";
import { type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import { findCondition, removeCondition, timestamp } from "@fairlead/kube/objects/conditions.ts";
import type { Controller, Informer, KubeClient, ReconcileResult } from "@fairlead/kube/types.ts";

/** How policies of a node are enforced, while its cluster is in a network. */
export interface NodePolicyState {
  /** The network plugin that enforces them in the node's namespace. */
  readonly engine?: string;
  /** What is wrong with bridges. */
  readonly unseen?: string;
  /** The boot at which the node loaded its last known policies before its kubelet started. */
  readonly restored?: string;
  /** Bridges whose pods can send with each other's addresses. */
  readonly shared?: readonly string[];
  /** What is not enforced for new pods. */
  readonly open?: string;
  /** Why the table cannot be written. */
  readonly failed?: string;
}

export interface PolicyReportOptions {
  readonly client: KubeClient;
  readonly nodeName: string;
  /** Has this Node; started by the caller. */
  readonly nodes: Informer<Node>;
  readonly deps: RuntimeDeps;
}

/** Unit: characters. */
const LONGEST_MESSAGE = 1000;

/** The conditions to write, with the time until they are due again; undefined: the Node has them. Pure. */
export function planReport(
  { conditions: before, nodeInfo }: NonNullable<Node["status"]>,
  state: NodePolicyState,
  nowMs: number,
): { readonly next: NodeCondition[] | undefined; readonly dueInMs: number } {
  const planned = [
    describe(state),
    describeBoot({ ...state, boot: nodeInfo?.["bootID"] ?? "" }),
    {
      type: NODE_AGENT_CONDITION,
      status: "True" as const,
      reason: "Running",
      message: formatSupport([ownSupport("node")]),
    },
  ].map((said) => {
    const found = findCondition(before, said.type);
    const isSame =
      found?.status === said.status && found.reason === said.reason && found.message === said.message;
    const atMs = Date.parse(found?.lastHeartbeatTime ?? "");
    const dueInMs = isSame && atMs <= nowMs ? atMs + AGENT_REPORT_MS - nowMs : 0;
    const since = found?.status === said.status ? found.lastTransitionTime : undefined;
    return { said, dueInMs, since };
  });
  const dueInMs = Math.min(...planned.map((it) => it.dueInMs));
  if (dueInMs > 0) return { next: undefined, dueInMs };
  const now = timestamp(nowMs);
  const next = planned.map(({ said, since = now }) => ({
    ...said,
    lastHeartbeatTime: now,
    lastTransitionTime: since,
  }));
  return { next, dueInMs: AGENT_REPORT_MS };
}

function describe({ engine, unseen, open, failed, shared = [] }: NodePolicyState): NodeCondition {
  const { enforced, known, plugin, unfiltered, failed: notEnforced } = NODE_POLICY_REASONS;
  const type = NODE_POLICY_CONDITION;
  if (failed !== undefined)
    return {
      type,
      status: "False",
      reason: notEnforced,
      message: `fairlead node cannot write its rules, and tries again: ${failed}`.slice(0, LONGEST_MESSAGE),
    };
  if (engine !== undefined) return { type, status: "False", reason: plugin, message: engineReport(engine) };
  if (unseen !== undefined) return { type, status: "False", reason: unfiltered, message: unseen };
  const limits =
    shared.length === 0
      ? ""
      : `; pods that share a bridge (${shared.join(", ")}) can send with each other's addresses, which only the network plugin can prevent`;
  return {
    type,
    status: "True",
    reason: open === undefined ? enforced : known,
    message: `${open ?? "fairlead node enforces network policies"}${limits}`,
  };
}

/** Reports on the Node of an agent that it runs, in which version, and how it enforces policies: what is in its way. */
export class PolicyReport implements Component {
  readonly #options: PolicyReportOptions;
  readonly #key: ObjectKey;
  readonly #controller: Controller;
  #state: NodePolicyState | undefined;
  #setAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: PolicyReportOptions) {
    this.#options = options;
    this.#key = objectKey(undefined, options.nodeName);
    this.#controller = createController(
      {
        name: "policy-report",
        concurrency: 1,
        reconcile: (_key, signal) => this.#reconcile(signal),
        sources: [watching(options.nodes, () => [this.#key])],
      },
      options.deps,
    );
  }

  start(signal: AbortSignal): Promise<void> {
    return this.#controller.start(signal);
  }

  /**
   * After each pass. An agent that makes none stops to report.
   *
   * @param state - Undefined: the cluster is in no network.
   */
  set(state: NodePolicyState | undefined): void {
    this.#state = state;
    this.#setAtMs = this.#options.deps.clock.monotonic();
    this.#controller.enqueue(this.#key);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#controller[Symbol.asyncDispose]();
  }

  async #reconcile(signal: AbortSignal): Promise<ReconcileResult | void> {
    const { nodes, deps } = this.#options;
    const node = nodes.store.get(this.#key);
    if (node === undefined) return;
    if (this.#state === undefined) return this.#withdraw(node, signal);
    if (deps.clock.monotonic() - this.#setAtMs >= AGENT_REPORT_MS) return;
    const { next, dueInMs } = planReport(node.status ?? {}, this.#state, deps.clock.now());
    if (next !== undefined) await this.#write(next, signal);
    return { requeueAfterMs: dueInMs };
  }

  /** In place of `start`. If it fails the rest is removed all the same: the report becomes old. */
  async remove(signal: AbortSignal): Promise<void> {
    const { client, nodeName, deps } = this.#options;
    try {
      const { items } = await client.list(NODES, { fieldSelector: `metadata.name=${nodeName}`, signal });
      for (const it of items) await this.#withdraw(it, signal);
    } catch (error) {
      deps.log.warn("the condition of the Node could not be removed", { error: messageOf(error) });
    }
  }

  async #write(conditions: NodeCondition[], signal: AbortSignal): Promise<void> {
    const { client, nodeName } = this.#options;
    await client.apply(
      NODES,
      { metadata: { name: nodeName }, status: { conditions } },
      { fieldManager: NODE_MANAGER, subresource: "status", returns: "metadata", signal },
    );
  }

  /** Not by server-side apply, in which an empty list has no clear meaning. */
  async #withdraw(node: Node, signal: AbortSignal): Promise<void> {
    const before = node.status?.conditions;
    const own = [NODE_POLICY_CONDITION, NODE_AGENT_CONDITION, POLICY_AT_BOOT];
    const conditions = own.reduce<NodeCondition[]>(removeCondition, before ?? []);
    if (conditions.length === (before?.length ?? 0)) return;
    const { resourceVersion } = node.metadata;
    await this.#options.client.mergePatch(
      NODES,
      this.#key,
      { metadata: { resourceVersion }, status: { conditions } },
      { subresource: "status", signal },
    );
  }
}
