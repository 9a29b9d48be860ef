import type { IpAddress } from "@fairlead/base/netaddr/address.ts";
import type { NamedPort, PolicyNamespace, PolicyPod } from "../model.ts";
import { type Identity, identityKey, namespaceKey, type PodEntry, selectable } from "./identity.ts";
import type { Selectable } from "./selector-index.ts";

/** What the table reports; identities before the addresses that move to them, and after those that leave them. */
export interface PodTableEvents {
  identityAdded(identity: Identity): void;
  identityRemoved(identity: Identity): void;
  /** The labels of its namespace changed, or became known or unknown. */
  identityChanged(identity: Identity): void;
  /** The pod that has an address is another one; undefined where it has none. */
  moved(address: IpAddress, from: PodEntry | undefined, to: PodEntry | undefined): void;
}

/** Lists of named ports that are shared. Pods choose them, and few differ. */
const MAX_SHARED = 256;

interface PodTableOptions {
  readonly cluster: string;
  /** Pods of this node are local; if absent, those of the whole cluster. */
  readonly node?: string;
}

/** The known pods, by identity and by address. */
export class PodTable {
  readonly #options: PodTableOptions;
  readonly #events: PodTableEvents;
  readonly #pods = new Map<string, PodEntry>();
  readonly #identities = new Map<string, Identity>();
  readonly #byNamespace = new Map<string, Set<Identity>>();
  readonly #namespaces = new Map<string, PolicyNamespace>();
  /** The pod that has an address; a list, the owner last, while several claim it. */
  readonly #owners = new Map<IpAddress, PodEntry | readonly PodEntry[]>();
  /** Most pods have the ports of some other pod. */
  readonly #ports = new Map<string, readonly NamedPort[]>();

  constructor(options: PodTableOptions, events: PodTableEvents) {
    this.#options = options;
    this.#events = events;
  }

  upsert(pod: PolicyPod): void {
    const key = podKey(pod.cluster, pod.namespace, pod.name);
    const before = this.#pods.get(key);
    const ports = this.#sharedPorts(pod.ports);
    const isLocal = this.#isLocal(pod);
    const idKey = identityKey(pod);
    if (
      before?.identity.key === idKey &&
      before.ports === ports &&
      before.isLocal === isLocal &&
      sameList(before.addresses, pod.addresses)
    )
      return;
    const identity = this.#identities.get(idKey) ?? this.#addIdentity(idKey, pod);
    const after: PodEntry = { identity, addresses: [...pod.addresses], ports, isLocal };
    identity.pods.add(after);
    this.#pods.set(key, after);
    if (before === undefined) for (const address of after.addresses) this.#claim(address, after);
    else this.#replace(before, after);
    if (before !== undefined) this.#leave(before);
  }

  delete(cluster: string, namespace: string, name: string): void {
    const key = podKey(cluster, namespace, name);
    const pod = this.#pods.get(key);
    if (pod === undefined) return;
    this.#pods.delete(key);
    for (const address of pod.addresses) this.#release(address, pod);
    this.#leave(pod);
  }

  upsertNamespace(namespace: PolicyNamespace): void {
    const key = namespaceKey(namespace.cluster, namespace.name);
    const before = this.#namespaces.get(key);
    if (before !== undefined && sameLabels(before.labels, namespace.labels)) return;
    this.#namespaces.set(key, namespace);
    this.#namespaceChanged(key);
  }

  deleteNamespace(cluster: string, name: string): void {
    const key = namespaceKey(cluster, name);
    if (this.#namespaces.delete(key)) this.#namespaceChanged(key);
  }

  /** What selectors see of an identity; undefined while its namespace is not known. */
  selectable(identity: Identity): Selectable | undefined {
    const namespace = this.#namespaces.get(namespaceKey(identity.cluster, identity.namespace));
    return namespace && selectable(identity, namespace.labels);
  }

  identities(): Iterable<Identity> {
    return this.#identities.values();
  }

  owner(address: IpAddress): PodEntry | undefined {
    const found = this.#owners.get(address);
    return isList(found) ? found.at(-1) : found;
  }

  /** The addresses that a pod does not share, or that it has in preference to others. */
  *ownAddresses(pod: PodEntry): Generator<IpAddress, undefined> {
    for (const address of pod.addresses) if (this.owner(address) === pod) yield address;
    return undefined;
  }

  *owners(): Generator<[IpAddress, PodEntry], undefined> {
    for (const [address, found] of this.#owners) {
      const owner = isList(found) ? found.at(-1) : found;
      if (owner !== undefined) yield [address, owner];
    }
    return undefined;
  }

  #isLocal({ cluster, node }: PolicyPod): boolean {
    return (
      cluster === this.#options.cluster && (this.#options.node === undefined || node === this.#options.node)
    );
  }

