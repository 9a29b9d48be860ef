import type { IpAddress } from "@fairlead/base/netaddr/address.ts";
import { doesFqdnMatch } from "./fqdn.ts";
import { FQDN, type FqdnSet, patternOf } from "./peers.ts";
import { isSpecialPurpose } from "@fairlead/base/netaddr/special-purpose.ts";
import type { SetChange } from "./state.ts";

/** So many addresses of one name count for one pod; the oldest go. As with Cilium. */
const MAX_ADDRESSES = 50;
/** So many names, and addresses of all of them, count for one pod; the oldest names go. */
const MAX_NAMES = 1000;
const MAX_OF_POD = 10_000;
/** So many addresses outlive their TTL because connections use them. As with Cilium. */
const MAX_KEPT = 10_000;

export interface DnsAnswer {
  /** The client of the DNS server. */
  readonly pod: IpAddress;
  /** Lower case, without the final dot. */
  readonly name: string;
  /** Sets of the pod's policies. */
  readonly sets: readonly FqdnSet[];
  /** Each until then. Unit: milliseconds. */
  readonly addresses: ReadonlyMap<IpAddress, number>;
}

/** The addresses that a pod got for a name. */
interface Entry {
  readonly sets: readonly FqdnSet[];
  readonly addresses: Map<IpAddress, number>;
}

/**
 * The addresses in the sets of `toFQDNs`, from what DNS answered. Pure, and bounded whatever servers answer: for each pod 1000 names of 50
 * addresses, and 10,000 addresses in all. An address is in a set as long as one name of one pod leads to it. Addresses that are not those of hosts
 * elsewhere, such as loopback and link-local ones, are never in one: behind some are services of the node or of the cloud.
 */
export class FqdnCache {
  readonly #entries = new Map<IpAddress | "adopted", Map<string, Entry>>();
  /** By pod. */
  readonly #sizes = new Map<IpAddress | "adopted", number>();
  /** For each set that policies have: by how many entries an address is there. */
  readonly #sets = new Map<FqdnSet, Map<IpAddress, number>>();
  readonly #before = new Map<FqdnSet, Map<IpAddress, boolean>>();

  /** The kernel has it. */
  track(set: FqdnSet): void {
    if (!this.#sets.has(set)) this.#sets.set(set, new Map());
  }

  forget(set: FqdnSet): void {
    this.#sets.delete(set);
    this.#before.delete(set);
    for (const { pod, name, entry } of Array.from(this.#all())) {
      if (!entry.sets.includes(set)) continue;
      const sets = entry.sets.filter((it) => it !== set);
      this.#put(pod, name, {
        sets,
        addresses: sets.length === 0 ? new Map<IpAddress, number>() : entry.addresses,
      });
    }
  }

  /** What a set had in the kernel when the program started. */
  adopt(set: FqdnSet, addresses: ReadonlyMap<IpAddress, number>): void {
    this.#put("adopted", set, { sets: [set], addresses: new Map(addresses) });
  }

  answered({ pod, name, sets, addresses: all }: DnsAnswer): void {
    const matching = sets.filter((it) => doesFqdnMatch(name, patternOf(it)));
    const addresses = new Map([...all].filter(([it]) => !isSpecialPurpose(it)));
    if (matching.length === 0 || addresses.size === 0) return;
    const known = this.#entries.get(pod)?.get(name);
    const isSame = String(known?.sets) === String(matching);
    const { kept, isNew } = merged(known?.addresses ?? new Map<IpAddress, number>(), addresses);
    if (isNew || !isSame) this.#put(pod, name, { sets: matching, addresses: kept });
    else for (const [it, untilMs] of kept) known?.addresses.set(it, untilMs);
  }

