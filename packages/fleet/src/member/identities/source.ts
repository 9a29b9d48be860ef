import {
  IDENTITY_SLICES,
  type IdentitySlice,
  type IdentityWants,
} from "#api/fairlead.dev/v1alpha1/identities.ts";
import { SOURCE_CLUSTER_LABEL } from "#api/fairlead.dev/names.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { ChangeColumn, Informer, KubeClient } from "@fairlead/kube/types.ts";
import { changedSpec } from "#domain/identity-change.ts";
import { selectionOf, selectorsOf } from "../selection.ts";

export interface Scope {
  readonly namespace: string;
  readonly labelSelector: string;
}

/** What the hub says of each change: a pod that comes or goes is 300 bytes. */
const CHANGES: ChangeColumn<IdentitySlice> = {
  column: "Change",
  read(before, change) {
    const spec = changedSpec(before?.spec, change);
    return spec === undefined ? undefined : { spec };
  },
};

interface Reader extends Scope {
  readonly informer: Informer<IdentitySlice>;
  readonly stop: AbortController;
}

interface Listener {
  readonly onChange: (name: string) => void;
  readonly onSynced: () => void;
}

/** The part of the view that the policies here need. When that becomes another part, the old one is read until all of the new one is known. */
export class IdentitySource implements AsyncDisposable {
  readonly #parts: { readonly hub: KubeClient; readonly deps: RuntimeDeps };
  readonly #listener: Listener;
  #current: Reader | undefined;
  #next: Reader | undefined;
  #isDecided = false;

  constructor(parts: { readonly hub: KubeClient; readonly deps: RuntimeDeps }, listener: Listener) {
    this.#parts = parts;
    this.#listener = listener;
  }

  /** Undefined: nothing. */
  async follow(scope: Scope | undefined): Promise<void> {
    const before = this.#next ?? this.#current;
    const isFirst = !this.#isDecided;
    this.#isDecided = true;
    if (isFirst && scope === undefined) this.#listener.onSynced();
    if (scope?.namespace === before?.namespace && scope?.labelSelector === before?.labelSelector) return;
    await end(this.#next);
    this.#next = undefined;
    if (scope === undefined) {
      const last = this.#current;
      this.#current = undefined;
      await end(last);
      this.#listener.onSynced();
    } else if (isSame(scope, this.#current)) this.#listener.onSynced();
    else this.#begin(scope);
  }

  /** False while it is not known what is to be read. */
  get isKnown(): boolean {
    return this.#isDecided && this.#next === undefined;
  }

  find(name: string): IdentitySlice | undefined {
    return this.#current?.informer.store.get(objectKey(this.#current.namespace, name));
  }

  names(): string[] {
    return [...(this.#current?.informer.store.list() ?? [])].map((it) => it.metadata.name);
  }

  #begin(scope: Scope): void {
    const stop = new AbortController();
    const informer = createInformer(
      this.#parts.hub,
      IDENTITY_SLICES,
      { ...scope, changes: CHANGES },
      this.#parts.deps,
    );
    const reader = { ...scope, informer, stop };
    this.#next = reader;
    informer.subscribe(({ before, after }) => {
      const name = (after ?? before)?.metadata.name;
      if (name !== undefined && this.#current === reader) this.#listener.onChange(name);
    });
    informer.start(stop.signal);
    void informer.synced(stop.signal).then(
      () => this.#replaceBy(reader),
      () => {},
    );
  }

  async #replaceBy(reader: Reader): Promise<void> {
    if (this.#next !== reader) return;
    const before = this.#current;
    this.#current = reader;
    this.#next = undefined;
    this.#listener.onSynced();
    await end(before);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const readers = [this.#current, this.#next];
    this.#current = undefined;
    this.#next = undefined;
    for (const it of readers) await end(it);
  }
}

function isSame(a: Scope, b: Scope | undefined): boolean {
  return a.namespace === b?.namespace && a.labelSelector === b.labelSelector;
}

async function end(it: Reader | undefined): Promise<void> {
  it?.stop.abort();
  await it?.informer[Symbol.asyncDispose]();
}

/** As in `selection.ts`: a selector is part of an address, and is evaluated for each object. */
const MOST_CLUSTERS = 50;

/** Which slices of the view can be of use; undefined: none. Nodes and addresses are in the namespace "". */
export function selectorOf({ requests, nodes = false }: IdentityWants, cluster: string): string | undefined {
  if (requests.length === 0 && !nodes) return undefined;
  const namespaces = union(requests.map((it) => it.namespaces));
  const isBeyond = nodes || requests.some((it) => it.addresses === true);
  const ofNamespaces = selectionOf(isBeyond ? namespaces?.add("") : namespaces);
  const { slices } = selectorsOf(ofNamespaces, cluster);
  const clusters = nodes ? undefined : union(requests.map((it) => it.clusters));
  if (clusters === undefined || clusters.size > MOST_CLUSTERS) return slices;
  return `${slices},${SOURCE_CLUSTER_LABEL} in (${[...clusters].toSorted().join(",")})`;
}

/** Undefined where one of them is: all. */
function union(lists: readonly (readonly string[] | undefined)[]): Set<string> | undefined {
  const all = new Set<string>();
  for (const list of lists) {
    if (list === undefined) return undefined;
    for (const it of list) all.add(it);
  }
  return all;
}
