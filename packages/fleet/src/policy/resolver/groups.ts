import type { IpAddress } from "@fairlead/base/netaddr/address.ts";
import { isDeepStrictEqual } from "node:util";
import { defined } from "@fairlead/base/defined.ts";
import { costOf } from "../budget.ts";
import type { CompiledPolicy, Way } from "../model.ts";
import type { Selector } from "../selector.ts";
import { selects } from "../selector.ts";
import type { Changes, Group, GroupKeys } from "../state.ts";
import { closedGroup, groupKey, groupOf, needsOf, ordered, type SetNeed } from "./group.ts";
import type { Identity, PodEntry } from "./identity.ts";
import type { LiveSets } from "./live-sets.ts";
import { type Nodes, nodeReader } from "./nodes.ts";
import type { PodTable } from "./pod-table.ts";
import { SelectorIndex } from "./selector-index.ts";

interface PolicyEntry {
  readonly policy: CompiledPolicy;
  readonly rules: Readonly<Record<Way, number>>;
  readonly selector: Selector;
  readonly subjects: Set<Subject>;
}

/** An identity with local addresses, or the own node. */
interface Subject {
  readonly addresses: Set<IpAddress>;
  readonly policies: Set<PolicyEntry>;
  groups: GroupKeys;
}

interface LiveGroup {
  readonly key: string;
  readonly way: Way;
  readonly policies: readonly string[];
  refs: number;
  isReported: boolean;
  needs: readonly SetNeed[];
  /** That of policies of tenants, if it has such. */
  readonly namespace: string | undefined;
  /** How many of its rules count, once it is built. */
  rules: number;
}

interface GroupsOptions {
  readonly table: PodTable;
  readonly sets: LiveSets;
  readonly nodes: Nodes;
  /** Of one namespace. Groups beyond deny everything. */
  readonly maxRules: number;
}

const WAYS: readonly Way[] = ["ingress", "egress"];

/** Which policies decide on which local pods. */
export class Groups {
  readonly #table: PodTable;
  readonly #sets: LiveSets;
  readonly #nodes: Nodes;
  readonly #policies = new Map<string, PolicyEntry>();
  readonly #index = new SelectorIndex<PolicyEntry>();
  readonly #new = new Set<PolicyEntry>();
  readonly #subjects = new Map<Identity, Subject>();
  readonly #host: Subject = { addresses: new Set(), policies: new Set(), groups: {} };
  readonly #groups = new Map<string, LiveGroup>();
  readonly #groupsOf = new Map<string, Set<LiveGroup>>();
  readonly #reported = new Map<IpAddress, GroupKeys>();
  /** Rules of groups, by namespace, and the groups that had no room. */
  readonly #spent = new Map<string | undefined, number>();
  readonly #closed = new Set<LiveGroup>();
  readonly #maxRules: number;
  readonly #dirtySubjects = new Set<Subject>();
  readonly #dirtyGroups = new Set<LiveGroup>();
  readonly #dirtyAddresses = new Set<IpAddress>();

  constructor({ table, sets, nodes, maxRules }: GroupsOptions) {
    this.#table = table;
    this.#sets = sets;
    this.#nodes = nodes;
    this.#maxRules = maxRules;
  }

