import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import type { Component } from "@fairlead/base/lifecycle.ts";
import type { Node, Service } from "@fairlead/kube/api/core/v1/types.ts";
import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Change, Informer } from "@fairlead/kube/types.ts";
import { createFlowTable, type FlowTable } from "../service-proxy/flows.ts";
import { serviceNameOf } from "../service-proxy/plan.ts";
import { type Choices, flowText, type ServiceFlow } from "../service-proxy/stale-flows.ts";
import { endpointsOf, flowsTo, type PortEndpoint } from "./plan.ts";

/** All started by the caller. */
export interface WithdrawnFlowsOptions {
  readonly services: Informer<Service>;
  /** With the index `SERVICE_INDEX`. */
  readonly slices: Informer<EndpointSlice>;
  /** This node. */
  readonly nodes: Informer<Node>;
  readonly deps: RuntimeDeps;
  /** Default: conntrack of the network namespace of this process. */
  readonly flows?: FlowTable;
}

/** Of slices: the Service "namespace/name" that each belongs to. */
export const SERVICE_INDEX = "service";

/**
 * When flows are looked for, counted from when their endpoint went. The cluster's service proxy applies the change at its own time, and sends to the
 * endpoint until then: kube-proxy within a second, and some seconds later in clusters with many Services. Unit: milliseconds.
 */
const LOOKS_MS = [0, 1000, 3000, 10_000, 30_000];
/** When an endpoint is forgotten: after the last look, which may have to wait for its turn. Unit: milliseconds. */
const FORGOTTEN_MS = 40_000;

interface Gone {
  readonly flows: readonly ServiceFlow[];
  readonly atMs: number;
  /** How often its flows were looked for. */
  looks: number;
}

/**
 * Ends flows to endpoints that Services have lost, for the service proxy of the cluster: kube-proxy leaves those of TCP to their timeouts, so that a client that
 * uses a source port again is sent to a dead endpoint for two minutes. Costs nothing while no endpoint goes.
 */
export class WithdrawnFlows implements Component {
  readonly #options: WithdrawnFlowsOptions;
  readonly #stack = new DisposableStack();
  readonly #stop = new AbortController();
  readonly #flows: FlowTable;
  /** By Service and endpoint. */
  readonly #gone = new Map<ObjectKey, Map<string, Gone>>();
  #timer: Disposable | undefined;
  #looking: Promise<void> = Promise.resolve();

  constructor(options: WithdrawnFlowsOptions) {
    this.#options = options;
    this.#flows = this.#stack.use(options.flows ?? createFlowTable(options.deps));
  }

  start(): Promise<void> {
    this.#stack.use(this.#options.slices.subscribe((change) => this.#note(change)));
    return Promise.resolve();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    this.#timer?.[Symbol.dispose]();
    await this.#looking;
    this.#stack.dispose();
  }

  #note({ before, after }: Change<EndpointSlice>): void {
    const slice = after ?? before;
    const [key] = slice === undefined ? [] : serviceOf(slice);
    if (key === undefined) return;
    const [was, is] = [endpointsIn(before), endpointsIn(after)];
    for (const text of is.keys()) this.#gone.get(key)?.delete(text);
    const lost = [...was].filter(([text]) => !is.has(text));
    if (lost.length > 0) this.#lose(key, new Map(lost));
  }

  #lose(key: ObjectKey, lost: ReadonlyMap<string, PortEndpoint>): void {
    const { services, slices, deps } = this.#options;
    const service = services.store.get(key);
    if (service === undefined) return;
    // They may have moved to another slice.
    const left = new Set(
      [...slices.store.byIndex(SERVICE_INDEX, key)].flatMap((it) => [...endpointsOf(it).keys()]),
    );
    const atMs = deps.clock.monotonic();
    const gone = this.#gone.get(key) ?? new Map<string, Gone>();
    for (const [text, endpoint] of lost) {
      const flows = left.has(text) ? [] : flowsTo(service, endpoint, this.#nodeAddresses());
      if (flows.length > 0) gone.set(text, { flows, atMs, looks: 0 });
    }
    if (gone.size > 0) this.#gone.set(key, gone);
    this.#plan();
  }

  #nodeAddresses(): readonly string[] {
    return [...this.#options.nodes.store.list()].flatMap((it) =>
      (it.status?.addresses ?? []).flatMap(({ type, address }) => (type === "InternalIP" ? [address] : [])),
    );
  }

  #all(): Gone[] {
    return [...this.#gone.values()].flatMap((it) => [...it.values()]);
  }

  /** Sets the timer for the flows that are due next. */
  #plan(): void {
    const { clock } = this.#options.deps;
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
    const dueMs = this.#all()
      .map(dueOf)
      .reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY);
    if (dueMs === Number.POSITIVE_INFINITY || this.#stop.signal.aborted) return;
    this.#timer = clock.after(Math.max(0, dueMs - clock.monotonic()), () => {
      this.#timer = undefined;
      this.#looking = this.#looking.then(() => this.#look());
    });
  }

  async #look(): Promise<void> {
    const { clock, log } = this.#options.deps;
    const { signal } = this.#stop;
    const nowMs = clock.monotonic();
    this.#forget(nowMs);
    const due = this.#all().filter((it) => dueOf(it) <= nowMs);
    for (const it of due) it.looks += 1;
    const gone = due.flatMap((it) => it.flows);
    try {
      await this.#flows.end({ gone, isWhole: false }, () => this.#choices(), signal);
    } catch (error) {
      if (!signal.aborted)
        log.warn("flows of withdrawn endpoints could not be ended", { error: messageOf(error) });
    }
    this.#plan();
  }

  #forget(nowMs: number): void {
    for (const [key, gone] of this.#gone) {
      for (const [text, it] of gone) if (nowMs - it.atMs >= FORGOTTEN_MS) gone.delete(text);
      if (gone.size === 0) this.#gone.delete(key);
    }
  }

  /** Called by the table when it comes to its turn: endpoints may be back by then. */
  #choices(): Choices {
    const lost = new Set(this.#all().flatMap((it) => it.flows.map(flowText)));
    return { isUsed: (flow) => !lost.has(flowText(flow)), isService: () => false };
  }
}

function dueOf({ atMs, looks }: Gone): number {
  return atMs + (LOOKS_MS[looks] ?? FORGOTTEN_MS);
}

function endpointsIn(slice: EndpointSlice | undefined): ReturnType<typeof endpointsOf> {
  return slice === undefined ? new Map() : endpointsOf(slice);
}

/** Values of `SERVICE_INDEX`. */
export function serviceOf(slice: EndpointSlice): readonly ObjectKey[] {
  const name = serviceNameOf(slice);
  return name === undefined ? [] : [objectKey(slice.metadata.namespace, name)];
}
