import type { Node, Service } from "@fairlead/kube/api/core/v1/types.ts";
import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { keyOf, objectKey, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { abortable } from "@fairlead/base/abortable.ts";
import { backoffMs } from "@fairlead/base/backoff.ts";
import { type Clock, delay } from "@fairlead/base/clock.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import { sameJson } from "@fairlead/base/json.ts";
import type { Component } from "@fairlead/base/lifecycle.ts";
import type { Logger } from "@fairlead/base/log.ts";
import type { Rng } from "@fairlead/base/rng.ts";
import type { Change, Informer } from "@fairlead/kube/types.ts";
import type { NftDriver } from "@fairlead/os/nft/driver.ts";
import type { FlowTable } from "./flows.ts";
import { KernelTable } from "./kernel-table.ts";
import { type HealthChecks, planHealthCheck } from "./health-check.ts";
import { type PlannedElement, planService, serviceNameOf, type ServiceView } from "./plan.ts";
import { planCluster } from "./plan-cluster.ts";
import { SourceRanges } from "./ranges.ts";

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
  readonly clock: Clock;
  readonly rng: Rng;
  readonly log: Logger;
}

/** How often and how fast the kernel is asked again after it refused. */
const RETRY = { initialMs: 50, maxMs: 5000, factor: 2, jitter: 0.2 };

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

class NftServiceProxy implements ServiceProxy {
  readonly #options: ServiceProxyOptions;
  readonly #table: KernelTable;
  readonly #slices = new SlicesByService();
  readonly #ranges = new SourceRanges();
  readonly #stop = new AbortController();
  readonly #subscriptions = new DisposableStack();
  /** Services to be planned again. */
  #due = new Set<ObjectKey>();
  #wake = Promise.withResolvers<void>();
  #isIdle = false;
  #idle = Promise.withResolvers<void>();
  #running: Promise<void> = Promise.resolve();

  constructor(options: ServiceProxyOptions) {
    this.#options = options;
    this.#table = new KernelTable(options);
  }

  async start(signal: AbortSignal): Promise<void> {
    const { services, endpointSlices, nodes, clusterCidrs } = this.#options;
    this.#table.desired.set("", planCluster("cluster", clusterCidrs));
    this.#subscriptions.use(services.subscribe((change) => this.#markDue(change.key)));
    this.#subscriptions.use(endpointSlices.subscribe((change) => this.#onSlice(change)));
    this.#subscriptions.use(nodes.subscribe((change) => this.#onNode(change)));
    await Promise.all([services.synced(signal), endpointSlices.synced(signal), nodes.synced(signal)]);
    for (const slice of endpointSlices.store.list())
      this.#slices.note({ key: keyOf(slice), before: undefined, after: slice });
    for (const service of services.store.list()) this.#markDue(keyOf(service));
    this.#wake.resolve();
    this.#running = this.#run(AbortSignal.any([signal, this.#stop.signal]));
    await this.idle(signal);
  }

  async idle(signal: AbortSignal): Promise<void> {
    while (!this.#isIdle) await abortable(this.#idle.promise, signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#subscriptions.dispose();
    this.#stop.abort();
    await this.#running;
  }

  /** Rare: everything that depends on the node is planned again. */
  #onNode({ key, before, after }: Change<Node>): void {
    if (key !== this.#nodeKey || sameJson(placeOf(before), placeOf(after))) return;
    for (const service of this.#options.services.store.list()) this.#markDue(keyOf(service));
  }

  get #nodeKey(): ObjectKey {
    return objectKey(undefined, this.#options.nodeName);
  }

  #onSlice(change: Change<EndpointSlice>): void {
    for (const key of this.#slices.note(change)) this.#markDue(key);
  }

  #markDue(key: ObjectKey): void {
    this.#due.add(key);
    if (this.#isIdle) {
      this.#isIdle = false;
      this.#idle = Promise.withResolvers();
    }
    this.#wake.resolve();
  }

  async #run(signal: AbortSignal): Promise<void> {
    for (let failures = 0; !signal.aborted;) {
      try {
        await abortable(this.#wake.promise, signal);
        this.#wake = Promise.withResolvers();
        this.#planDue();
        await this.#table.sync(signal);
        failures = 0;
        if (this.#due.size === 0) this.#becomeIdle();
      } catch (error) {
        if (signal.aborted) return;
        this.#options.log.warn("the kernel's table could not be brought up to date; will try again", {
          error: messageOf(error),
        });
        await delay(this.#options.clock, backoffMs(RETRY, failures, this.#options.rng), signal).catch(
          () => {},
        );
        failures++;
        this.#wake.resolve();
      }
    }
  }

  #becomeIdle(): void {
    this.#isIdle = true;
    this.#idle.resolve();
  }

  #planDue(): void {
    const due = this.#due;
    this.#due = new Set();
    const { zone, addresses, podCidrs } = placeOf(this.#options.nodes.store.get(this.#nodeKey));
    const node = { name: this.#options.nodeName, zone, addresses };
    this.#table.desired.set(OWN_PODS, planCluster("own", podCidrs));
    for (const key of due) {
      const elements = this.#ranges.take(key, this.#plan(key, node));
      this.#table.desired.set(key, elements);
    }
    const ranges = this.#ranges.takeChanged();
    if (ranges !== undefined) this.#table.desired.set(SOURCE_RANGES, ranges);
  }

  #plan(key: ObjectKey, node: ServiceView["node"]): readonly PlannedElement[] {
    const service = this.#options.services.store.get(key);
    const view = service === undefined ? undefined : { service, slices: [...this.#slices.of(key)], node };
    this.#options.health.set(key, view === undefined ? undefined : planHealthCheck(view));
    return view === undefined ? [] : planService(view);
  }
}

/** Owners of elements that are not Services. The leading space keeps them apart from Service names. */
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

/** Slices by the Service that their label names. */
class SlicesByService {
  readonly #slices = new Map<ObjectKey, Map<ObjectKey, EndpointSlice>>();

  of(service: ObjectKey): Iterable<EndpointSlice> {
    return this.#slices.get(service)?.values() ?? [];
  }

  /** Takes a change in and names the Services that it concerns. */
  note({ key, before, after }: Change<EndpointSlice>): readonly ObjectKey[] {
    const from = before === undefined ? undefined : serviceKey(before);
    const to = after === undefined ? undefined : serviceKey(after);
    if (from !== undefined && from !== to) this.#remove(from, key);
    if (to !== undefined && after !== undefined) {
      let slices = this.#slices.get(to);
      if (slices === undefined) this.#slices.set(to, (slices = new Map<ObjectKey, EndpointSlice>()));
      slices.set(key, after);
    }
    return [...new Set([from, to])].filter((it) => it !== undefined);
  }

  #remove(service: ObjectKey, slice: ObjectKey): void {
    const slices = this.#slices.get(service);
    slices?.delete(slice);
    if (slices?.size === 0) this.#slices.delete(service);
  }
}

function serviceKey(slice: EndpointSlice): ObjectKey | undefined {
  const name = serviceNameOf(slice);
  return name === undefined ? undefined : objectKey(slice.metadata.namespace, name);
}
