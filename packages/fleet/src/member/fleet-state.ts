import { type InternalMemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  IMPORTED_SERVICES,
  type ImportedService,
  NAMESPACE_REPORTS,
  type NamespaceReport,
} from "#api/fairlead.dev/v1alpha1/types.ts";
import { type ObjectKey, keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Namespace } from "@fairlead/kube/api/core/v1/types.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import {
  ENDPOINT_SLICE_IMPORTS,
  type EndpointSliceImport,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { abortable } from "@fairlead/base/abortable.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { Controller, Informer, KubeClient, ReconcileResult } from "@fairlead/kube/types.ts";
import {
  createImportedServiceInformer,
  createReportInformer,
  createSliceImportInformer,
  type MailboxInformers,
  type Scope,
} from "./informers.ts";
import { Layers } from "./layers.ts";
import { ALL, covers, isSelected, isStale, type Selection, selectionOf, selectorsOf } from "./selection.ts";
import { isLegacy } from "./session.ts";

/** A namespace that is read, or begins to be. */
interface Place {
  readonly namespace: string;
  /** Which part of it; undefined: all, as of the mailbox. */
  readonly selection: Selection | undefined;
  readonly parts: readonly Part[];
  isLaid: boolean;
}

/** A place that is to take another's place: the same namespace, but another part of it. */
interface Successor {
  readonly place: Place;
  /** Watch for changes in both. */
  readonly subscriptions: DisposableStack;
  /** By part: the last version of the objects that were deleted in the other place since then. */
  readonly gone: number[];
}

/** How often a reading that is to take another's place is looked at, at least. Unit: milliseconds. */
const CATCH_UP_MS = 1000;

interface Part {
  readonly informer: Informer<KubeObject>;
  /** The namespace of the service that an object is about. */
  readonly concerns: (it: KubeObject) => string;
  readonly lay: () => void;
  readonly lift: () => void;
}

interface Parts {
  readonly hub: KubeClient;
  readonly cluster: string;
  readonly mailbox: MailboxInformers;
  /** Of this cluster: what is read of the view is what concerns these. */
  readonly namespaces: Informer<Namespace>;
  readonly deps: RuntimeDeps;
}

/**
 * The hub's objects for this cluster, from the mailbox and, under it, from the view that the InternalMemberCluster names.
 * Reading starts and ends as that object says, without losing an object on the way: a place is laid when all of it is
 * known, and lifted when the others have its objects. Legacy hubs have neither the view nor Fairlead's kinds: they are
 * not watched there.
 *
 * Only the part of the view that concerns this cluster is read. If that part grows, a second reader starts next to the
 * first one, and replaces it once both agree on what they have in common.
 */
export class FleetState implements AsyncDisposable {
  readonly reports = new Layers<NamespaceReport>(NAMESPACE_REPORTS);
  readonly importedServices = new Layers<ImportedService>(IMPORTED_SERVICES);
  readonly sliceImports = new Layers<EndpointSliceImport>(ENDPOINT_SLICE_IMPORTS);
  readonly #parts: Parts;
  readonly #key: ObjectKey;
  readonly #places = new Map<string, Place>();
  #successor: Successor | undefined;
  /** The namespace that has been read in all that concerns this cluster, if not at this moment. */
  #readsAllOf: string | undefined;
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
        sources: [
          watching(parts.mailbox.internalMembers, () => [this.#key]),
          watching(parts.namespaces, ({ before, after }) =>
            before === undefined || after === undefined ? [this.#key] : [],
          ),
        ],
      },
      parts.deps,
    );
  }

  /** True if the hub has Fairlead's kinds, and this cluster can write them there. */
  get isModern(): boolean {
    return this.#places.get(mailboxOf(this.#parts.cluster))?.isLaid === true;
  }

  /** The namespace that is read in addition to the mailbox: its objects are not needed in the mailbox. */
  get view(): string | undefined {
    return this.#readsAllOf;
  }

