import { cloneJson, sameJson } from "@fairlead/base/json.ts";
import type { WebhookClient } from "#admission/webhook/client.ts";
import { type Catalog, tableId } from "#registry/catalog.ts";
import type { Deleter } from "#registry/garbage.ts";
import type { FollowUp } from "#registry/registry.ts";
import type { ResourceDefinition } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import type { Entry } from "#storage/entry.ts";
import type { Store, StoreChange, Transaction } from "#storage/store.ts";
import type { Table } from "#storage/table.ts";
import { relabelling, WebhookConverter } from "./conversion.ts";
import { definitionsOf } from "./definition.ts";
import { planCrdStatus } from "./status.ts";
import { CLEANUP_FINALIZER, type Crd, CRD_TABLE, isEstablished } from "./types.ts";

export interface CrdServices {
  readonly store: Store;
  readonly catalog: Catalog;
  readonly deleter: Deleter;
  /** By which webhooks that convert are called. */
  readonly webhooks: WebhookClient;
  /** Ends the watches of a table whose resource is served no more, or otherwise than before. */
  readonly endWatches: (table: Table) => void;
}

/**
 * Keeps what is served in step with the CRDs that are stored, and clears out the instances of those that go.
 * Level-triggered, like every follow-up.
 */
export class CrdLifecycle implements FollowUp {
  readonly #services: CrdServices;
  /** CRD's name → what it has in the catalog. */
  readonly #served = new Map<string, readonly ResourceDefinition[]>();
  readonly #due = new Set<string>();
  readonly #terminating = new Map<string, string>();
  readonly #toEnd = new Set<Table>();

  /** To be made after the watch hub, so that watchers are served before they are ended. */
  constructor(services: CrdServices) {
    this.#services = services;
    services.store.onCommit(() => {
      for (const table of this.#toEnd) services.endWatches(table);
      this.#toEnd.clear();
    });
  }

  get isIdle(): boolean {
    return this.#due.size === 0;
  }

  observe({ table, key, before, after }: StoreChange): void {
    if (table.id !== CRD_TABLE) {
      // The last instance may have gone.
      const crd = after === undefined ? this.#terminating.get(table.id) : undefined;
      if (crd !== undefined) this.#due.add(crd);
      return;
    }
    this.#serve(key, before, after);
    if (after === undefined) this.#recheckOthers();
    else if (after.object.metadata.deletionTimestamp !== undefined) this.#due.add(key);
  }

  #serve(name: string, previous: Entry | undefined, entry: Entry | undefined): void {
    const { catalog, store } = this.#services;
    const former = this.#served.get(name) ?? [];
    const isServed = entry !== undefined && isEstablished(entry.object);
    const after = isServed ? this.#definitionsOf(entry.object as Crd) : [];
    for (const it of former) catalog.remove(it);
    for (const it of after) catalog.add(it);
    if (after.length > 0) this.#served.set(name, after);
    else this.#served.delete(name);
    const ended = isServedAlike(previous, entry)
      ? former.find((it) => !after.some((now) => now.version === it.version))
      : former[0];
    // After the commit: the watchers receive the deletions first.
    if (ended !== undefined) this.#toEnd.add(store.table(tableId(ended)));
    for (const it of after) {
      if (entry?.object.metadata.deletionTimestamp === undefined) this.#terminating.delete(tableId(it));
      else this.#terminating.set(tableId(it), name);
    }
  }

  #definitionsOf(crd: Crd): readonly ResourceDefinition[] {
    const isWebhook = crd.spec.conversion?.strategy === "Webhook";
    return definitionsOf(crd, isWebhook ? new WebhookConverter(this.#services.webhooks, crd) : relabelling);
  }

  /** Names that the CRD held are free: another one may have waited for them. */
  #recheckOthers(): void {
    for (const { key, object } of this.#services.store.table(CRD_TABLE).entries()) {
      const { conditions = [] } = (object as Crd).status ?? {};
      if (conditions.some((it) => it.type === "NamesAccepted" && it.status === "False")) this.#due.add(key);
    }
  }

  collect(tx: Transaction, budget: number): void {
    let left = budget;
    for (const name of this.#due) {
      if (left === 0) return;
      this.#due.delete(name);
      const entry = this.#services.store.table(CRD_TABLE).get(name);
      if (entry === undefined) continue;
      if (entry.object.metadata.deletionTimestamp !== undefined)
        left = this.#deleteInstances(tx, entry, left);
      if (left === 0) this.#due.add(name);
      else this.#settle(tx, name);
    }
  }

  #deleteInstances(tx: Transaction, crd: Entry, budget: number): number {
    const { store, deleter } = this.#services;
    const [definition] = this.#served.get(crd.key) ?? [];
    if (definition === undefined) return budget;
    const table = store.table(tableId(definition));
    let left = budget;
    const instances = Array.from(table.entries());
    for (const { key, object } of instances) {
      if (left === 0) return 0;
      if (object.metadata.deletionTimestamp !== undefined) continue;
      deleter.remove(tx, { table, key }, "Background");
      left -= 1;
    }
    return left;
  }

  /** Updates the status; removes the finalizer once no instance remains. */
  #settle(tx: Transaction, name: string): void {
    const { store, deleter } = this.#services;
    const table = store.table(CRD_TABLE);
    const entry = table.get(name);
    if (entry === undefined) return;
    const object = cloneJson(entry.object) as Crd;
    const others = [...table.entries()].map((it) => it.object as Crd);
    object.status = planCrdStatus(object, others, tx.nowMs);
    const [definition] = this.#served.get(name) ?? [];
    const isEmpty = definition === undefined || store.table(tableId(definition)).size === 0;
    if (object.metadata.deletionTimestamp !== undefined && isEmpty) dropFinalizer(object);
    if (!sameJson(object, entry.object)) deleter.store(tx, { table, key: name }, object);
  }
}

/**
 * Whether watches that began under one definition show the same under the other: they prune, default and convert as it
 * said when they began. Source: apiextensions-apiserver, pkg/apiserver/customresource_handler.go (updateCustomResourceDefinition).
 */
function isServedAlike(before: Entry | undefined, after: Entry | undefined): boolean {
  if (before === undefined || after === undefined) return true;
  const [old, now] = [before.object as Crd, after.object as Crd];
  return sameJson(old.spec, now.spec) && sameJson(old.status?.acceptedNames, now.status?.acceptedNames);
}

function dropFinalizer(object: ApiObject): void {
  const kept = (object.metadata.finalizers ?? []).filter((it) => it !== CLEANUP_FINALIZER);
  if (kept.length === 0) delete object.metadata.finalizers;
  else object.metadata.finalizers = kept;
}
