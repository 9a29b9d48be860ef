import { type InternalMemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  IMPORTED_SERVICES,
  type ImportedService,
  NAMESPACE_REPORTS,
  type NamespaceReport,
} from "#api/fairlead.dev/v1alpha1/types.ts";
import { type ObjectKey, keyOf, objectKey } from "#api/meta/key.ts";
import type { KubeObject } from "#api/meta/types.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import {
  ENDPOINT_SLICE_IMPORTS,
  type EndpointSliceImport,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { abortable } from "#base/abortable.ts";
import { FleetError } from "#base/errors.ts";
import { createController } from "#kube/controller.ts";
import type { RuntimeDeps } from "#kube/deps.ts";
import { watching } from "#kube/source.ts";
import type { Controller, Informer, KubeClient } from "#kube/types.ts";
import {
  createImportedServiceInformer,
  createReportInformer,
  createSliceImportInformer,
  type MailboxInformers,
} from "./informers.ts";
import { Layers } from "./layers.ts";
import { isOfOurs } from "./session.ts";

/** A namespace that is read, or begins to be. */
interface Place {
  readonly namespace: string;
  readonly parts: readonly Part[];
  isLaid: boolean;
}

interface Part {
  readonly informer: Informer<KubeObject>;
  readonly lay: () => void;
  readonly lift: () => void;
}

interface Parts {
  readonly hub: KubeClient;
  readonly cluster: string;
  readonly mailbox: MailboxInformers;
  readonly deps: RuntimeDeps;
}

/**
 * What the hub says of the fleet, from the mailbox and, under it, from the view that the orders name. Reading begins and
 * ends as the orders say, and takes nothing away on the way: a place is laid when all of it is known, and lifted when the
 * others have what it had. Hubs of other origin know neither the view nor our kinds, and are not asked for them.
 */
export class FleetState implements AsyncDisposable {
  readonly reports = new Layers<NamespaceReport>(NAMESPACE_REPORTS);
  readonly importedServices = new Layers<ImportedService>(IMPORTED_SERVICES);
  readonly sliceImports = new Layers<EndpointSliceImport>(ENDPOINT_SLICE_IMPORTS);
  readonly #parts: Parts;
  readonly #key: ObjectKey;
  readonly #places = new Map<string, Place>();
  readonly #controller: Controller;
  readonly #settled = Promise.withResolvers<void>();
  #running = AbortSignal.abort();
  /** Called when a place was laid or lifted. */
  onMove: () => void = () => {};

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#key = objectKey(mailboxOf(parts.cluster), parts.cluster);
    this.#controller = createController(
      {
        name: "member-fleet-state",
        reconcile: (_key, signal) => this.#follow(signal),
        concurrency: 1,
        sources: [watching(parts.mailbox.orders)],
      },
      parts.deps,
    );
  }

  /** Whether the hub has our kinds, and what it is told in them reaches it. */
  get isModern(): boolean {
    return this.#places.get(mailboxOf(this.#parts.cluster))?.isLaid === true;
  }

  /** The namespace that is read beside the mailbox. */
  get view(): string | undefined {
    const views = [...this.#places.values()].filter(
      (it) => it.isLaid && it.namespace !== mailboxOf(this.#parts.cluster),
    );
    return views.at(-1)?.namespace;
  }

  /** Resolves when all that the orders name is read: before that nothing may be taken for absent. */
  async start(signal: AbortSignal): Promise<void> {
    const { cluster, mailbox } = this.#parts;
    this.#running = signal;
    await mailbox.sliceImports.synced(signal);
    this.sliceImports.lay(mailboxOf(cluster), mailbox.sliceImports);
    await this.#controller.start(signal);
    this.#controller.enqueue(this.#key);
    await abortable(this.#settled.promise, signal);
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const orders = this.#parts.mailbox.orders.store.get(this.#key);
    // Orders that cannot be seen end nothing.
    const wanted = orders === undefined ? [...this.#places.keys()] : placesOf(orders, this.#parts.cluster);
    for (const namespace of wanted) if (!this.#places.has(namespace)) this.#begin(namespace);
    for (const namespace of wanted) if (!this.#lay(namespace)) return;
    for (const place of this.#places.values())
      if (!wanted.includes(place.namespace)) await this.#end(place, signal);
    this.#settled.resolve();
  }

  #begin(namespace: string): void {
    const place = this.#createPlace(namespace);
    this.#places.set(namespace, place);
    for (const { informer } of place.parts) informer.start(this.#running);
    void Promise.all(place.parts.map((it) => it.informer.synced(this.#running))).then(
      () => this.#controller.enqueue(this.#key),
      () => {},
    );
  }

  #createPlace(namespace: string): Place {
    const { hub, cluster, deps } = this.#parts;
    const services = partOf(
      namespace,
      this.importedServices,
      createImportedServiceInformer(hub, namespace, deps),
    );
    const other =
      namespace === mailboxOf(cluster)
        ? partOf(namespace, this.reports, createReportInformer(hub, namespace, deps))
        : partOf(namespace, this.sliceImports, createSliceImportInformer(hub, namespace, deps));
    return { namespace, parts: [services, other], isLaid: false };
  }

  /** @returns Whether the place is read. */
  #lay(namespace: string): boolean {
    const place = this.#places.get(namespace);
    if (place === undefined || !place.parts.every((it) => it.informer.hasSynced)) return false;
    if (!place.isLaid) {
      for (const it of place.parts) it.lay();
      place.isLaid = true;
      this.#parts.deps.log.info("reading what the hub says of the fleet", { namespace });
      this.onMove();
    }
    return true;
  }

  async #end(place: Place, signal: AbortSignal): Promise<void> {
    if (place.isLaid) {
      await this.#seeMailbox(signal);
      for (const it of place.parts) it.lift();
    }
    this.#places.delete(place.namespace);
    await Promise.all(place.parts.map((it) => it.informer[Symbol.asyncDispose]()));
    this.#parts.deps.log.info("no longer reading a namespace of the hub", { namespace: place.namespace });
    this.onMove();
  }

  /** The hub filled the mailbox before it changed the orders, but one watch may tell of it later than another. */
  async #seeMailbox(signal: AbortSignal): Promise<void> {
    const { hub, cluster } = this.#parts;
    const namespace = mailboxOf(cluster);
    const added = (this.#places.get(namespace)?.parts ?? []).map((it) => it.informer);
    for (const informer of [this.#parts.mailbox.sliceImports as Informer<KubeObject>, ...added]) {
      const { items } = await hub.list(informer.of, { namespace, signal });
      if (items.some((it) => informer.store.get(keyOf(it)) === undefined))
        throw new FleetError("API_CONFLICT", `the watch of ${namespace} is behind`);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#controller[Symbol.asyncDispose]();
    for (const layers of [this.reports, this.importedServices, this.sliceImports])
      await layers[Symbol.asyncDispose]();
    for (const { parts } of this.#places.values())
      await Promise.all(parts.map((it) => it.informer[Symbol.asyncDispose]()));
  }
}

function partOf<T extends KubeObject>(namespace: string, layers: Layers<T>, informer: Informer<T>): Part {
  return {
    informer,
    lay: () => layers.lay(namespace, informer),
    lift: () => layers.lift(namespace),
  };
}

/** Where a hub says things in our kinds, uppermost first. */
function placesOf(orders: InternalMemberCluster, cluster: string): string[] {
  if (!isOfOurs(orders)) return [];
  return [mailboxOf(cluster), ...(orders.spec.view === undefined ? [] : [orders.spec.view])];
}
