import type { TableDraft } from "@fairlead/os/nft/draft.ts";
import { NUMBERS_SPEC } from "./names.ts";

type Sets = ReadonlyMap<string, readonly string[]>;

/** Sets of ranges of ports, which are in the table while a group refers to them. */
export class NumberSets {
  readonly #table: TableDraft;
  readonly #users = new Map<string, Set<string>>();
  readonly #used = new Map<string, readonly string[]>();

  constructor(table: TableDraft) {
    this.#table = table;
  }

  /** The sets that a group refers to from now on, with their elements. */
  use(group: string, sets: Sets): void {
    const former = this.#used.get(group) ?? [];
    for (const [name, elements] of sets) this.#make(name, elements).add(group);
    for (const name of former) if (!sets.has(name)) this.#release(name, group);
    if (sets.size === 0) this.#used.delete(group);
    else this.#used.set(group, [...sets.keys()]);
  }

  #make(name: string, elements: readonly string[]): Set<string> {
    const known = this.#users.get(name);
    if (known !== undefined) return known;
    const users = new Set<string>();
    this.#users.set(name, users);
    this.#table.addSet(name, NUMBERS_SPEC);
    for (const it of elements) this.#table.setElement(name, it, "");
    return users;
  }

  #release(name: string, group: string): void {
    const users = this.#users.get(name);
    users?.delete(group);
    if (users === undefined || users.size > 0) return;
    this.#users.delete(name);
    this.#table.removeSet(name);
  }
}
