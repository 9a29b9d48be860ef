import type { IpAddress } from "@fairlead/base/netaddr/address.ts";
import { MAX_RULES_ON_NODE } from "../budget.ts";
import type { CompiledPolicy, PolicyNamespace, PolicyNode, PolicyPod } from "../model.ts";
import type { Changes } from "../state.ts";
import { closedToUnidentified } from "../unidentified.ts";
import { Remote, type RemoteNetwork } from "../remote.ts";
import { Groups } from "./groups.ts";
import type { Identity } from "./identity.ts";
import { LiveSets } from "./live-sets.ts";
import { Nodes } from "./nodes.ts";
import { PodTable } from "./pod-table.ts";

export interface ResolverOptions {
  /** Name of the own cluster. */
  readonly cluster: string;
  /** Pods of this node are local; if absent, those of the whole cluster. */
  readonly node?: string;
}

/**
 * Finds out which policies decide on which local pods, and which addresses their selectors select. It takes what exists, in any order
 * and as often as wanted; `take` returns what changed since the last call, the first one everything. A change costs what depends on it.
 *
 * - Selectors see no pod whose namespace is not known, and a local pod has groups only once it is.
 * - If several pods claim an address, it is that of a pod of the own cluster, and else of the one that was added last.
 */
export class Resolver {
  readonly #nodes: Nodes;
  readonly #table: PodTable;
  readonly #sets: LiveSets;
  readonly #groups: Groups;
  /** As they were compiled. */
  readonly #policies = new Map<string, CompiledPolicy>();
  readonly #cluster: string;
  #remote: Remote;
  /** By the key of what says so. */
  readonly #anonymous = new Map<string, readonly IpAddress[]>();

  constructor(options: ResolverOptions) {
    this.#nodes = new Nodes(options);
    this.#cluster = options.cluster;
    this.#remote = new Remote(options.cluster, []);
    this.#table = new PodTable(options, {
      identityAdded: (identity: Identity) => this.#sets.identityAdded(identity),
      identityRemoved: (identity: Identity) => {
        this.#sets.identityRemoved(identity);
        this.#groups.identityRemoved(identity);
      },
      identityChanged: (identity: Identity) => {
        this.#sets.identityChanged(identity);
        this.#groups.identityChanged(identity);
      },
      moved: (address, from, to) => {
        this.#sets.moved(address, from, to);
        this.#groups.moved(address, from, to);
      },
    });
    this.#sets = new LiveSets(options.cluster, this.#table, this.#nodes);
    this.#groups = new Groups({
      table: this.#table,
      sets: this.#sets,
      nodes: this.#nodes,
      // No kernel has the rules of a whole cluster.
      maxRules: options.node === undefined ? Number.POSITIVE_INFINITY : MAX_RULES_ON_NODE,
    });
  }

  upsertPod(pod: PolicyPod): void {
    this.#table.upsert(pod);
  }

  deletePod(cluster: string, namespace: string, name: string): void {
    this.#table.delete(cluster, namespace, name);
  }

  upsertNamespace(namespace: PolicyNamespace): void {
    this.#table.upsertNamespace(namespace);
  }

  deleteNamespace(cluster: string, name: string): void {
    this.#table.deleteNamespace(cluster, name);
  }

  upsertNode(node: PolicyNode): void {
    this.#nodes.upsert(node);
  }

  deleteNode(cluster: string, name: string): void {
    this.#nodes.delete(cluster, name);
  }

  /** The endpoints of the own cluster's API server. */
  setApiServers(addresses: readonly IpAddress[]): void {
    this.#nodes.setApiServers(addresses);
  }

  /** All addresses that pods of other clusters have: nothing that depends on the identity is allowed to those that are not identified. */
  setRemote(networks: readonly RemoteNetwork[]): void {
    const before = this.#remote;
    this.#remote = new Remote(this.#cluster, networks);
    for (const it of this.#policies.values()) {
      const closed = closedToUnidentified(it, this.#remote);
      if (closed !== it || closedToUnidentified(it, before) !== it) this.#groups.upsert(closed);
    }
  }

  /** @param key - Names what says that no selector of pods selects the addresses. Without addresses it is forgotten. */
  setAnonymous(key: string, addresses: readonly IpAddress[]): void {
    const before = this.#anonymous.get(key) ?? [];
    if (addresses.length === 0) this.#anonymous.delete(key);
    else this.#anonymous.set(key, addresses);
    this.#sets.anonymousAdded(addresses);
    this.#sets.anonymousRemoved(before);
  }

  /** Whether an address is one of those that pods of other clusters have. */
  isRemote(address: IpAddress): boolean {
    return this.#remote.has(address);
  }

  /** Whether it is known what has an address. */
  isIdentified(address: IpAddress): boolean {
    return this.#sets.isIdentified(address);
  }

  /** Whether no selector of pods selects an address, as another cluster says. */
  isAnonymous(address: IpAddress): boolean {
    return this.#sets.isAnonymous(address);
  }

  upsertPolicy(policy: CompiledPolicy): void {
    this.#policies.set(policy.key, policy);
    this.#groups.upsert(closedToUnidentified(policy, this.#remote));
  }

  /** @param key `CompiledPolicy.key` */
  deletePolicy(key: string): void {
    this.#policies.delete(key);
    this.#groups.delete(key);
  }

  take(): Changes {
    const groups = this.#groups.settle(this.#nodes.isDirty);
    return { sets: this.#sets.settle(), ...groups };
  }
}
