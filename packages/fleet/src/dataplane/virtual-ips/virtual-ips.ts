import type { Allocation } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import type { ServiceImport } from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { sameJson } from "@fairlead/base/json.ts";
import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { keyOf, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Informer } from "@fairlead/kube/types.ts";
import { createNft } from "@fairlead/os/nft/netlink/driver.ts";
import type { NodePlace } from "../service-proxy/backends.ts";
import type { DesiredElements } from "../service-proxy/desired.ts";
import { createFlowTable } from "../service-proxy/flows.ts";
import { planCluster } from "../service-proxy/plan-cluster.ts";
import { SlicesByService } from "../service-proxy/slices-by-service.ts";
import { TableLoop } from "../service-proxy/table-loop.ts";
import { planVirtualService, serviceOfSlice } from "./plan.ts";
import { VIRTUAL_IP_LAYOUT } from "./table.ts";

/** What all services depend on. */
export interface VirtualIPsState {
  readonly cluster: string;
  readonly node: NodePlace;
  /** The blocks of virtual IPs. */
  readonly blocks: readonly string[];
  /** Of the pods of this cluster, by UID. */
  readonly allocations: ReadonlyMap<string, Pick<Allocation, "ipv4" | "ipv6">>;
  /** Own addresses of this node's pods that have no interface in `fleet`, by fleet address. */
  readonly translated: ReadonlyMap<string, string>;
}

export interface VirtualIPsOptions {
  readonly serviceImports: Informer<ServiceImport>;
  readonly slices: Informer<EndpointSlice>;
  /** File of the network namespace `fleet`. */
  readonly fleetNetns: string;
  /** The table was deleted by another program, and is there again. */
  readonly onLost: (table: string) => void;
  readonly deps: RuntimeDeps;
}

/** Balances the virtual IPs of a parallel network in `fleet`. Established flows never come here, and no service costs another one anything. */
export class VirtualIPs implements AsyncDisposable {
  readonly #options: VirtualIPsOptions;
  #stack = new AsyncDisposableStack();
  readonly #slices = new SlicesByService(serviceOfSlice);
  #loop: TableLoop | undefined;
  #state: VirtualIPsState | undefined;

  constructor(options: VirtualIPsOptions) {
    this.#options = options;
  }

  /** The first call starts it: `fleet` and the informers have to be there. */
  update(state: VirtualIPsState): void {
    const before = this.#state;
    this.#state = state;
    if (this.#loop === undefined) return this.#start();
    const [was, is] = [before, state].map((it) => ({ ...it, allocations: undefined, translated: undefined }));
    if (!sameJson(was, is)) this.#markAll();
    else if (before !== undefined && arePodsChanged(before, state)) this.#markOwn();
  }

  /** Another program may have changed the table. */
  doubt(): void {
    this.#loop?.doubt();
  }

  /** Until the next `update`. The table stays as it is. */
  async stop(): Promise<void> {
    const stack = this.#stack;
    this.#stack = new AsyncDisposableStack();
    this.#loop = undefined;
    this.#slices.clear();
    await stack.disposeAsync();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  #start(): void {
    const { serviceImports, slices, fleetNetns, onLost, deps } = this.#options;
    const nft = this.#stack.use(createNft({ netns: fleetNetns }));
    const flows = this.#stack.use(createFlowTable({ ...deps, netns: fleetNetns }));
    const loop = new TableLoop({
      ...deps,
      log: deps.log.child({ part: "virtual-ips" }),
      layout: VIRTUAL_IP_LAYOUT,
      plan: (due, desired) => this.#plan(due, desired),
      nft,
      flows,
      onLost,
    });
    this.#loop = this.#stack.use(loop);
    this.#stack.use(serviceImports.subscribe(({ key }) => loop.markDue(key)));
    this.#stack.use(
      slices.subscribe((change) => {
        for (const key of this.#slices.note(change)) loop.markDue(key);
      }),
    );
    for (const slice of slices.store.list())
      this.#slices.note({ key: keyOf(slice), before: undefined, after: slice });
    this.#markAll();
    loop.start();
  }

  #markAll(): void {
    for (const it of this.#options.serviceImports.store.list()) this.#loop?.markDue(keyOf(it));
  }

  /** Only services that this cluster exports have its pods behind them. */
  #markOwn(): void {
    for (const it of this.#options.serviceImports.store.list()) {
      const { cluster } = this.#state ?? {};
      if (it.status?.clusters?.some((one) => one.cluster === cluster) === true)
        this.#loop?.markDue(keyOf(it));
    }
  }

  #plan(due: ReadonlySet<ObjectKey>, desired: DesiredElements): void {
    const state = this.#state;
    if (state === undefined) return;
    const { cluster, node, blocks, allocations, translated } = state;
    desired.set(BLOCKS, planCluster("own", blocks));
    for (const key of due) {
      const serviceImport = this.#options.serviceImports.store.get(key);
      const elements =
        serviceImport === undefined
          ? []
          : planVirtualService({
              serviceImport,
              slices: this.#slices.of(key),
              cluster,
              node,
              blocks,
              addressOf: (podUID, family) => {
                const found = allocations.get(podUID);
                const address = family === "IPv4" ? found?.ipv4 : found?.ipv6;
                return address === undefined ? undefined : (translated.get(address) ?? address);
              },
            });
      desired.set(key, elements);
    }
  }
}

/** An owner of elements that is not a service. */
const BLOCKS = " blocks";

function arePodsChanged(before: VirtualIPsState, after: VirtualIPsState): boolean {
  const textsOf = (it: VirtualIPsState): unknown => [[...it.allocations], [...it.translated]];
  return !sameJson(textsOf(before), textsOf(after));
}
