import { abortable } from "@fairlead/base/abortable.ts";
import { type Clock, delay } from "@fairlead/base/clock.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { Informer, KubeClient } from "@fairlead/kube/types.ts";
import {
  INTERNAL_MEMBER_CLUSTERS,
  MEMBER_CLUSTERS,
  MEMBER_NAME_LABEL,
  type MemberCluster,
} from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { type LastSeen, lastSeen, type MembersByHub, membersByHub, Silence, type Signs } from "./by-hub.ts";
import type { Move } from "./members.ts";

/** A member renews its Lease three times within 15 s: one that did not for so long is away. Unit: milliseconds. */
const AWAY_MS = 20_000;

/** A hub on a cluster of thousands of nodes has as many other Leases, and each is renewed every 10 s. Members write the label with each renewal. */
const OF_MEMBERS = { labelSelector: MEMBER_NAME_LABEL };

/** Which members are with which hub now. */
export async function readMembersByHub({ from, to, signal }: Move): Promise<MembersByHub> {
  const signsOn = async (client: KubeClient): Promise<LastSeen> => {
    const [leases, internalMembers] = await Promise.all([
      client.list(LEASES, { ...OF_MEMBERS, signal }),
      client.list(INTERNAL_MEMBER_CLUSTERS, { signal }),
    ]);
    return lastSeen({ leases: leases.items, internalMembers: internalMembers.items });
  };
  const [before, after, { items }] = await Promise.all([
    signsOn(from.client),
    signsOn(to.client),
    to.client.list(MEMBER_CLUSTERS, { signal }),
  ]);
  return membersByHub(items, { from: before, to: after });
}

export interface Limits {
  /** How long members may take to switch. Unit: milliseconds. */
  readonly timeoutMs: number;
  /** Silence after which a member is not waited for. Unit: milliseconds. */
  readonly awayMs?: number | undefined;
}

/**
 * Waits until all members have switched, but for those that are away. @returns With which hub they are. `present` has those that answer
 * and have not switched, if time was up.
 *
 * @param onMoved - Called once for each member that is with the hub that has the fleet.
 * @throws {FleetError} `TIMED_OUT` if the members could not be read until then.
 */
export async function awaitMembers(
  move: Move,
  { timeoutMs, awayMs = AWAY_MS }: Limits,
  onMoved: (name: string) => void,
): Promise<MembersByHub & { readonly present: readonly string[] }> {
  const { deps, signal } = move;
  const { clock } = deps;
  await using watched = new Watched(move);
  const endMs = clock.monotonic() + timeoutMs;
  const reported = new Set<string>();
  const silence = new Silence();
  for (;;) {
    const changed = watched.nextChange();
    const nowMs = clock.monotonic();
    let nextMs = endMs;
    if (watched.hasSynced) {
      const { members, from, to } = watched.read();
      const now = membersByHub(members, { from, to });
      for (const it of now.moved.filter((name) => !reported.has(name))) {
        reported.add(it);
        onMoved(it);
      }
      const silentMs = new Map(now.staying.map((it) => [it, silence.of(it, from, nowMs)]));
      const present = now.staying.filter((it) => (silentMs.get(it) ?? 0) < awayMs);
      if (present.length === 0 || nowMs >= endMs) return { ...now, present };
      nextMs = Math.min(endMs, ...present.map((it) => nowMs + awayMs - (silentMs.get(it) ?? 0)));
    } else if (nowMs >= endMs)
      throw new FleetError("TIMED_OUT", `the members could not be read within ${timeoutMs / 1000} s`);
    await watched.until(changed, nextMs - nowMs, signal);
  }
}

/** What both hubs have of the members. */
class Watched implements AsyncDisposable {
  readonly #stop = new AbortController();
  readonly #informers: Informer<KubeObject>[] = [];
  readonly #members: Informer<MemberCluster>;
  readonly #from: () => Signs;
  readonly #to: () => Signs;
  readonly #clock: Clock;
  #change = Promise.withResolvers<void>();

  constructor({ from, to, deps }: Move) {
    this.#clock = deps.clock;
    const follow = <T extends KubeObject>(
      client: KubeClient,
      of: Resource<T>,
      which: { readonly labelSelector?: string } = {},
    ): Informer<T> => {
      const informer = createInformer(client, of, which, deps);
      informer.subscribe(() => this.#changed());
      this.#informers.push(informer);
      return informer;
    };
    const signsOn = (client: KubeClient): (() => Signs) => {
      const leases = follow(client, LEASES, OF_MEMBERS);
      const internalMembers = follow(client, INTERNAL_MEMBER_CLUSTERS);
      return () => ({ leases: leases.store.list(), internalMembers: internalMembers.store.list() });
    };
    this.#members = follow(to.client, MEMBER_CLUSTERS);
    this.#from = signsOn(from.client);
    this.#to = signsOn(to.client);
    const { signal } = this.#stop;
    for (const it of this.#informers) {
      it.start(signal);
      void it.synced(signal).then(
        () => this.#changed(),
        () => {},
      );
    }
  }

  get hasSynced(): boolean {
    return this.#informers.every((it) => it.hasSynced);
  }

  read() {
    return {
      members: this.#members.store.list(),
      from: lastSeen(this.#from()),
      to: lastSeen(this.#to()),
    };
  }

  /** Resolves when anything changes after this call. */
  nextChange(): Promise<void> {
    return this.#change.promise;
  }

  /** Until `change`, and no longer than `ms`. */
  async until(change: Promise<void>, ms: number, signal: AbortSignal): Promise<void> {
    const over = new AbortController();
    try {
      await abortable(Promise.race([change, delay(this.#clock, ms, over.signal)]), signal);
    } finally {
      over.abort();
    }
  }

  #changed(): void {
    this.#change.resolve();
    this.#change = Promise.withResolvers();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    for (const it of this.#informers) await it[Symbol.asyncDispose]();
  }
}
