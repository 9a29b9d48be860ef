import { cloneJson } from "@fairlead/base/json.ts";
import type { OwnerReference } from "@fairlead/kube/api/meta/types.ts";
import { splitApiVersion } from "#schema/definitions.ts";
import type { Entry } from "#storage/entry.ts";
import type { StoreChange, Transaction } from "#storage/store.ts";
import type { Catalog } from "./catalog.ts";
import { ownersOf, OwnerIndex, type Place, placeId } from "./owners.ts";
import type { ApiObject } from "#values/object.ts";

export const FOREGROUND = "foregroundDeletion";
export const ORPHAN = "orphan";

export interface Deleter {
  /** Begins or completes the deletion of one object, as a client's DELETE would. */
  remove(tx: Transaction, place: Place, propagation: "Background" | "Foreground"): void;
  /** Stores a changed object, or deletes it if it was only waiting for this change. */
  store(tx: Transaction, place: Place, object: ApiObject): void;
}

/**
 * Deletes objects without remaining owners, in the transaction that removed the owners (up to the caller's budget).
 * Level-triggered: repeated or needless checks of an object change nothing.
 *
 * Source: pkg/controller/garbagecollector of Kubernetes: a dependent goes when all its owners are gone; an owner that
 * waits in the foreground goes when no dependent with `blockOwnerDeletion` is left.
 */
export class GarbageCollector {
  readonly #catalog: Catalog;
  readonly #deleter: Deleter;
  readonly index = new OwnerIndex();
  readonly #due = new Map<string, Place>();

  constructor(catalog: Catalog, deleter: Deleter) {
    this.#catalog = catalog;
    this.#deleter = deleter;
  }

  get isIdle(): boolean {
    return this.#due.size === 0;
  }

  /** Receives every change of the store. */
  observe(change: StoreChange): void {
    this.index.update(change);
    const { before, after } = change;
    const metadata = after?.object.metadata;
    if (after === undefined && before !== undefined) this.#ownerGone(before);
    this.#scheduleFormerOwners(change);
    const isWaiting =
      metadata?.deletionTimestamp !== undefined &&
      (metadata.finalizers ?? []).some((it) => it === FOREGROUND || it === ORPHAN);
    if (isWaiting || ownersOf(after).length > 0) this.#schedule(change);
  }