  /** Other policies select the pod: what it has learned counts for their patterns. */
  moved(pod: IpAddress, sets: readonly FqdnSet[]): void {
    for (const [name, { addresses }] of Array.from(this.#entries.get(pod) ?? [])) {
      const matching = sets.filter((it) => doesFqdnMatch(name, patternOf(it)));
      this.#put(pod, name, {
        sets: matching,
        addresses: matching.length === 0 ? new Map<IpAddress, number>() : addresses,
      });
    }
  }

  /** The pod is gone. */
  podGone(pod: IpAddress): void {
    for (const entry of this.#entries.get(pod)?.values() ?? []) this.#count(pod, entry, -1);
    this.#entries.delete(pod);
  }

  get isEmpty(): boolean {
    return this.#entries.size === 0;
  }

  /** Whether there may be something to take. */
  get isChanged(): boolean {
    return this.#before.size > 0;
  }

  /** Whether an address has outlived its TTL. */
  hasExpired(nowMs: number): boolean {
    return this.#all().some(({ entry }) => entry.addresses.values().some((it) => it <= nowMs));
  }

  /** Removes what has outlived its TTL, except addresses with connections. */
  expire(nowMs: number, isUsed: (address: IpAddress) => boolean): void {
    let kept = 0;
    for (const { pod, name, entry } of Array.from(this.#all())) {
      const addresses = new Map(
        [...entry.addresses].filter(([it, untilMs]) => untilMs > nowMs || (isUsed(it) && kept++ < MAX_KEPT)),
      );
      if (addresses.size < entry.addresses.size) this.#put(pod, name, { ...entry, addresses });
    }
  }

  /** What changed in the sets since the last call. */
  take(): readonly SetChange[] {
    const changes = [...this.#before].flatMap(([set, before]): SetChange[] => {
      const has = (it: IpAddress): boolean => this.#sets.get(set)?.has(it) === true;
      const added = [...before].flatMap(([it, was]) => (!was && has(it) ? [it] : []));
      const removed = [...before].flatMap(([it, was]) => (was && !has(it) ? [it] : []));
      if (added.length + removed.length === 0) return [];
      return [{ key: `${FQDN}${set}`, state: "changed", added, removed }];
    });
    this.#before.clear();
    return changes;
  }

  *#all(): Generator<{
    readonly pod: IpAddress | "adopted";
    readonly name: string;
    readonly entry: Entry;
  }> {
    for (const [pod, names] of this.#entries) for (const [name, entry] of names) yield { pod, name, entry };
  }

  #put(pod: IpAddress | "adopted", name: string, entry: Entry): void {
    const names = this.#entries.get(pod) ?? new Map<string, Entry>();
    this.#entries.set(pod, names);
    const former = names.get(name);
    names.delete(name);
    if (entry.addresses.size > 0) names.set(name, entry);
    this.#count(pod, entry, 1);
    if (former !== undefined) this.#count(pod, former, -1);
    if (names.size === 0) this.#entries.delete(pod);
    for (const [oldest, dropped] of names) {
      if (!this.#isOver(pod, names.size)) return;
      names.delete(oldest);
      this.#count(pod, dropped, -1);
    }
  }

  /** What an agent finds in the kernel is of pods that it does not know yet, and was bounded before. */
  #isOver(pod: IpAddress | "adopted", names: number): boolean {
    return pod !== "adopted" && (names > MAX_NAMES || (this.#sizes.get(pod) ?? 0) > MAX_OF_POD);
  }

  #count(pod: IpAddress | "adopted", { sets, addresses }: Entry, by: 1 | -1): void {
    const size = (this.#sizes.get(pod) ?? 0) + by * addresses.size;
    if (size === 0) this.#sizes.delete(pod);
    else this.#sizes.set(pod, size);
    for (const set of sets) {
      const counts = this.#sets.get(set);
      if (counts === undefined) continue;
      const before = this.#before.get(set) ?? new Map<IpAddress, boolean>();
      this.#before.set(set, before);
      for (const it of addresses.keys()) {
        const count = counts.get(it) ?? 0;
        if (!before.has(it)) before.set(it, count > 0);
        if (count + by > 0) counts.set(it, count + by);
        else counts.delete(it);
      }
    }
  }
}

/** The newest are last, and stay. */
function merged(known: ReadonlyMap<IpAddress, number>, found: ReadonlyMap<IpAddress, number>) {
  const all = new Map(known);
  for (const [it, untilMs] of found) {
    all.delete(it);
    all.set(it, Math.max(untilMs, known.get(it) ?? untilMs));
  }
  const kept = new Map([...all].slice(-MAX_ADDRESSES));
  return { kept, isNew: kept.keys().some((it) => !known.has(it)) };
}
