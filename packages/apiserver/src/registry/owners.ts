import type { OwnerReference } from "@fairlead/kube/api/meta/types.ts";
import type { Entry } from "#storage/entry.ts";
import type { StoreChange } from "#storage/store.ts";
import type { Table } from "#storage/table.ts";

/** An object, by where it is stored. */
export interface Place {
  readonly table: Table;
  readonly key: string;
}

/** Dependents by the uid of their owner, kept in step with the store. */
export class OwnerIndex {
  readonly #places = new Map<string, Place>();
  /** uid of the owner → places of the objects that name it. */
  readonly #dependents = new Map<string, Map<string, Place>>();

  update({ table, key, before, after }: StoreChange): void {
    const place = { table, key };
    this.#move(before?.object.metadata.uid, after?.object.metadata.uid, place);
    for (const owner of ownersOf(before)) this.#unlink(owner.uid, place);
    for (const owner of ownersOf(after)) this.#link(owner.uid, place);
  }

  #move(from: string | undefined, to: string | undefined, place: Place): void {
    if (from === to) return;
    if (from !== undefined) this.#places.delete(from);
    if (to !== undefined) this.#places.set(to, place);
  }

  #link(uid: string, place: Place): void {
    const members = this.#dependents.get(uid) ?? new Map<string, Place>();
    this.#dependents.set(uid, members);
    members.set(placeId(place), place);
  }

  #unlink(uid: string, place: Place): void {
    const members = this.#dependents.get(uid);
    members?.delete(placeId(place));
    if (members?.size === 0) this.#dependents.delete(uid);
  }

  placeOf(uid: string): Place | undefined {
    return this.#places.get(uid);
  }

  dependentsOf(uid: string): readonly Place[] {
    return [...(this.#dependents.get(uid)?.values() ?? [])];
  }

  hasDependents(uid: string): boolean {
    return this.#dependents.has(uid);
  }
}

export function ownersOf(entry: Entry | undefined): readonly OwnerReference[] {
  return entry?.object.metadata.ownerReferences ?? [];
}

export function placeId({ table, key }: Place): string {
  return `${table.id}\n${key}`;
}