  /** Resolves when all that the InternalMemberCluster names is read: before that no object counts as absent. */
  async start(signal: AbortSignal): Promise<void> {
    const { cluster, mailbox } = this.#parts;
    this.#running = signal;
    await mailbox.sliceImports.synced(signal);
    this.sliceImports.lay(mailboxOf(cluster), mailbox.sliceImports);
    await this.#controller.start(signal);
    this.#controller.enqueue(this.#key);
    await abortable(this.#settled.promise, signal);
  }

  async #follow(signal: AbortSignal): Promise<ReconcileResult | void> {
    const internalMember = this.#parts.mailbox.internalMembers.store.get(this.#key);
    // An absent InternalMemberCluster ends nothing.
    const wanted =
      internalMember === undefined ? [...this.#places.keys()] : placesOf(internalMember, this.#parts.cluster);
    for (const namespace of wanted) if (!this.#places.has(namespace)) this.#begin(namespace);
    for (const namespace of wanted) if (!this.#lay(namespace)) return;
    for (const place of this.#places.values())
      if (!wanted.includes(place.namespace)) await this.#end(place, signal);
    const view = [...this.#places.values()].find((it) => it.selection !== undefined);
    if (view !== undefined) await this.#followNamespaces(view);
    this.#settled.resolve();
    // A list of the successor without new objects causes no event.
    if (this.#successor !== undefined) return { requeueAfterMs: CATCH_UP_MS };
  }

  /** One successor at a time: however fast namespaces come, they are taken together. */
  async #followNamespaces(view: Place): Promise<void> {
    if (this.#successor !== undefined && isCaughtUp(view, this.#successor)) {
      const { place, subscriptions } = this.#successor;
      subscriptions.dispose();
      this.#successor = undefined;
      for (const it of place.parts) it.lay();
      for (const it of view.parts) it.lift();
      place.isLaid = true;
      this.#places.set(place.namespace, place);
      await dispose(view);
      this.#onLaid(place);
      // The InternalMemberCluster may have changed since then.
      this.#controller.enqueue(this.#key);
    } else if (this.#successor === undefined && isStale(view.selection ?? ALL, this.#namespaces())) {
      const place = this.#createPlace(view.namespace);
      const subscriptions = new DisposableStack();
      for (const { informer } of place.parts)
        subscriptions.use(informer.subscribe(() => this.#controller.enqueue(this.#key)));
      const gone = view.parts.map(() => 0);
      for (const [at, { informer, concerns }] of view.parts.entries())
        subscriptions.use(
          informer.subscribe(({ before, after }) => {
            if (
              before !== undefined &&
              after === undefined &&
              isSelected(place.selection ?? ALL, concerns(before))
            )
              gone[at] = Math.max(gone[at] ?? 0, Number(before.metadata.resourceVersion));
            this.#controller.enqueue(this.#key);
          }),
        );
      this.#successor = { place, subscriptions, gone };
      this.#read(place);
    }
  }

  /** Undefined where they may not be read: no cluster is without any. */
  #namespaces(): ReadonlySet<string> | undefined {
    const all = [...this.#parts.namespaces.store.list()].map((it) => it.metadata.name);
    return all.length === 0 ? undefined : new Set(all);
  }

  #begin(namespace: string): void {
    const place = this.#createPlace(namespace);
    this.#places.set(namespace, place);
    this.#read(place);
  }

  #read({ parts }: Place): void {
    for (const { informer } of parts) informer.start(this.#running);
    void Promise.all(parts.map((it) => it.informer.synced(this.#running))).then(
      () => this.#controller.enqueue(this.#key),
      () => {},
    );
  }

  #createPlace(namespace: string): Place {
    const { hub, cluster, deps } = this.#parts;
    const isMailbox = namespace === mailboxOf(cluster);
    const selection = isMailbox ? undefined : selectionOf(this.#namespaces());
    const selectors = selection === undefined ? undefined : selectorsOf(selection, cluster);
    const services = partOf(
      this.importedServices,
      createImportedServiceInformer(hub, scopeOf(namespace, selectors?.services), deps),
      { namespace, concerns: (it) => it.spec.service.namespace },
    );
    const other = isMailbox
      ? partOf(this.reports, createReportInformer(hub, namespace, deps), { namespace, concerns: () => "" })
      : partOf(
          this.sliceImports,
          createSliceImportInformer(hub, scopeOf(namespace, selectors?.slices), deps),
          { namespace, concerns: (it) => it.spec.ownerServiceReference.namespace },
        );
    return { namespace, selection, parts: [services, other], isLaid: false };
  }

  /** @returns Whether the place is read. */
  #lay(namespace: string): boolean {
    const place = this.#places.get(namespace);
    if (place === undefined || !isSynced(place)) return false;
    if (!place.isLaid) {
      for (const it of place.parts) it.lay();
      place.isLaid = true;
      this.#parts.deps.log.info("watching a fleet namespace on the hub", { namespace });
      this.#onLaid(place);
    }
    return true;
  }

  /**
   * Once all is read this is reported to the hub, and not reverted while the view is read: objects for a namespace that
   * comes later were not in the mailbox.
   */
  #onLaid({ namespace, selection }: Place): void {
    if (selection !== undefined && covers(selection, this.#namespaces())) this.#readsAllOf = namespace;
    this.onMove();
  }

  async #end(place: Place, signal: AbortSignal): Promise<void> {
    if (place.isLaid) {
      await this.#seeMailbox(signal);
      for (const it of place.parts) it.lift();
    }
    this.#places.delete(place.namespace);
    if (this.#readsAllOf === place.namespace) this.#readsAllOf = undefined;
    if (this.#successor?.place.namespace === place.namespace) await this.#endSuccessor();
    await dispose(place);
    this.#parts.deps.log.info("no longer watching a fleet namespace on the hub", {
      namespace: place.namespace,
    });
    this.onMove();
  }

  async #endSuccessor(): Promise<void> {
    const successor = this.#successor;
    this.#successor = undefined;
    if (successor === undefined) return;
    successor.subscriptions.dispose();
    await dispose(successor.place);
  }

  /** The hub fills the mailbox before it changes the InternalMemberCluster, but the watches may report this in another order. */
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
    await this.#endSuccessor();
    for (const place of this.#places.values()) await dispose(place);
  }
}

function partOf<T extends KubeObject>(
  layers: Layers<T>,
  informer: Informer<T>,
  { namespace, concerns }: { readonly namespace: string; readonly concerns: (it: T) => string },
): Part {
  return {
    informer,
    concerns: (it) => concerns(it as T),
    lay: () => layers.lay(namespace, informer),
    lift: () => layers.lift(informer),
  };
}

function scopeOf(namespace: string, labelSelector: string | undefined): Scope {
  return labelSelector === undefined ? { namespace } : { namespace, labelSelector };
}

function isSynced({ parts }: Place): boolean {
  return parts.every((it) => it.informer.hasSynced);
}

async function dispose({ parts }: Place): Promise<void> {
  await Promise.all(parts.map((it) => it.informer[Symbol.asyncDispose]()));
}

/**
 * Returns true if a second reader of a namespace may replace the first: of the objects that both should have, it lacks
 * none, has none that is already deleted, and has each in the same version or a later one. Both receive every change, but
 * one may receive it later: it must not still be going to see objects that were created and deleted since then.
 */
function isCaughtUp(before: Place, { place: after, gone }: Successor): boolean {
  if (!isSynced(after)) return false;
  const isIn = (it: KubeObject, part: Part, { selection = ALL }: Place): boolean =>
    isSelected(selection, part.concerns(it));
  return before.parts.every((part, at) => {
    const next = after.parts[at];
    if (next === undefined || Number(next.informer.version ?? 0) < (gone[at] ?? 0)) return false;
    for (const it of part.informer.store.list())
      if (isIn(it, part, after) && !isAsNew(next.informer.store.get(keyOf(it)), it)) return false;
    for (const it of next.informer.store.list())
      if (isIn(it, part, before) && part.informer.store.get(keyOf(it)) === undefined) return false;
    return true;
  });
}

/** Versions of one kind can be compared (Kubernetes API concepts, "Resource versions"). */
function isAsNew(it: KubeObject | undefined, than: KubeObject): boolean {
  const [version, old] = [it?.metadata.resourceVersion, than.metadata.resourceVersion];
  return version !== undefined && (version === old || Number(version) > Number(old));
}

/** Where a hub says things in our kinds, uppermost first. */
function placesOf(internalMember: InternalMemberCluster, cluster: string): string[] {
  if (isLegacy(internalMember)) return [];
  return [mailboxOf(cluster), ...(internalMember.spec.view === undefined ? [] : [internalMember.spec.view])];
}