  /** An owner that waits in the foreground waits no longer for an object that dropped its reference, or no longer blocks it. */
  #scheduleFormerOwners({ before, after }: StoreChange): void {
    if (before === undefined || after === undefined) return;
    const present = ownersOf(after);
    for (const owner of ownersOf(before)) {
      const same = present.find((it) => it.uid === owner.uid);
      if (same !== undefined && same.blockOwnerDeletion === owner.blockOwnerDeletion) continue;
      const place = this.index.placeOf(owner.uid);
      if (place !== undefined) this.#schedule(place);
    }
  }

  #ownerGone(gone: Entry): void {
    for (const place of this.index.dependentsOf(gone.object.metadata.uid ?? "")) this.#schedule(place);
    for (const owner of ownersOf(gone)) {
      const place = this.index.placeOf(owner.uid);
      if (place !== undefined) this.#schedule(place);
    }
  }

  #schedule({ table, key }: Place): void {
    const place = { table, key };
    this.#due.set(placeId(place), place);
  }

  /** Works on what is due, at most `budget` objects. */
  collect(tx: Transaction, budget: number): void {
    let left = budget;
    for (const [id, place] of this.#due) {
      if (left === 0) return;
      left -= 1;
      this.#due.delete(id);
      this.#visit(tx, place);
    }
  }

  #visit(tx: Transaction, place: Place): void {
    const entry = place.table.get(place.key);
    if (entry === undefined) return;
    const { deletionTimestamp, finalizers = [] } = entry.object.metadata;
    if (deletionTimestamp !== undefined) {
      if (finalizers.includes(ORPHAN)) this.#orphan(tx, place, entry);
      else if (finalizers.includes(FOREGROUND)) this.#deleteDependents(tx, place, entry);
      return;
    }
    this.#checkOwners(tx, place, entry);
  }

  #orphan(tx: Transaction, place: Place, owner: Entry): void {
    const uid = owner.object.metadata.uid ?? "";
    for (const dependent of this.index.dependentsOf(uid)) {
      const entry = dependent.table.get(dependent.key);
      if (entry !== undefined) this.#dropOwners(tx, dependent, entry, (it) => it.uid === uid);
    }
    this.#dropFinalizer(tx, place, ORPHAN);
  }

  #deleteDependents(tx: Transaction, place: Place, owner: Entry): void {
    const uid = owner.object.metadata.uid ?? "";
    for (const dependent of this.index.dependentsOf(uid)) {
      const entry = dependent.table.get(dependent.key);
      if (entry === undefined || entry.object.metadata.deletionTimestamp !== undefined) continue;
      if (ownersOf(entry).some((it) => it.uid !== uid && this.#isSolid(it, entry))) {
        this.#dropOwners(tx, dependent, entry, (it) => it.uid === uid);
        continue;
      }
      const hasOwn = this.index.hasDependents(entry.object.metadata.uid ?? "");
      this.#deleter.remove(tx, dependent, hasOwn ? "Foreground" : "Background");
    }
    const isBlocked = this.index.dependentsOf(uid).some((it) => {
      const owners = ownersOf(it.table.get(it.key));
      return owners.some((reference) => reference.uid === uid && reference.blockOwnerDeletion === true);
    });
    if (!isBlocked) this.#dropFinalizer(tx, place, FOREGROUND);
  }

  #checkOwners(tx: Transaction, place: Place, entry: Entry): void {
    const owners = ownersOf(entry);
    if (owners.length === 0) return;
    const isAbsent = (owner: OwnerReference): boolean => this.#stateOf(owner, entry) === "absent";
    const absent = owners.filter(isAbsent);
    if (absent.length === owners.length) this.#deleter.remove(tx, place, "Background");
    else if (absent.length > 0 && owners.some((it) => this.#isSolid(it, entry))) {
      this.#dropOwners(tx, place, entry, isAbsent);
    }
  }

  /** "unknown": the server does not serve the owner's kind (any more), so that nothing follows from its absence. */
  #stateOf(owner: OwnerReference, dependent: Entry): "present" | "waiting" | "absent" | "unknown" {
    const definition = this.#catalog.ofKind(splitApiVersion(owner.apiVersion).group, owner.kind);
    if (definition === undefined) return "unknown";
    const place = this.index.placeOf(owner.uid);
    const entry = place?.table.get(place.key);
    if (entry === undefined || entry.object.kind !== owner.kind) return "absent";
    const { namespace, deletionTimestamp, finalizers = [] } = entry.object.metadata;
    if (namespace !== undefined && namespace !== dependent.object.metadata.namespace) return "absent";
    return deletionTimestamp !== undefined && finalizers.includes(FOREGROUND) ? "waiting" : "present";
  }

  #isSolid(owner: OwnerReference, dependent: Entry): boolean {
    const state = this.#stateOf(owner, dependent);
    return state === "present" || state === "unknown";
  }

  #dropOwners(tx: Transaction, place: Place, entry: Entry, isDropped: (it: OwnerReference) => boolean): void {
    const object = cloneJson(entry.object);
    const kept = (object.metadata.ownerReferences ?? []).filter((it) => !isDropped(it));
    if (kept.length === 0) delete object.metadata.ownerReferences;
    else object.metadata.ownerReferences = kept;
    this.#deleter.store(tx, place, object);
  }

  #dropFinalizer(tx: Transaction, place: Place, finalizer: string): void {
    const entry = place.table.get(place.key);
    if (entry === undefined) return;
    const object = cloneJson(entry.object);
    const kept = (object.metadata.finalizers ?? []).filter((it) => it !== finalizer);
    if (kept.length === 0) delete object.metadata.finalizers;
    else object.metadata.finalizers = kept;
    this.#deleter.store(tx, place, object);
  }
}
