import { readdir } from "node:fs/promises";
import type { MeshNetwork } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { OWN_CLUSTER_LABEL } from "#api/fairlead.dev/names.ts";
import type { ClusterSettings } from "#policy/compile/labels.ts";
import { Enforced } from "#policy/enforced.ts";
import { defined } from "@fairlead/base/defined.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { sameJson } from "@fairlead/base/json.ts";
import type { Component } from "@fairlead/base/lifecycle.ts";
import { type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import type { Controller, Informer, KubeClient, ReconcileResult } from "@fairlead/kube/types.ts";
import { createNft } from "@fairlead/os/nft/netlink/driver.ts";
import { CutFlows } from "./cut-flows.ts";
import { engineOf } from "./engines.ts";
import { isDenied, ownAddresses } from "./flows.ts";
import { PolicyDraft } from "./policy-draft.ts";
import { PolicyTable } from "./policy-table.ts";
import { PolicySession } from "./session.ts";

export interface NodePoliciesOptions {
  readonly client: KubeClient;
  readonly nodeName: string;
  /** Started by the caller. */
  readonly networks: Informer<MeshNetwork>;
  /** File of the network namespace to work in. Default: that of this process, which is the node's. */
  readonly netns?: string;
  readonly deps: RuntimeDeps;
}

/** No watch reports that a cause in the node is gone. Unit: milliseconds. */
const MAX_RETRY_MS = 10_000;

/** How often the table is compared as a whole, in case that another program changed it. Unit: milliseconds. */
const COMPARE_MS = 60_000;

/** Devices of this namespace. */
const DEVICES = "/sys/class/net";

/**
 * Network policies of one node: while its cluster is in a network and no network plugin enforces policies, the table holds what they say.
 * Stopping it leaves the table as it is; starting it changes only what is wrong.
 */
export class NodePolicies implements Component {
  readonly #options: NodePoliciesOptions;
  readonly #key: ObjectKey;
  readonly #controller: Controller;
  readonly #stack = new AsyncDisposableStack();
  readonly #table: PolicyTable;
  #running: Running | undefined;
  #comparedAtMs = Number.NEGATIVE_INFINITY;
  #engine: string | undefined;

  constructor(options: NodePoliciesOptions) {
    const { deps, networks, nodeName } = options;
    this.#options = options;
    this.#key = objectKey(undefined, nodeName);
    this.#table = new PolicyTable(this.#stack.use(createNft(defined({ netns: options.netns }))));
    this.#controller = createController(
      {
        name: "policy",
        concurrency: 1,
        maxRetryMs: MAX_RETRY_MS,
        reconcile: (_key, signal) => this.#reconcile(signal),
        sources: [watching(networks, () => [this.#key])],
      },
      deps,
    );
  }

  /** Resolves when the kernel holds what the informers hold: for tests and benches. */
  idle(signal: AbortSignal): Promise<void> {
    return this.#controller.idle(signal);
  }

  async start(signal: AbortSignal): Promise<void> {
    await this.#controller.start(signal);
    this.#controller.enqueue(this.#key);
  }

  /** In place of `start`. */
  remove(signal: AbortSignal): Promise<void> {
    return this.#table.remove(signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#controller[Symbol.asyncDispose]();
    await this.#running?.[Symbol.asyncDispose]();
    await this.#stack.disposeAsync();
  }

  async #reconcile(signal: AbortSignal): Promise<ReconcileResult | void> {
    const { deps } = this.#options;
    const settings = this.#settings();
    const engine = settings === undefined ? undefined : engineOf(await readdir(DEVICES));
    if (engine !== this.#engine && engine !== undefined)
      deps.log.warn("the network plugin enforces policies itself: this agent does not", { engine });
    this.#engine = engine;
    if (settings === undefined || engine !== undefined) {
      await this.#stop();
      await this.#table.remove(signal);
      return settings === undefined ? undefined : { requeueAfterMs: COMPARE_MS };
    }
    const running = await this.#run(settings, signal);
    const now = deps.clock.monotonic();
    if (now - this.#comparedAtMs >= COMPARE_MS) {
      this.#table.doubt();
      this.#comparedAtMs = now;
    }
    await running.sync(this.#table, signal);
    return { requeueAfterMs: Math.max(1, this.#comparedAtMs + COMPARE_MS - now) };
  }

  /** Undefined: the cluster is in no network. */
  #settings(): ClusterSettings | undefined {
    const network = [...this.#options.networks.store.list()].find((it) => !isDeleting(it));
    const cluster = network?.metadata.labels?.[OWN_CLUSTER_LABEL];
    if (network === undefined || cluster === undefined) return undefined;
    return { cluster, isLocalByDefault: network.spec.policyDefaultLocalCluster ?? true };
  }

  async #run(settings: ClusterSettings, signal: AbortSignal): Promise<Running> {
    if (this.#running !== undefined && sameJson(this.#running.settings, settings)) return this.#running;
    await this.#stop();
    const running = new Running(this.#options, settings, () => this.#controller.enqueue(this.#key));
    this.#running = running;
    this.#table.doubt();
    await running.start(signal);
    return running;
  }

  async #stop(): Promise<void> {
    await this.#running?.[Symbol.asyncDispose]();
    this.#running = undefined;
  }
}

/** What is done while the cluster is in a network. */
class Running implements AsyncDisposable {
  readonly settings: ClusterSettings;
  readonly #session: PolicySession;
  readonly #draft = new PolicyDraft();
  readonly #enforced = new Enforced();
  readonly #flows: CutFlows;
  readonly #stop = new AbortController();

  constructor(options: NodePoliciesOptions, settings: ClusterSettings, onChange: () => void) {
    this.settings = settings;
    this.#session = new PolicySession({ ...options, settings, onChange });
    this.#flows = new CutFlows({
      ...options.deps,
      ...defined({ netns: options.netns }),
      judge: () => {
        // In another namespace the node has no addresses.
        const own = options.netns === undefined ? ownAddresses() : new Set();
        return (flow) => isDenied(flow, this.#enforced, (it) => own.has(it));
      },
    });
  }

  start(signal: AbortSignal): Promise<void> {
    return this.#session.start(AbortSignal.any([signal, this.#stop.signal]));
  }

  async sync(table: PolicyTable, signal: AbortSignal): Promise<void> {
    const changes = this.#session.take();
    this.#draft.guard(this.#session.hasPolicies);
    this.#draft.setNodePrefixes(this.#session.podPrefixes);
    this.#draft.apply(changes);
    this.#enforced.apply(changes);
    const ops = await table.sync(this.#draft, signal);
    if (ops.length > 0) await this.#flows.cut();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#session[Symbol.asyncDispose]();
    this.#flows[Symbol.dispose]();
  }
}
