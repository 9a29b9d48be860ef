import type { Node, Service } from "@fairlead/kube/api/core/v1/types.ts";
import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { keyOf, objectKey, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Clock } from "@fairlead/base/clock.ts";
import { sameJson } from "@fairlead/base/json.ts";
import type { Component } from "@fairlead/base/lifecycle.ts";
import type { Logger } from "@fairlead/base/log.ts";
import type { Rng } from "@fairlead/base/rng.ts";
import type { Change, Informer } from "@fairlead/kube/types.ts";
import type { NftDriver } from "@fairlead/os/nft/driver.ts";
import type { DesiredElements } from "./desired.ts";
import type { FlowTable } from "./flows.ts";
import type { TableLayout } from "./kernel-table.ts";
import { type HealthChecks, planHealthCheck } from "./health-check.ts";
import { type PlannedElement, planService, serviceNameOf, type ServiceView } from "./plan.ts";
import { planCluster } from "./plan-cluster.ts";
import { PROXY_TABLE } from "./names.ts";
import { SourceRanges } from "./ranges.ts";
import { SlicesByService } from "./slices-by-service.ts";
import { renderTable } from "./table.ts";
import { TableLoop } from "./table-loop.ts";

export interface ServiceProxyOptions {
  /** Services of all namespaces. Started by the caller. */
  readonly services: Informer<Service>;
  /** EndpointSlices of all namespaces. Started by the caller. */
  readonly endpointSlices: Informer<EndpointSlice>;
  /** The node whose kernel is programmed, as `nodeName` of endpoints has it. */
  readonly nodeName: string;
  /** At least that node: its addresses, its zone and its pods' prefixes count. Started by the caller. */
  readonly nodes: Informer<Node>;
  /** Prefixes of the cluster's pods, of both families: other sources count as outside. */
  readonly clusterCidrs: readonly string[];
  readonly nft: NftDriver;
  readonly flows: FlowTable;
  readonly health: HealthChecks;
  /** Calls back when the proxy's table was deleted, or may have been. Default: the next change of a Service finds that. */
  readonly watchTable?: (onDeleted: () => void) => AsyncDisposable;
  readonly clock: Clock;
  readonly rng: Rng;
  readonly log: Logger;
}

export interface ServiceProxy extends Component {
  /** Resolves when the kernel holds what the informers hold: for tests and benches. */
  idle(signal: AbortSignal): Promise<void>;
}

/**
 * The service proxy of one node: keeps the kernel's table equal to Services and EndpointSlices. Stopping it
 * leaves the table as it is, and starting it changes only what is wrong, so that packets are not affected.
 */
export function createServiceProxy(options: ServiceProxyOptions): ServiceProxy {
  return new NftServiceProxy(options);
}

const LAYOUT: TableLayout = { table: PROXY_TABLE, render: renderTable };

class NftServiceProxy implements ServiceProxy {
  readonly #options: ServiceProxyOptions;
  readonly #loop: TableLoop;
  readonly #slices = new SlicesByService(serviceKey);
  readonly #ranges = new SourceRanges();
  readonly #subscriptions = new DisposableStack();
  #watch: AsyncDisposable | undefined;

  constructor(options: ServiceProxyOptions) {
    this.#options = options;
    this.#loop = new TableLoop({
      ...options,
      layout: LAYOUT,
      plan: (due, desired) => this.#planDue(due, desired),
      onLost: (table) =>
        options.log.warn(`nftables table ${table} was deleted by another program, and was put back`),
    });
  }

  async start(signal: AbortSignal): Promise<void> {
    const { services, endpointSlices, nodes } = this.#options;
    this.#subscriptions.use(services.subscribe((change) => this.#loop.markDue(change.key)));
    this.#subscriptions.use(endpointSlices.subscribe((change) => this.#onSlice(change)));
    this.#subscriptions.use(nodes.subscribe((change) => this.#onNode(change)));
    await Promise.all([services.synced(signal), endpointSlices.synced(signal), nodes.synced(signal)]);
    for (const slice of endpointSlices.store.list())
      this.#slices.note({ key: keyOf(slice), before: undefined, after: slice });
    for (const service of services.store.list()) this.#loop.markDue(keyOf(service));
    this.#watch = this.#options.watchTable?.(() => this.#loop.doubt());
    this.#loop.start();
    await this.idle(signal);
  }

  idle(signal: AbortSignal): Promise<void> {
    return this.#loop.idle(signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#subscriptions.dispose();
    await this.#watch?.[Symbol.asyncDispose]();
    await this.#loop[Symbol.asyncDispose]();
  }

  /** Rare: everything that depends on the node is planned again. */
  #onNode({ key, before, after }: Change<Node>): void {
    if (key !== this.#nodeKey || sameJson(placeOf(before), placeOf(after))) return;
    for (const service of this.#options.services.store.list()) this.#loop.markDue(keyOf(service));
  }

  get #nodeKey(): ObjectKey {
    return objectKey(undefined, this.#options.nodeName);
  }

  #onSlice(change: Change<EndpointSlice>): void {
    for (const key of this.#slices.note(change)) this.#loop.markDue(key);
  }

  #planDue(due: ReadonlySet<ObjectKey>, desired: DesiredElements): void {
    const { zone, addresses, podCidrs } = placeOf(this.#options.nodes.store.get(this.#nodeKey));
    const node = { name: this.#options.nodeName, zone, addresses };
    desired.set(CLUSTER_PODS, planCluster("cluster", this.#options.clusterCidrs));
    desired.set(OWN_PODS, planCluster("own", podCidrs));
    for (const key of due) desired.set(key, this.#ranges.take(key, this.#plan(key, node)));
    const ranges = this.#ranges.takeChanged();
    if (ranges !== undefined) desired.set(SOURCE_RANGES, ranges);
  }

  #plan(key: ObjectKey, node: ServiceView["node"]): readonly PlannedElement[] {
    const service = this.#options.services.store.get(key);
    const view = service === undefined ? undefined : { service, slices: [...this.#slices.of(key)], node };
    this.#options.health.set(key, view === undefined ? undefined : planHealthCheck(view));
    return view === undefined ? [] : planService(view);
  }
}

/** Owners of elements that are not Services. The leading space keeps them apart from Service names. */
const CLUSTER_PODS = " cluster";
const OWN_PODS = " own";
const SOURCE_RANGES = " ranges";

/** The fields of its node that the proxy uses. */
function placeOf(node: Node | undefined) {
  const addresses = (node?.status?.addresses ?? []).filter((it) => it.type === "InternalIP");
  return {
    zone: node?.metadata.labels?.["topology.kubernetes.io/zone"],
    addresses: addresses.map((it) => it.address),
    podCidrs: node?.spec?.podCIDRs ?? [],
  };
}

function serviceKey(slice: EndpointSlice): ObjectKey | undefined {
  const name = serviceNameOf(slice);
  return name === undefined ? undefined : objectKey(slice.metadata.namespace, name);
}
