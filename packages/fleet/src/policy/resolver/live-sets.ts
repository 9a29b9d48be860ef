import type { IpAddress } from "@fairlead/base/netaddr/address.ts";
import type { NamedPort } from "../model.ts";
import { ANONYMOUS, IDENTIFIED, KNOWN, KNOWN_PODS, type SetKey } from "../peers.ts";
import type { Selector } from "../selector.ts";
import type { NamedPortElement, SetChange, SetElement } from "../state.ts";
import { Deltas } from "./delta.ts";
import type { SetNeed } from "./group.ts";
import type { Identity, PodEntry } from "./identity.ts";
import type { Nodes } from "./nodes.ts";
import type { PodTable } from "./pod-table.ts";
import { SelectorIndex } from "./selector-index.ts";

const CLUSTER: SetKey = "entity:cluster";

interface LiveSet {
  readonly need: SetNeed;
  refs: number;
  isReported: boolean;
  /** Of a set of pods. */
  readonly identities: Set<Identity>;
  /** Of a set of nodes. */
  addresses: ReadonlySet<IpAddress>;
}

interface PodSet extends LiveSet {
  readonly selector: Selector;
}

/** The sets that groups refer to, and their elements. */
export class LiveSets {
  readonly #table: PodTable;
  readonly #nodes: Nodes;
  readonly #cluster: string;
  readonly #sets = new Map<SetKey, LiveSet>();
  readonly #index = new SelectorIndex<PodSet>();
  readonly #matches = new Map<Identity, Set<PodSet>>();
  /** Identities of namespaces whose labels are known. */
  readonly #selectable = new Set<Identity>();
  readonly #deltas = new Deltas();
  readonly #new = new Set<LiveSet>();
  /** How many reports there are of each address that no selector of pods selects. */
  readonly #anonymous = new Map<IpAddress, number>();
  /** As the sets have them; changes of nodes are taken over by `settle`. */
  #nodeAddresses: ReadonlySet<IpAddress> = new Set();

  constructor(cluster: string, table: PodTable, nodes: Nodes) {
    this.#cluster = cluster;
    this.#table = table;
    this.#nodes = nodes;
  }

  acquire(need: SetNeed): void {
    const known = this.#sets.get(need.key);
    if (known !== undefined) {
      known.refs++;
      return;
    }
    const set: LiveSet = {
      need,
      refs: 1,
      isReported: false,
      identities: new Set(),
      addresses: new Set(),
      ...(need.kind === "pods" ? { selector: need.selector } : {}),
    };
    this.#sets.set(need.key, set);
    this.#new.add(set);
  }

  release(key: SetKey): void {
    const set = this.#sets.get(key);
    if (set !== undefined) set.refs--;
  }

