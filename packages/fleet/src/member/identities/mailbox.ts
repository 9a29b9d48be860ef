import { MEMBER_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import {
  IDENTITY_DEMANDS,
  IDENTITY_SLICES,
  type IdentityDemand,
  type IdentitySlice,
} from "#api/fairlead.dev/v1alpha1/identities.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { OwnWrites } from "@fairlead/kube/informer/own-writes.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import type { Change, Informer, KubeClient } from "@fairlead/kube/types.ts";
import { groupOfSlice, type Home } from "./groups.ts";

interface Reading {
  readonly slices: Informer<IdentitySlice>;
  /** A pass that comes before the watch has brought the last write would write it again, with a later time. */
  readonly writes: OwnWrites<IdentitySlice>;
  readonly demands: Informer<IdentityDemand>;
  readonly stop: AbortController;
}

interface Listener {
  readonly onSlice: (change: Change<IdentitySlice>) => void;
  readonly onDemand: () => void;
  readonly onSynced: () => void;
}

/** What this cluster has published in its mailbox, which is read while it is a member. */
export class IdentityMailbox implements AsyncDisposable {
  readonly #parts: { readonly hub: KubeClient; readonly cluster: string; readonly deps: RuntimeDeps };
  readonly #listener: Listener;
  /** Each pod of a slice asks for it. */
  readonly #groupOf = new WeakMap<IdentitySlice, ObjectKey>();
  #reading: Reading | undefined;

  constructor(
    parts: { readonly hub: KubeClient; readonly cluster: string; readonly deps: RuntimeDeps },
    listener: Listener,
  ) {
    this.#parts = parts;
    this.#listener = listener;
  }

  async follow(isMember: boolean): Promise<void> {
    if (isMember === (this.#reading !== undefined)) return;
    if (!isMember) return this[Symbol.asyncDispose]();
    const { hub, cluster, deps } = this.#parts;
    const options = {
      namespace: mailboxOf(cluster),
      fieldManager: MEMBER_MANAGER,
      // An older hub does not have these kinds.
      isOptional: () => true,
    };
    const indexes = { group: (it: IdentitySlice) => [publishedKey(it)], pod: podsIn };
    const slices = createInformer(hub, IDENTITY_SLICES, { ...options, indexes }, deps);
    const demands = createInformer(hub, IDENTITY_DEMANDS, options, deps);
    const stop = new AbortController();
    const { clock } = deps;
    const writes = new OwnWrites({
      informer: slices,
      index: "group",
      valueOf: publishedKey,
      isCreator: true,
      clock,
    });
    this.#reading = { slices, writes, demands, stop };
    slices.subscribe(this.#listener.onSlice);
    demands.subscribe(this.#listener.onDemand);
    for (const it of [slices, demands]) it.start(stop.signal);
    void Promise.all([slices, demands].map((it) => it.synced(stop.signal))).then(
      this.#listener.onSynced,
      () => {},
    );
  }

  get isKnown(): boolean {
    return this.#reading?.slices.hasSynced === true && this.#reading.demands.hasSynced;
  }

  get demand(): IdentityDemand | undefined {
    const { cluster } = this.#parts;
    return this.#reading?.demands.store.get(objectKey(mailboxOf(cluster), cluster));
  }

  find(name: string): IdentitySlice | undefined {
    const slice = this.#reading?.writes.get(objectKey(mailboxOf(this.#parts.cluster), name));
    return slice === undefined || isDeleting(slice) ? undefined : slice;
  }

  slices(): IdentitySlice[] {
    return [...(this.#reading?.slices.store.list() ?? [])];
  }

  /** What is published of a group of pods, a namespace, or nodes. */
  in(key: ObjectKey): IdentitySlice[] {
    return [...(this.#reading?.writes.list(key) ?? [])].filter((it) => !isDeleting(it));
  }

  noteWritten(slice: IdentitySlice): void {
    this.#reading?.writes.note(slice);
  }

  noteDeleted(slice: IdentitySlice): void {
    this.#reading?.writes.noteDeleted(slice);
  }

  /** The slices in which a pod is published. */
  holding({ namespace, name }: { readonly namespace?: string; readonly name: string }): Home[] {
    const slices = this.#reading?.slices.store.byIndex("pod", objectKey(namespace, name)) ?? [];
    return Array.from(slices, (it) => ({ group: this.#group(it), spec: it.spec }));
  }

  #group(slice: IdentitySlice): ObjectKey {
    const known = this.#groupOf.get(slice) ?? groupOfSlice(slice.spec);
    this.#groupOf.set(slice, known);
    return known;
  }

  /** Other slices with pods of this one. */
  sharing(slice: IdentitySlice): IdentitySlice[] {
    const { store } = this.#reading?.slices ?? {};
    const all = podsIn(slice).flatMap((it) => [...(store?.byIndex("pod", it) ?? [])]);
    return all.filter((it) => it.metadata.name !== slice.metadata.name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const before = this.#reading;
    this.#reading = undefined;
    before?.stop.abort();
    before?.writes[Symbol.dispose]();
    for (const it of [before?.slices, before?.demands]) await it?.[Symbol.asyncDispose]();
  }
}

function podsIn({ spec: { namespace, pods = [] } }: IdentitySlice): ObjectKey[] {
  return pods.map((it) => objectKey(namespace, it.name));
}

/** Of keys: "pods/<group>", "namespace/<name>", "nodes" and "addresses". */
export const ADDRESSES_KEY = objectKey(undefined, "addresses");
export const NODES_KEY = objectKey(undefined, "nodes");
export function podsKey(group: ObjectKey): ObjectKey {
  return objectKey("pods", group);
}
export function namespaceKey(namespace: string): ObjectKey {
  return objectKey("namespace", namespace);
}

export function publishedKey({ spec }: IdentitySlice): ObjectKey {
  switch (spec.type) {
    case "Pods":
      return podsKey(groupOfSlice(spec));
    case "Namespace":
      return namespaceKey(spec.namespace ?? "");
    case "Nodes":
      return NODES_KEY;
    case "Addresses":
      return ADDRESSES_KEY;
    default:
      return spec.type satisfies never;
  }
}
