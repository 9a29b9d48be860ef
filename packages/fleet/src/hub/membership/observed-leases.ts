import { type Lease, LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { isOlderVersion } from "@fairlead/kube/api/meta/version.ts";
import type { Clock } from "@fairlead/base/clock.ts";
import type { Informer, KubeClient } from "@fairlead/kube/types.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import type { LeaseTracker, Verdict } from "./leases.ts";

interface Parts {
  readonly client: KubeClient;
  readonly leases: Informer<Lease>;
  readonly tracker: LeaseTracker;
  /** Unit: milliseconds. */
  readonly leaseMs: number;
  readonly clock: Clock;
}

/** The Leases of members, as the hub's API server has them. */
export class ObservedLeases {
  readonly #parts: Parts;
  /** Leases that were read, and are newer than what the watch brought. */
  readonly #read = new Map<string, Lease>();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /**
   * Before a member becomes suspect its Lease is read. On a busy machine this program may not have read what the watch brought, or the
   * watch is late; a server that does not answer says nothing about members.
   */
  async judge(cluster: string, signal: AbortSignal): Promise<Verdict> {
    if (this.#isOverdue(cluster)) {
      const [namespace, fieldSelector] = [mailboxOf(cluster), `metadata.name=${cluster}`];
      const [lease] = (await this.#parts.client.list(LEASES, { namespace, fieldSelector, signal })).items;
      if (lease !== undefined) this.#read.set(cluster, lease);
      this.#observe(cluster);
    }
    return this.#verdict(cluster);
  }

  /** Whether the member is alive, by what the watch brought. */
  isAlive(cluster: string): boolean {
    return !this.#isOverdue(cluster) && this.#verdict(cluster).liveness === "alive";
  }

  forget(cluster: string): void {
    this.#parts.tracker.forget(cluster);
    this.#read.delete(cluster);
  }

  #isOverdue(cluster: string): boolean {
    this.#observe(cluster);
    return this.#parts.tracker.isOverdue(cluster, this.#parts.clock.monotonic());
  }

  #verdict(cluster: string): Verdict {
    return this.#parts.tracker.verdict(cluster, this.#parts.clock.monotonic());
  }

  #observe(cluster: string): void {
    const { tracker, leaseMs, clock } = this.#parts;
    const renewTime = this.#newest(cluster)?.spec?.renewTime;
    // The hub's own figure, not the member's: a member must not choose how long it is believed.
    if (renewTime !== undefined) tracker.observe(cluster, { renewTime, leaseMs }, clock.monotonic());
  }

  #newest(cluster: string): Lease | undefined {
    const watched = this.#parts.leases.store.get(objectKey(mailboxOf(cluster), cluster));
    const read = this.#read.get(cluster);
    if (isOlderVersion(watched?.metadata.resourceVersion, read?.metadata.resourceVersion)) return read;
    this.#read.delete(cluster);
    return watched;
  }
}
