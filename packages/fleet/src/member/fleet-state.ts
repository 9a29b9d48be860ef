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
interface WatchedNamespace {
  readonly namespace: string;
  /** Which part of it; undefined: all, as of the mailbox. */
  readonly selection: Selection | undefined;
  readonly parts: readonly Part[];
  isAdded: boolean;
}

/** What is to replace another: the same namespace, but another part of it. */
interface Successor {
  readonly watched: WatchedNamespace;
  /** Watch for changes in both. */
  readonly subscriptions: DisposableStack;
  /** By part: the last version of the objects that were deleted in the other since then. */
  readonly gone: number[];
}

/** How often one that is to replace another is looked at, at least. Unit: milliseconds. */
const CATCH_UP_MS = 1000;

interface Part {
  readonly informer: Informer<KubeObject>;
  /** The namespace of the service that an object is about. */
  readonly concerns: (it: KubeObject) => string;
  readonly add: () => void;
  readonly remove: () => void;
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
 * Reading starts and ends as that object says, without losing an object on the way: a namespace is added when all of it is
 * known, and removed when the others have its objects. Legacy hubs have neither the view nor Fairlead's kinds: they are
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
  readonly #watched = new Map<string, WatchedNamespace>();
  #successor: Successor | undefined;
  /** The namespace that has been read in all that concerns this cluster, if not at this moment. */
  #readsAllOf: string | undefined;
  readonly #controller: Controller;
  readonly #settled = Promise.withResolvers<void>();
  #running = AbortSignal.abort();
  /** Called when a namespace was added or removed. */
  onChange: () => void = () => {};

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
    return this.#watched.get(mailboxOf(this.#parts.cluster))?.isAdded === true;
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
    this.sliceImports.add(mailboxOf(cluster), mailbox.sliceImports);
    await this.#controller.start(signal);
    this.#controller.enqueue(this.#key);
    await abortable(this.#settled.promise, signal);
  }