  identityAdded(identity: Identity): void {
    if (this.#table.selectable(identity) !== undefined) this.#selectable.add(identity);
    const matches = this.#matching(identity);
    if (matches.size === 0) return;
    this.#matches.set(identity, matches);
    for (const set of matches) set.identities.add(identity);
  }

  identityRemoved(identity: Identity): void {
    for (const set of this.#matches.get(identity) ?? []) set.identities.delete(identity);
    this.#matches.delete(identity);
    this.#selectable.delete(identity);
  }

  identityChanged(identity: Identity): void {
    const wasSelectable = this.#selectable.has(identity);
    const before = this.#matches.get(identity) ?? new Set();
    this.identityRemoved(identity);
    this.identityAdded(identity);
    const after = this.#matches.get(identity) ?? new Set();
    const isSelectable = this.#selectable.has(identity);
    for (const address of this.#addressesOf([identity])) {
      this.#moveBetween(address, before, after);
      if (!this.#nodeAddresses.has(address)) this.#change(IDENTIFIED, address, wasSelectable, isSelectable);
    }
  }

  moved(address: IpAddress, from: PodEntry | undefined, to: PodEntry | undefined): void {
    if (from?.identity !== to?.identity) {
      const of = (pod: PodEntry | undefined): ReadonlySet<PodSet> =>
        (pod && this.#matches.get(pod.identity)) ?? new Set();
      this.#moveBetween(address, of(from), of(to));
      const isOwn = (pod: PodEntry | undefined): boolean => pod?.identity.cluster === this.#cluster;
      this.#change(KNOWN_PODS, address, from !== undefined, to !== undefined);
      if (!this.#nodeAddresses.has(address)) {
        this.#change(KNOWN, address, from !== undefined, to !== undefined);
        this.#change(IDENTIFIED, address, this.#isIdentified(address, from), this.#isIdentified(address, to));
        this.#change(ANONYMOUS, address, this.#isAnonymous(address, from), this.#isAnonymous(address, to));
        this.#change(CLUSTER, address, isOwn(from), isOwn(to));
      }
    }
    if (from?.ports !== to?.ports) this.#movePorts(address, from?.ports ?? [], to?.ports ?? []);
  }

  /** Reports what changed since the last call. */
  settle(): readonly SetChange[] {
    const changes = this.#dropUnused();
    if (this.#nodes.isDirty) this.#takeNodes();
    this.#link();
    for (const set of this.#new) {
      set.isReported = true;
      set.addresses = this.#nodes.elements(set.need) ?? new Set();
      this.#deltas.forget(set.need.key);
      changes.push({ key: set.need.key, state: "new", added: [...this.#elements(set)], removed: [] });
    }
    this.#new.clear();
    return [...changes, ...this.#deltas.drain()];
  }

  /** Addresses that no selector of pods selects, as another cluster says. */
  anonymousAdded(addresses: readonly IpAddress[]): void {
    for (const it of addresses) this.#count(it, 1);
  }

  anonymousRemoved(addresses: readonly IpAddress[]): void {
    for (const it of addresses) this.#count(it, -1);
  }

  #count(address: IpAddress, more: 1 | -1): void {
    const before = this.#anonymous.get(address) ?? 0;
    const after = before + more;
    if (after === 0) this.#anonymous.delete(address);
    else this.#anonymous.set(address, after);
    if (this.#table.owner(address) !== undefined || this.#nodeAddresses.has(address)) return;
    for (const key of [IDENTIFIED, ANONYMOUS]) this.#change(key, address, before > 0, after > 0);
  }

  /** Whether it is known what has an address. */
  isIdentified(address: IpAddress): boolean {
    return this.#nodeAddresses.has(address) || this.#isIdentified(address, this.#table.owner(address));
  }

  isAnonymous(address: IpAddress): boolean {
    return !this.#nodeAddresses.has(address) && this.#isAnonymous(address, this.#table.owner(address));
  }

  /** Apart from nodes. A pod counts more than a report of its address. */
  #isIdentified(address: IpAddress, owner: PodEntry | undefined): boolean {
    return owner === undefined ? this.#anonymous.has(address) : this.#selectable.has(owner.identity);
  }

  #isAnonymous(address: IpAddress, owner: PodEntry | undefined): boolean {
    return owner === undefined && this.#anonymous.has(address);
  }

  #matching(identity: Identity): Set<PodSet> {
    const seen = this.#table.selectable(identity);
    return new Set(seen === undefined ? [] : this.#index.matching(seen));
  }

  #moveBetween(address: IpAddress, from: ReadonlySet<PodSet>, to: ReadonlySet<PodSet>): void {
    for (const set of from) if (!to.has(set)) this.#deltas.remove(set.need.key, address);
    for (const set of to) if (!from.has(set)) this.#deltas.add(set.need.key, address);
  }

  #change(key: SetKey, address: IpAddress, was: boolean, is: boolean): void {
    if (was === is || !this.#sets.has(key)) return;
    if (is) this.#deltas.add(key, address);
    else this.#deltas.remove(key, address);
  }

  #movePorts(address: IpAddress, from: readonly NamedPort[], to: readonly NamedPort[]): void {
    for (const it of from) this.#changePort(it, address, "remove");
    for (const it of to) this.#changePort(it, address, "add");
  }

  #changePort({ protocol, name, port }: NamedPort, address: IpAddress, how: "add" | "remove"): void {
    const key = `port:${protocol}:${name}`;
    if (this.#sets.has(key)) this.#deltas[how](key, { address, port });
  }

  #dropUnused(): SetChange[] {
    const changes: SetChange[] = [];
    for (const [key, set] of this.#sets) {
      if (set.refs > 0) continue;
      this.#sets.delete(key);
      this.#new.delete(set);
      this.#deltas.forget(key);
      if (isPodSet(set)) {
        this.#index.delete(set);
        for (const identity of set.identities) this.#matches.get(identity)?.delete(set);
      }
      if (set.isReported) changes.push({ key, state: "gone", added: [], removed: [] });
    }
    return changes;
  }

  #takeNodes(): void {
    const former = this.#nodeAddresses;
    this.#nodeAddresses = this.#nodes.take();
    for (const address of former.symmetricDifference(this.#nodeAddresses)) {
      const is = this.#nodeAddresses.has(address);
      const owner = this.#table.owner(address);
      if (owner === undefined) this.#change(KNOWN, address, !is, is);
      if (!this.#isIdentified(address, owner)) this.#change(IDENTIFIED, address, !is, is);
      if (this.#isAnonymous(address, owner)) this.#change(ANONYMOUS, address, is, !is);
      if (owner?.identity.cluster !== this.#cluster) this.#change(CLUSTER, address, !is, is);
    }
    for (const set of this.#sets.values()) {
      const addresses = this.#nodes.elements(set.need);
      if (addresses === undefined) continue;
      for (const it of set.addresses.difference(addresses)) this.#deltas.remove(set.need.key, it);
      for (const it of addresses.difference(set.addresses)) this.#deltas.add(set.need.key, it);
      set.addresses = addresses;
    }
  }

  /** One pass over the identities for all new sets. */
  #link(): void {
    const pending = new SelectorIndex<PodSet>();
    const added = [...this.#new].filter(isPodSet);
    for (const set of added) pending.add(set);
    for (const identity of added.length === 0 ? [] : this.#table.identities()) {
      const seen = this.#table.selectable(identity);
      for (const set of seen === undefined ? [] : pending.matching(seen)) this.#linkTo(set, identity);
    }
    for (const set of added) this.#index.add(set);
  }

  #linkTo(set: PodSet, identity: Identity): void {
    set.identities.add(identity);
    const matches = this.#matches.get(identity);
    if (matches === undefined) this.#matches.set(identity, new Set([set]));
    else matches.add(set);
  }

  *#elements(set: LiveSet): Generator<SetElement, undefined> {
    const { need } = set;
    switch (need.kind) {
      case "prefixes":
        return yield* need.prefixes;
      case "pods":
        return yield* this.#addressesOf(set.identities);
      case "port":
        return yield* this.#portElements(need.key);
      case "known-pods":
      case "known":
      case "cluster":
        return yield* this.#known(need.key);
      case "identified":
        yield* this.#known(need.key);
        return yield* this.#anonymousAddresses();
      case "anonymous":
        return yield* this.#anonymousAddresses();
      default:
        return yield* set.addresses;
    }
  }

  *#addressesOf(identities: Iterable<Identity>): Generator<IpAddress, undefined> {
    for (const identity of identities) for (const pod of identity.pods) yield* this.#table.ownAddresses(pod);
    return undefined;
  }

  *#portElements(key: SetKey): Generator<NamedPortElement, undefined> {
    for (const [address, pod] of this.#table.owners())
      for (const it of pod.ports)
        if (`port:${it.protocol}:${it.name}` === key) yield { address, port: it.port };
    return undefined;
  }

  *#known(key: SetKey): Generator<IpAddress, undefined> {
    const nodes = key === KNOWN_PODS ? new Set<IpAddress>() : this.#nodeAddresses;
    for (const [address, pod] of this.#table.owners()) {
      const isIn =
        key === CLUSTER
          ? pod.identity.cluster === this.#cluster
          : key !== IDENTIFIED || this.#selectable.has(pod.identity);
      if (isIn && !nodes.has(address)) yield address;
    }
    yield* nodes;
    return undefined;
  }

  *#anonymousAddresses(): Generator<IpAddress, undefined> {
    for (const it of this.#anonymous.keys())
      if (this.#table.owner(it) === undefined && !this.#nodeAddresses.has(it)) yield it;
    return undefined;
  }
}

function isPodSet(set: LiveSet): set is PodSet {
  return "selector" in set;
}
