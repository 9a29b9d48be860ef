import { cloneJson, sameJson } from "@fairlead/base/json.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import type { Entry } from "#storage/entry.ts";
import type { Store, StoreChange, Transaction } from "#storage/store.ts";
import { type Catalog, tableId } from "./catalog.ts";
import type { Deleter } from "./garbage.ts";
import { timestamp } from "./metadata.ts";

const FINALIZER = "kubernetes";
export const NAMESPACES = "namespaces";

/**
 * Deletes the content of terminating namespaces, and removes the namespaces once they are empty.
 * Source: pkg/controller/namespace/deletion of Kubernetes.
 */
export class NamespaceCleaner {
  readonly #store: Store;
  readonly #catalog: Catalog;
  readonly #deleter: Deleter;
  readonly #due = new Set<string>();

  constructor(store: Store, catalog: Catalog, deleter: Deleter) {
    this.#store = store;
    this.#catalog = catalog;
    this.#deleter = deleter;
  }

  get isIdle(): boolean {
    return this.#due.size === 0;
  }

  /** Receives every change of the store. */
  observe({ table, key, before, after }: StoreChange): void {
    if (table.id === NAMESPACES) {
      if (after?.object.metadata.deletionTimestamp !== undefined) this.#due.add(key);
      return;
    }
    const namespace = (after ?? before)?.object.metadata.namespace;
    if (namespace === undefined) return;
    if (this.#namespace(namespace)?.object.metadata.deletionTimestamp !== undefined) this.#due.add(namespace);
  }

  #namespace(name: string): Entry | undefined {
    return this.#store.table(NAMESPACES).get(name);
  }

  /** Works on namespaces that are due; deletes at most `budget` objects. */
  collect(tx: Transaction, budget: number): void {
    let left = budget;
    for (const name of this.#due) {
      if (left === 0) return;
      const namespace = this.#namespace(name);
      this.#due.delete(name);
      if (namespace?.object.metadata.deletionTimestamp === undefined) continue;
      left = this.#deleteContent(tx, name, left);
      if (left === 0) this.#due.add(name);
      else this.#settle(tx, name);
    }
  }

  #tables(): Iterable<string> {
    return new Set([...this.#catalog.all()].filter((it) => it.namespaced).map(tableId));
  }

  #content(name: string): { table: string; entries: Entry[] }[] {
    return [...this.#tables()]
      .map((table) => ({ table, entries: [...this.#store.table(table).entries(name)] }))
      .filter((it) => it.entries.length > 0);
  }

  #deleteContent(tx: Transaction, name: string, budget: number): number {
    let left = budget;
    for (const { table, entries } of this.#content(name)) {
      for (const { key, object } of entries) {
        if (left === 0) return 0;
        if (object.metadata.deletionTimestamp !== undefined) continue;
        this.#deleter.remove(tx, { table: this.#store.table(table), key }, "Background");
        left -= 1;
      }
    }
    return left;
  }

  #settle(tx: Transaction, name: string): void {
    const place = { table: this.#store.table(NAMESPACES), key: name };
    const entry = place.table.get(name);
    if (entry === undefined) return;
    const object = cloneJson(entry.object);
    const content = this.#content(name);
    if (content.length === 0) {
      const spec = object["spec"] as { finalizers?: string[] } | undefined;
      const finalizers = (spec?.finalizers ?? []).filter((it) => it !== FINALIZER);
      object["spec"] = { ...spec, finalizers };
    }
    const status = object["status"] as { conditions?: Condition[] } | undefined;
    const conditions = planConditions(status?.conditions ?? [], content, tx.nowMs);
    object["status"] = { ...status, phase: "Terminating", conditions };
    if (!sameJson(object, entry.object)) this.#deleter.store(tx, place, object);
  }
}

function planConditions(
  old: readonly Condition[],
  content: readonly { table: string; entries: readonly Entry[] }[],
  nowMs: number,
): Condition[] {
  const remaining = content.map((it) => `${it.table} has ${it.entries.length} resource instances`);
  const finalizers = countFinalizers(content);
  const held = [...finalizers].map(([name, count]) => `${name} in ${count} resource instances`);
  const planned: Omit<Condition, "lastTransitionTime">[] = [
    quiet(
      "NamespaceDeletionDiscoveryFailure",
      "ResourcesDiscovered",
      "All resources successfully discovered",
    ),
    quiet(
      "NamespaceDeletionGroupVersionParsingFailure",
      "ParsedGroupVersions",
      "All legacy kube types successfully parsed",
    ),
    quiet(
      "NamespaceDeletionContentFailure",
      "ContentDeleted",
      "All content successfully deleted, may be waiting on finalization",
    ),
    remaining.length === 0
      ? quiet("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed")
      : alarm(
          "NamespaceContentRemaining",
          "SomeResourcesRemain",
          `Some resources are remaining: ${remaining.join(", ")}`,
        ),
    held.length === 0
      ? quiet(
          "NamespaceFinalizersRemaining",
          "ContentHasNoFinalizers",
          "All content-preserving finalizers finished",
        )
      : alarm(
          "NamespaceFinalizersRemaining",
          "SomeFinalizersRemain",
          `Some content in the namespace has finalizers remaining: ${held.join(", ")}`,
        ),
  ];
  return planned.map((it) => {
    const before = old.find((condition) => condition.type === it.type);
    const lastTransitionTime = before?.status === it.status ? before.lastTransitionTime : timestamp(nowMs);
    return { ...it, lastTransitionTime };
  });
}

function countFinalizers(content: readonly { entries: readonly Entry[] }[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { entries } of content) {
    for (const { object } of entries) {
      for (const it of object.metadata.finalizers ?? []) counts.set(it, (counts.get(it) ?? 0) + 1);
    }
  }
  return counts;
}

function quiet(type: string, reason: string, message: string): Omit<Condition, "lastTransitionTime"> {
  return { type, status: "False", reason, message };
}

function alarm(type: string, reason: string, message: string): Omit<Condition, "lastTransitionTime"> {
  return { type, status: "True", reason, message };
}

/** Namespaces that no one can delete (admission plugin NamespaceLifecycle). */
export const IMMORTAL_NAMESPACES: ReadonlySet<string> = new Set(["default", "kube-public", "kube-system"]);
