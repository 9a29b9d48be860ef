import type { MeshNetwork } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { sameJson } from "@fairlead/base/json.ts";
import type { Component } from "@fairlead/base/lifecycle.ts";
import type { Node, Service } from "@fairlead/kube/api/core/v1/types.ts";
import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { keyOf, type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import type { Change, Controller, Informer } from "@fairlead/kube/types.ts";
import { diffTable } from "@fairlead/os/nft/diff.ts";
import { createNft } from "@fairlead/os/nft/netlink/driver.ts";
import type { DesiredElements } from "../service-proxy/desired.ts";
import { createFlowTable } from "../service-proxy/flows.ts";
import { SlicesByService } from "../service-proxy/slices-by-service.ts";
import { TableLoop } from "../service-proxy/table-loop.ts";
import { mayNeedAgent, planGlobalService, serviceOfSlice } from "./plan.ts";
import { GLOBAL_LAYOUT, GLOBAL_TABLE } from "./table.ts";

/** All started by the caller. */
export interface GlobalServicesOptions {
  readonly networks: Informer<MeshNetwork>;
  readonly services: Informer<Service>;
  readonly slices: Informer<EndpointSlice>;
  /** This node. */
  readonly nodes: Informer<Node>;
  readonly nodeName: string;
  /** The table was deleted by another program, and is there again. */
  readonly onLost: (table: string) => void;
  readonly deps: RuntimeDeps;
}

/** No watch reports that a cause in the node is gone. Unit: milliseconds. */
const MAX_RETRY_MS = 10_000;

/**
 * Balances global Services on this node where the cluster's service proxy cannot: while its cluster is in a network, and has slices of other
 * clusters, or in maintenance. Stopping it leaves the table as it is.
 */
export class GlobalServices implements Component {
  readonly #options: GlobalServicesOptions;
  readonly #key: ObjectKey;
  readonly #controller: Controller;
  /** Names of the slices of other clusters, and of those in maintenance. */
  readonly #special = new Set<ObjectKey>();
  readonly #subscriptions = new DisposableStack();
  #running: Running | undefined;

  constructor(options: GlobalServicesOptions) {
    const { networks, nodeName, deps } = options;
    this.#options = options;
    this.#key = objectKey(undefined, nodeName);
    this.#controller = createController(
      {
        name: "global-services",
        concurrency: 1,
        maxRetryMs: MAX_RETRY_MS,
        reconcile: (_key, signal) => this.#reconcile(signal),
        sources: [watching(networks, () => [this.#key])],
      },
      deps,
    );
  }

  async start(signal: AbortSignal): Promise<void> {
    const { slices } = this.#options;
    this.#subscriptions.use(slices.subscribe((change) => this.#note(change)));
    for (const after of slices.store.list()) this.#note({ key: keyOf(after), before: undefined, after });
    await this.#controller.start(signal);
    this.#controller.enqueue(this.#key);
  }

  /** Another program may have changed the table. */
  doubt(): void {
    this.#running?.doubt();
  }

  /** In place of `start`. */
  async remove(signal: AbortSignal): Promise<void> {
    using nft = createNft();
    const table = await nft.read(GLOBAL_TABLE, signal);
    if (table !== undefined) await nft.apply(GLOBAL_TABLE, diffTable(table, undefined), signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#subscriptions.dispose();
    await this.#controller[Symbol.asyncDispose]();
    await this.#running?.[Symbol.asyncDispose]();
  }

  #note({ key, after }: Change<EndpointSlice>): void {
    const { size } = this.#special;
    if (after !== undefined && mayNeedAgent(after)) this.#special.add(key);
    else this.#special.delete(key);
    if ((size === 0) !== (this.#special.size === 0)) this.#controller.enqueue(this.#key);
  }

  async #reconcile(signal: AbortSignal): Promise<void> {
    const isInNetwork = [...this.#options.networks.store.list()].some((it) => !isDeleting(it));
    if (isInNetwork && this.#special.size > 0) {
      this.#running ??= new Running(this.#options);
      return;
    }
    await this.#running?.[Symbol.asyncDispose]();
    this.#running = undefined;
    await this.remove(signal);
  }
}

/** What is done while there are such slices. */
class Running implements AsyncDisposable {
  readonly #options: GlobalServicesOptions;
  readonly #stack = new AsyncDisposableStack();
  readonly #slices = new SlicesByService(serviceOfSlice);
  readonly #loop: TableLoop;

  constructor(options: GlobalServicesOptions) {
    this.#options = options;
    const { services, slices, nodes, deps } = options;
    const loop = new TableLoop({
      ...deps,
      log: deps.log.child({ part: "global-services" }),
      layout: GLOBAL_LAYOUT,
      plan: (due, desired) => this.#plan(due, desired),
      nft: this.#stack.use(createNft()),
      flows: this.#stack.use(createFlowTable(deps)),
      onLost: options.onLost,
    });
    this.#loop = loop;
    this.#stack.use(loop);
    const all = (): void => {
      for (const it of services.store.list()) loop.markDue(keyOf(it));
    };
    this.#stack.use(services.subscribe(({ key }) => loop.markDue(key)));
    this.#stack.use(
      slices.subscribe((change) => {
        for (const key of this.#slices.note(change)) loop.markDue(key);
      }),
    );
    this.#stack.use(
      nodes.subscribe(({ before, after }) => {
        if (!sameJson(placeOf(before), placeOf(after))) all();
      }),
    );
    for (const slice of slices.store.list())
      this.#slices.note({ key: keyOf(slice), before: undefined, after: slice });
    all();
    loop.start();
  }

  #plan(due: ReadonlySet<ObjectKey>, desired: DesiredElements): void {
    const { services, nodes, nodeName } = this.#options;
    const node = { name: nodeName, ...placeOf(nodes.store.get(objectKey(undefined, nodeName))) };
    for (const key of due) {
      const service = services.store.get(key);
      const slices = [...this.#slices.of(key)];
      desired.set(key, service === undefined ? [] : planGlobalService({ service, slices, node }));
    }
  }

  doubt(): void {
    this.#loop.doubt();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync();
  }
}

function placeOf(node: Node | undefined) {
  const addresses = (node?.status?.addresses ?? []).filter((it) => it.type.endsWith("IP"));
  return {
    zone: node?.metadata.labels?.["topology.kubernetes.io/zone"],
    addresses: addresses.map((it) => it.address),
  };
}