  async #follow(signal: AbortSignal): Promise<ReconcileResult | void> {
    const internalMember = this.#parts.mailbox.internalMembers.store.get(this.#key);
    // An absent InternalMemberCluster ends nothing.
    const wanted =
      internalMember === undefined
        ? [...this.#watched.keys()]
        : namespacesOf(internalMember, this.#parts.cluster);
    for (const namespace of wanted) if (!this.#watched.has(namespace)) this.#begin(namespace);
    for (const namespace of wanted) if (!this.#add(namespace)) return;
    for (const watched of this.#watched.values())
      if (!wanted.includes(watched.namespace)) await this.#end(watched, signal);
    const view = [...this.#watched.values()].find((it) => it.selection !== undefined);
    if (view !== undefined) await this.#followNamespaces(view);
    this.#settled.resolve();
    // A list of the successor without new objects causes no event.
    if (this.#successor !== undefined) return { requeueAfterMs: CATCH_UP_MS };
  }

  /** One successor at a time: however fast namespaces come, they are taken together. */
  async #followNamespaces(view: WatchedNamespace): Promise<void> {
    if (this.#successor !== undefined && isCaughtUp(view, this.#successor)) {
      const { watched, subscriptions } = this.#successor;
      subscriptions.dispose();
      this.#successor = undefined;
      for (const it of watched.parts) it.add();
      for (const it of view.parts) it.remove();
      watched.isAdded = true;
      this.#watched.set(watched.namespace, watched);
      await dispose(view);
      this.#onAdded(watched);
      // The InternalMemberCluster may have changed since then.
      this.#controller.enqueue(this.#key);
    } else if (this.#successor === undefined && isStale(view.selection ?? ALL, this.#namespaces())) {
      const watched = this.#create(view.namespace);
      const subscriptions = new DisposableStack();
      for (const { informer } of watched.parts)
        subscriptions.use(informer.subscribe(() => this.#controller.enqueue(this.#key)));
      const gone = view.parts.map(() => 0);
      for (const [at, { informer, concerns }] of view.parts.entries())
        subscriptions.use(
          informer.subscribe(({ before, after }) => {
            if (
              before !== undefined &&
              after === undefined &&
              isSelected(watched.selection ?? ALL, concerns(before))
            )
              gone[at] = Math.max(gone[at] ?? 0, Number(before.metadata.resourceVersion));
            this.#controller.enqueue(this.#key);
          }),
        );
      this.#successor = { watched, subscriptions, gone };
      this.#read(watched);
    }
  }

  /** Undefined where they may not be read: no cluster is without any. */
  #namespaces(): ReadonlySet<string> | undefined {
    const all = [...this.#parts.namespaces.store.list()].map((it) => it.metadata.name);
    return all.length === 0 ? undefined : new Set(all);
  }

  #begin(namespace: string): void {
    const watched = this.#create(namespace);
    this.#watched.set(namespace, watched);
    this.#read(watched);
  }

  #read({ parts }: WatchedNamespace): void {
    for (const { informer } of parts) informer.start(this.#running);
    void Promise.all(parts.map((it) => it.informer.synced(this.#running))).then(
      () => this.#controller.enqueue(this.#key),
      () => {},
    );
  }

  #create(namespace: string): WatchedNamespace {
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
    return { namespace, selection, parts: [services, other], isAdded: false };
  }

  /** @returns Whether the namespace is read. */
  #add(namespace: string): boolean {
    const watched = this.#watched.get(namespace);
    if (watched === undefined || !isSynced(watched)) return false;
    if (!watched.isAdded) {
      for (const it of watched.parts) it.add();
      watched.isAdded = true;
      this.#parts.deps.log.info("watching a fleet namespace on the hub", { namespace });
      this.#onAdded(watched);
    }
    return true;
  }

  /**
   * Once all is read this is reported to the hub, and not reverted while the view is read: objects for a namespace that
   * comes later were not in the mailbox.
   */
  #onAdded({ namespace, selection }: WatchedNamespace): void {
    if (selection !== undefined && covers(selection, this.#namespaces())) this.#readsAllOf = namespace;
    this.onChange();
  }

  async #end(watched: WatchedNamespace, signal: AbortSignal): Promise<void> {
    if (watched.isAdded) {
      await this.#seeMailbox(signal);
      for (const it of watched.parts) it.remove();
    }
    this.#watched.delete(watched.namespace);
    if (this.#readsAllOf === watched.namespace) this.#readsAllOf = undefined;
    if (this.#successor?.watched.namespace === watched.namespace) await this.#endSuccessor();
    await dispose(watched);
    this.#parts.deps.log.info("no longer watching a fleet namespace on the hub", {
      namespace: watched.namespace,
    });
    this.onChange();
  }

  async #endSuccessor(): Promise<void> {
    const successor = this.#successor;
    this.#successor = undefined;
    if (successor === undefined) return;
    successor.subscriptions.dispose();
    await dispose(successor.watched);
  }

  /** The hub fills the mailbox before it changes the InternalMemberCluster, but the watches may report this in another order. */
  async #seeMailbox(signal: AbortSignal): Promise<void> {
    const { hub, cluster } = this.#parts;
    const namespace = mailboxOf(cluster);
    const added = (this.#watched.get(namespace)?.parts ?? []).map((it) => it.informer);
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
    for (const watched of this.#watched.values()) await dispose(watched);
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
    add: () => layers.add(namespace, informer),
    remove: () => layers.remove(informer),
  };
}

function scopeOf(namespace: string, labelSelector: string | undefined): Scope {
  return labelSelector === undefined ? { namespace } : { namespace, labelSelector };
}

function isSynced({ parts }: WatchedNamespace): boolean {
  return parts.every((it) => it.informer.hasSynced);
}

async function dispose({ parts }: WatchedNamespace): Promise<void> {
  await Promise.all(parts.map((it) => it.informer[Symbol.asyncDispose]()));
}

/**
 * Returns true if a second reader of a namespace may replace the first: of the objects that both should have, it lacks
 * none, has none that is already deleted, and has each in the same version or a later one. Both receive every change, but
 * one may receive it later: it must not still be going to see objects that were created and deleted since then.
 */
function isCaughtUp(before: WatchedNamespace, { watched: after, gone }: Successor): boolean {
  if (!isSynced(after)) return false;
  const isIn = (it: KubeObject, part: Part, { selection = ALL }: WatchedNamespace): boolean =>
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
function namespacesOf(internalMember: InternalMemberCluster, cluster: string): string[] {
  if (isLegacy(internalMember)) return [];
  return [mailboxOf(cluster), ...(internalMember.spec.view === undefined ? [] : [internalMember.spec.view])];
}
