import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import type { Clock } from "@fairlead/base/clock.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { byText } from "@fairlead/base/text.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import type { Change, Informer } from "@fairlead/kube/types.ts";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { type ClusterFacts, clusterFacts } from "#placement/scheduling/cluster.ts";
import { eligibleForMs, memberAgentOf, type Sight } from "#placement/scheduling/eligibility.ts";
import { Heartbeats } from "./heartbeats.ts";

/** A cluster that is another for the scheduler than before. Undefined: not in the fleet. */
export interface ClusterChange {
  readonly name: string;
  readonly before: ClusterFacts | undefined;
  readonly after: ClusterFacts | undefined;
  /** Whether only properties and resource usage are others, which change all the time. */
  readonly isUsageOnly: boolean;
}

interface Entry {
  member: MemberCluster;
  facts: ClusterFacts;
  /** Until when `facts` hold if nothing is reported, on the monotonic clock. */
  untilMs: number;
}

/** The member clusters as schedulers see them. Heartbeats, which come all the time, change nothing here. */
export class Fleet implements Disposable {
  readonly #members: Informer<MemberCluster>;
  readonly #clock: Clock;
  readonly #subscription: Disposable;
  readonly #heartbeats = new Heartbeats();
  readonly #entries = new Map<string, Entry>();
  readonly #listeners = new Set<(change: ClusterChange) => void>();
  #sorted: ReadonlyMap<string, ClusterFacts> | undefined;
  #sortedUntilMs = 0;

  constructor(members: Informer<MemberCluster>, clock: Clock) {
    this.#members = members;
    this.#clock = clock;
    for (const after of members.store.list()) this.#onChange({ key: keyOf(after), before: undefined, after });
    this.#subscription = members.subscribe((change) => this.#onChange(change));
  }

  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]();
  }

  onChange(listener: (change: ClusterChange) => void): void {
    this.#listeners.add(listener);
  }

  /** By name, in the order of names. */
  clusters(): ReadonlyMap<string, ClusterFacts> {
    const nowMs = this.#clock.monotonic();
    if (this.#sorted !== undefined && nowMs < this.#sortedUntilMs) return this.#sorted;
    this.#sortedUntilMs = Infinity;
    for (const entry of this.#entries.values()) {
      if (nowMs >= entry.untilMs) {
        entry.facts = this.#read(entry.member, nowMs);
        entry.untilMs = this.#untilMs(entry.member, nowMs);
      }
      this.#sortedUntilMs = Math.min(this.#sortedUntilMs, entry.untilMs);
    }
    const byName = [...this.#entries].toSorted(([a], [b]) => byText(a, b));
    this.#sorted = new Map(byName.map(([name, { facts }]) => [name, facts]));
    return this.#sorted;
  }

  /** For how much longer what `clusters` returned holds if nothing is reported. Unit: milliseconds. */
  validForMs(): number {
    return Math.max(1, this.#sortedUntilMs - this.#clock.monotonic());
  }

  #onChange({ key, before: was, after: member }: Change<MemberCluster>): void {
    const nowMs = this.#clock.monotonic();
    const entry = this.#entries.get(key);
    const before = entry?.facts;
    if (member === undefined) {
      this.#entries.delete(key);
      this.#heartbeats.forget(key);
      this.#report({ name: key, before, after: undefined, isUsageOnly: false });
      return;
    }
    // As the previous leader left it.
    const wasLost = findCondition(member.status?.conditions, "Healthy")?.status === "False";
    const heartbeat = memberAgentOf(member)?.lastReceivedHeartbeat;
    if (heartbeat !== undefined)
      this.#heartbeats.observe(key, heartbeat, was === undefined && wasLost, nowMs);
    const next = { member, facts: this.#read(member, nowMs), untilMs: this.#untilMs(member, nowMs) };
    const isUsageOnly = entry !== undefined && sameJson(standingOf(entry.facts), standingOf(next.facts));
    const isSame = isUsageOnly && sameJson(usageOf(entry.member), usageOf(member));
    this.#entries.set(key, isSame ? { ...next, facts: entry.facts } : next);
    if (!isSame) this.#report({ name: key, before, after: next.facts, isUsageOnly });
  }

  #read(member: MemberCluster, nowMs: number): ClusterFacts {
    return clusterFacts(member, this.#sight(member, nowMs));
  }

  #untilMs(member: MemberCluster, nowMs: number): number {
    return nowMs + eligibleForMs(member, this.#sight(member, nowMs));
  }

  #sight({ metadata: { name } }: MemberCluster, nowMs: number): Sight {
    return { heartbeatAgeMs: this.#heartbeats.ageMs(name, nowMs, this.#members.watchingSinceMs) };
  }

  #report(change: ClusterChange): void {
    this.#sorted = undefined;
    for (const listener of this.#listeners) listener(change);
  }
}

function standingOf({ labels, taints, isLeaving, ineligible, namespaces }: ClusterFacts): object {
  return { labels, taints, isLeaving, ineligible, namespaces: namespaces && [...namespaces] };
}

/** Without the times at which it was observed. */
function usageOf({ status }: MemberCluster): object {
  return {
    ...status?.resourceUsage,
    observationTime: undefined,
    properties: Object.entries(status?.properties ?? {}).map(([name, { value }]) => [name, value]),
  };
}