  #sharedPorts(ports: readonly NamedPort[]): readonly NamedPort[] {
    const key = JSON.stringify(ports.map((it) => [it.name, it.protocol, it.port]));
    const known = this.#ports.get(key);
    if (known !== undefined) return known;
    const copy = ports.map(({ name, protocol, port }) => ({ name, protocol, port }));
    // Those of pods that are gone are in it, too. Forgetting costs memory, and another look at pods.
    if (this.#ports.size >= MAX_SHARED) this.#ports.clear();
    this.#ports.set(key, copy);
    return copy;
  }

  #addIdentity(key: string, { cluster, namespace, serviceAccount, labels }: PolicyPod): Identity {
    const identity: Identity = { key, cluster, namespace, serviceAccount, labels, pods: new Set() };
    this.#identities.set(key, identity);
    const inNamespace = namespaceKey(cluster, namespace);
    const others = this.#byNamespace.get(inNamespace);
    if (others === undefined) this.#byNamespace.set(inNamespace, new Set([identity]));
    else others.add(identity);
    this.#events.identityAdded(identity);
    return identity;
  }

  /** After its addresses have moved. */
  #leave(pod: PodEntry): void {
    const { identity } = pod;
    identity.pods.delete(pod);
    if (identity.pods.size > 0) return;
    const inNamespace = namespaceKey(identity.cluster, identity.namespace);
    const others = this.#byNamespace.get(inNamespace);
    others?.delete(identity);
    if (others?.size === 0) this.#byNamespace.delete(inNamespace);
    this.#identities.delete(identity.key);
    this.#events.identityRemoved(identity);
  }

  #namespaceChanged(key: string): void {
    for (const identity of this.#byNamespace.get(key) ?? []) this.#events.identityChanged(identity);
  }

  /** The same pod, changed: it keeps its place among those that claim its addresses. */
  #replace(former: PodEntry, after: PodEntry): void {
    for (const address of former.addresses) {
      if (!after.addresses.includes(address)) this.#release(address, former);
      else {
        const found = this.#owners.get(address);
        const wasOwner = this.owner(address) === former;
        this.#owners.set(address, isList(found) ? found.map((it) => (it === former ? after : it)) : after);
        if (wasOwner) this.#events.moved(address, former, after);
      }
    }
    for (const address of after.addresses)
      if (!former.addresses.includes(address)) this.#claim(address, after);
  }

  /** Pods of the own cluster come before others, later ones before earlier ones. */
  #claim(address: IpAddress, pod: PodEntry): void {
    const found = this.#owners.get(address);
    if (found === undefined) {
      this.#owners.set(address, pod);
      this.#events.moved(address, undefined, pod);
      return;
    }
    const before = this.owner(address);
    const claims = [...(isList(found) ? found : [found]), pod];
    const isOwn = (it: PodEntry): boolean => it.identity.cluster === this.#options.cluster;
    this.#owners.set(address, [...claims.filter((it) => !isOwn(it)), ...claims.filter(isOwn)]);
    const after = this.owner(address);
    if (before !== after) this.#events.moved(address, before, after);
  }

  #release(address: IpAddress, pod: PodEntry): void {
    const before = this.owner(address);
    const found = this.#owners.get(address);
    const rest = isList(found) ? found.filter((it) => it !== pod) : [];
    const [first] = rest;
    if (first === undefined) this.#owners.delete(address);
    else this.#owners.set(address, rest.length === 1 ? first : rest);
    const after = this.owner(address);
    if (before !== after) this.#events.moved(address, before, after);
  }
}

function podKey(cluster: string, namespace: string, name: string): string {
  return `${cluster}/${namespace}/${name}`;
}

function isList(it: PodEntry | readonly PodEntry[] | undefined): it is readonly PodEntry[] {
  return Array.isArray(it);
}

function sameList(a: readonly unknown[], b: readonly unknown[]): boolean {
  return a.length === b.length && a.every((it, index) => it === b[index]);
}

function sameLabels(a: Readonly<Record<string, string>>, b: Readonly<Record<string, string>>): boolean {
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((it) => Object.hasOwn(b, it) && a[it] === b[it]);
}
