import type { Lease } from "@fairlead/kube/api/coordination/v1/types.ts";
import type { Node } from "@fairlead/kube/api/core/v1/types.ts";
import type { Clock } from "@fairlead/base/clock.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import type { Informer } from "@fairlead/kube/types.ts";

/**
 * How long each node has been silent, by our own clock: nodes' clocks may be wrong. A node speaks by renewing its Lease
 * and by what its kubelet says of its readiness; only we say that it is unknown. Silence counts only while we listen:
 * after the API server was away every node has the whole time again to speak.
 */
export class Heartbeats implements Disposable {
  readonly #leases: Informer<Lease>;
  readonly #clock: Clock;
  readonly #graceMs: number;
  readonly #seenAtMs = new Map<string, number>();
  readonly #renewTimes = new Map<string, string | undefined>();
  readonly #subscriptions: readonly Disposable[];

  constructor(
    informers: { readonly leases: Informer<Lease>; readonly nodes: Informer<Node> },
    clock: Clock,
    graceMs: number,
  ) {
    const { leases, nodes } = informers;
    this.#leases = leases;
    this.#clock = clock;
    this.#graceMs = graceMs;
    this.#subscriptions = [
      leases.subscribe(({ after }) => {
        if (after !== undefined) this.noteLease(after.metadata.name, after.spec?.renewTime);
      }),
      nodes.subscribe(({ before, after }) => {
        const said = readinessOf(after);
        if (said !== undefined && said !== readinessOf(before)) this.#note(after?.metadata.name ?? "");
      }),
    ];
  }

  /** Counts as a sign of life if the Lease was renewed since it was last seen, by a watch or by a read. */
  noteLease(node: string, renewTime: string | undefined): void {
    if (renewTime === undefined || this.#renewTimes.get(node) === renewTime) return;
    this.#renewTimes.set(node, renewTime);
    this.#note(node);
  }

  /** How long until the node counts as gone; 0 or less: it does. A node that never reported counts from now on. */
  leftMs(node: string): number {
    const nowMs = this.#clock.monotonic();
    const listeningSinceMs = this.#leases.watchingSinceMs ?? nowMs;
    const seenAtMs = this.#seenAtMs.get(node) ?? nowMs;
    this.#seenAtMs.set(node, seenAtMs);
    return Math.max(seenAtMs, listeningSinceMs) + this.#graceMs - nowMs;
  }

  forget(node: string): void {
    this.#seenAtMs.delete(node);
    this.#renewTimes.delete(node);
  }

  [Symbol.dispose](): void {
    for (const subscription of this.#subscriptions) subscription[Symbol.dispose]();
  }

  #note(node: string): void {
    this.#seenAtMs.set(node, this.#clock.monotonic());
  }
}

/** The kubelet's readiness condition and its time; undefined if the condition is missing or was set by this controller. */
function readinessOf(node: Node | undefined): string | undefined {
  const ready = findCondition(node?.status?.conditions, "Ready");
  if (ready === undefined || ready.status === "Unknown") return undefined;
  return `${ready.status} ${ready.lastHeartbeatTime ?? ""}`;
}