  upsert(policy: CompiledPolicy): void {
    const before = this.#policies.get(policy.key);
    if (before !== undefined && isDeepStrictEqual(before.policy, policy)) return;
    if (before !== undefined) this.delete(policy.key);
    const { ingress, egress } = policy;
    const rules = {
      ingress: costOf(defined({ ingress })).rules,
      egress: costOf(defined({ egress })).rules,
    };
    const entry: PolicyEntry = { policy, rules, selector: policy.subject.selector, subjects: new Set() };
    this.#policies.set(policy.key, entry);
    this.#new.add(entry);
    for (const group of this.#groupsOf.get(policy.key) ?? []) this.#dirtyGroups.add(group);
  }

  delete(key: string): void {
    const entry = this.#policies.get(key);
    if (entry === undefined) return;
    this.#policies.delete(key);
    if (!this.#new.delete(entry) && entry.policy.subject.of === "pods") this.#index.delete(entry);
    for (const subject of entry.subjects) {
      subject.policies.delete(entry);
      this.#dirtySubjects.add(subject);
    }
  }

  identityRemoved(identity: Identity): void {
    this.#subjects.delete(identity);
  }

  identityChanged(identity: Identity): void {
    const subject = this.#subjects.get(identity);
    if (subject === undefined) return;
    this.#unlink(subject);
    this.#match(identity, subject);
  }

  moved(address: IpAddress, from: PodEntry | undefined, to: PodEntry | undefined): void {
    if (from?.isLocal === true) this.#leave(address, from.identity);
    if (to?.isLocal === true) this.#subject(to.identity).addresses.add(address);
    if (from?.isLocal === true || to?.isLocal === true) this.#dirtyAddresses.add(address);
  }

  settle(isHostDirty: boolean): Omit<Changes, "sets"> {
    this.#link();
    const hostBefore = this.#host.groups;
    if (isHostDirty) this.#matchHost();
    for (const subject of this.#dirtySubjects) this.#assign(subject);
    this.#dirtySubjects.clear();
    const groupsGone = this.#dropUnused();
    const due = [...this.#dirtyGroups.union(this.#closed)].filter((it) => it.refs > 0);
    const groups = due.flatMap((it) => this.#build(it));
    this.#dirtyGroups.clear();
    const addresses = [...this.#dirtyAddresses].flatMap((it) => this.#report(it));
    this.#dirtyAddresses.clear();
    const isHostSame = isDeepStrictEqual(hostBefore, this.#host.groups);
    return { groups, groupsGone, addresses, host: isHostSame ? undefined : this.#host.groups };
  }

  #leave(address: IpAddress, identity: Identity): void {
    const subject = this.#subjects.get(identity);
    subject?.addresses.delete(address);
    if (subject === undefined || subject.addresses.size > 0) return;
    this.#subjects.delete(identity);
    this.#unlink(subject);
  }

  #subject(identity: Identity): Subject {
    const known = this.#subjects.get(identity);
    if (known !== undefined) return known;
    const subject: Subject = { addresses: new Set(), policies: new Set(), groups: {} };
    this.#subjects.set(identity, subject);
    this.#match(identity, subject);
    return subject;
  }

  #match(identity: Identity, subject: Subject): void {
    const seen = this.#table.selectable(identity);
    for (const entry of seen === undefined ? [] : this.#index.matching(seen)) link(entry, subject);
    this.#dirtySubjects.add(subject);
    for (const address of subject.addresses) this.#dirtyAddresses.add(address);
  }

  #unlink(subject: Subject): void {
    for (const entry of subject.policies) entry.subjects.delete(subject);
    subject.policies.clear();
    this.#dirtySubjects.add(subject);
  }

  /** One pass over the local identities for all new policies. */
  #link(): void {
    const pending = new SelectorIndex<PolicyEntry>();
    const added = [...this.#new].filter((it) => it.policy.subject.of === "pods");
    for (const entry of added) pending.add(entry);
    for (const [identity, subject] of added.length === 0 ? [] : this.#subjects) {
      const seen = this.#table.selectable(identity);
      for (const entry of seen === undefined ? [] : pending.matching(seen)) {
        link(entry, subject);
        this.#dirtySubjects.add(subject);
      }
    }
    for (const entry of added) this.#index.add(entry);
    if (this.#new.size > added.length) this.#matchHost();
    this.#new.clear();
  }

  #matchHost(): void {
    this.#unlink(this.#host);
    const node = this.#nodes.own;
    for (const entry of node === undefined ? [] : this.#policies.values())
      if (
        entry.policy.subject.of === "nodes" &&
        node !== undefined &&
        selects(entry.selector, nodeReader(node))
      )
        link(entry, this.#host);
  }

  /** Finds the groups of a subject. */
  #assign(subject: Subject): void {
    const before = subject.groups;
    const after: { ingress?: string; egress?: string } = {};
    const isGone = subject !== this.#host && subject.addresses.size === 0;
    for (const way of isGone ? [] : WAYS) {
      const policies = ordered(
        [...subject.policies].map((it) => it.policy),
        way,
      );
      const key = groupKey(way, policies);
      if (key !== undefined) after[way] = this.#acquire(key, way, policies);
    }
    for (const way of WAYS) this.#releaseGroup(before[way]);
    subject.groups = after;
    if (before.ingress !== after.ingress || before.egress !== after.egress)
      for (const address of subject.addresses) this.#dirtyAddresses.add(address);
  }

  #acquire(key: string, way: Way, policies: readonly CompiledPolicy[]): string {
    const known = this.#groups.get(key);
    if (known !== undefined) {
      known.refs++;
      return key;
    }
    const names = policies.map((it) => it.key);
    const namespace = policies.find((it) => it.id.namespace !== undefined)?.id.namespace;
    const group: LiveGroup = {
      key,
      way,
      policies: names,
      refs: 1,
      isReported: false,
      needs: [],
      namespace,
      rules: 0,
    };
    this.#groups.set(key, group);
    this.#dirtyGroups.add(group);
    for (const name of names) {
      const others = this.#groupsOf.get(name);
      if (others === undefined) this.#groupsOf.set(name, new Set([group]));
      else others.add(group);
    }
    return key;
  }

  #releaseGroup(key: string | undefined): void {
    const group = key === undefined ? undefined : this.#groups.get(key);
    if (group !== undefined) group.refs--;
  }

  /** Nothing, if it was closed and still is. */
  #build(live: LiveGroup): readonly Group[] {
    const entries = live.policies.flatMap((it) => this.#policies.get(it) ?? []);
    const policies = entries.map((it) => it.policy);
    const rules = entries.reduce((all, it) => all + it.rules[live.way], 0);
    const hasRoom = this.#spend(live, rules);
    if (!hasRoom && this.#closed.has(live)) return [];
    if (hasRoom) this.#closed.delete(live);
    else this.#closed.add(live);
    const group = (hasRoom ? groupOf : closedGroup)(live.key, live.way, policies);
    const previous = live.needs;
    live.needs = needsOf(group);
    for (const need of live.needs) this.#sets.acquire(need);
    for (const need of previous) this.#sets.release(need.key);
    live.isReported = true;
    return [group];
  }

  /** Whether the namespace has room for a group of so many rules, which it takes then. */
  #spend(live: LiveGroup, rules: number): boolean {
    const { namespace } = live;
    const others = (this.#spent.get(namespace) ?? 0) - live.rules;
    const hasRoom = namespace === undefined || others + rules <= this.#maxRules;
    live.rules = hasRoom ? rules : 0;
    if (others + live.rules === 0) this.#spent.delete(namespace);
    else this.#spent.set(namespace, others + live.rules);
    return hasRoom;
  }

  #dropUnused(): readonly string[] {
    const gone: string[] = [];
    for (const group of this.#groups.values()) {
      if (group.refs > 0) continue;
      this.#groups.delete(group.key);
      this.#closed.delete(group);
      this.#spend(group, 0);
      for (const need of group.needs) this.#sets.release(need.key);
      for (const name of group.policies) {
        const others = this.#groupsOf.get(name);
        others?.delete(group);
        if (others?.size === 0) this.#groupsOf.delete(name);
      }
      if (group.isReported) gone.push(group.key);
    }
    return gone;
  }

  #report(address: IpAddress): Changes["addresses"] {
    const before = this.#reported.get(address);
    const groups = this.#groupsAt(address);
    if (isDeepStrictEqual(before, groups)) return [];
    if (groups === undefined) this.#reported.delete(address);
    else this.#reported.set(address, groups);
    return [{ address, groups }];
  }

  #groupsAt(address: IpAddress): GroupKeys | undefined {
    const owner = this.#table.owner(address);
    if (owner?.isLocal !== true || this.#table.selectable(owner.identity) === undefined) return undefined;
    return this.#subjects.get(owner.identity)?.groups;
  }
}

function link(entry: PolicyEntry, subject: Subject): void {
  entry.subjects.add(subject);
  subject.policies.add(entry);
}
