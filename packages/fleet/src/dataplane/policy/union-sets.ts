import type { SetKey } from "#policy/peers.ts";
import type { TableDraft } from "@fairlead/os/nft/draft.ts";
import { FAMILIES, type Family, peerSet, peerSetSpec } from "./names.ts";

interface Union {
  readonly members: readonly SetKey[];
  /** Groups that refer to it. */
  readonly users: Set<string>;
  /** In how many of its members an element is, by kernel set. */
  readonly counts: ReadonlyMap<Family, Map<string, number>>;
}

/**
 * Sets that have the addresses of several others, so that a rule for many peers costs a packet one lookup. A change of a member changes
 * the unions that it is in.
 */
export class UnionSets {
  readonly #table: TableDraft;
  readonly #unions = new Map<SetKey, Union>();
  readonly #of = new Map<SetKey, Set<SetKey>>();
  readonly #used = new Map<string, readonly SetKey[]>();

  constructor(table: TableDraft) {
    this.#table = table;
  }

  /** The unions that a group refers to from now on, with their members, which are in the table. */
  use(group: string, unions: ReadonlyMap<SetKey, readonly SetKey[]>): void {
    const former = this.#used.get(group) ?? [];
    for (const [key, members] of unions) this.#make(key, members).users.add(group);
    for (const key of former) if (!unions.has(key)) this.#release(key, group);
    if (unions.size === 0) this.#used.delete(group);
    else this.#used.set(group, [...unions.keys()]);
  }

  /** An element of the kernel's set of a member is there now, or not any more. */
  changed(member: SetKey, family: Family, element: string, isThere: boolean): void {
    for (const key of this.#of.get(member) ?? []) {
      const counts = this.#unions.get(key)?.counts.get(family);
      if (counts !== undefined) this.#count(peerSet(key, family), counts, element, isThere ? 1 : -1);
    }
  }

  #make(key: SetKey, members: readonly SetKey[]): Union {
    const known = this.#unions.get(key);
    if (known !== undefined) return known;
    const made = {
      members,
      users: new Set<string>(),
      counts: new Map(FAMILIES.map((it) => [it, new Map<string, number>()])),
    };
    this.#unions.set(key, made);
    for (const it of members) this.#of.set(it, (this.#of.get(it) ?? new Set()).add(key));
    for (const [family, counts] of made.counts) {
      const name = peerSet(key, family);
      this.#table.addSet(name, peerSetSpec(key, family));
      for (const member of members)
        for (const it of this.#table.whole.sets.get(peerSet(member, family))?.elements.keys() ?? [])
          this.#count(name, counts, it, 1);
    }
    return made;
  }

  #count(name: string, counts: Map<string, number>, element: string, more: 1 | -1): void {
    const count = (counts.get(element) ?? 0) + more;
    if (count > 0) counts.set(element, count);
    else counts.delete(element);
    this.#table.setElement(name, element, count > 0 ? "" : undefined);
  }

  #release(key: SetKey, group: string): void {
    const union = this.#unions.get(key);
    union?.users.delete(group);
    if (union === undefined || union.users.size > 0) return;
    this.#unions.delete(key);
    for (const it of union.members) {
      const unions = this.#of.get(it);
      unions?.delete(key);
      if (unions?.size === 0) this.#of.delete(it);
    }
    for (const family of FAMILIES) this.#table.removeSet(peerSet(key, family));
  }
}
