import { defined } from "@fairlead/base/defined.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { type Container, type Pod, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { Change, Informer, KubeClient } from "@fairlead/kube/types.ts";
import { groupOf, hasAddresses, holderOf, templateOf } from "./groups.ts";

interface Listener {
  /** Also of the pods that had, or have, the same addresses. */
  readonly onChange: (changed: Iterable<Pod>) => void;
  readonly onSynced: () => void;
}

/** The pods of this cluster, which are read while another cluster needs to know some of them. */
export class Pods implements AsyncDisposable {
  readonly #local: KubeClient;
  readonly #deps: RuntimeDeps;
  readonly #listener: Listener;
  /** Of pods as they are now: all are asked for when a namespace changes. */
  readonly #groupOf = new WeakMap<Pod, ObjectKey>();
  #reading: { readonly informer: Informer<Pod>; readonly stop: AbortController } | undefined;

  constructor(local: KubeClient, listener: Listener, deps: RuntimeDeps) {
    this.#local = local;
    this.#listener = listener;
    this.#deps = deps;
  }

  async follow(isNeeded: boolean): Promise<void> {
    if (isNeeded === (this.#reading !== undefined)) return;
    if (!isNeeded) return this[Symbol.asyncDispose]();
    const stop = new AbortController();
    const indexes = {
      group: (it: Pod) => [this.groupOf(it)],
      namespace: (it: Pod) => [it.metadata.namespace ?? ""],
      uid: (it: Pod) => [it.metadata.uid ?? ""],
      address: (it: Pod) => (hasAddresses(it) ? addressesOf(it) : []),
    };
    const informer = createInformer(this.#local, PODS, { trim: trimmed, indexes }, this.#deps);
    this.#reading = { informer, stop };
    informer.subscribe((change) => this.#listener.onChange(this.#changed(change)));
    informer.start(stop.signal);
    void informer.synced(stop.signal).then(this.#listener.onSynced, () => {});
  }

  /** Of pods with the same labels. */
  groupOf(pod: Pod): ObjectKey {
    const known = this.#groupOf.get(pod) ?? groupOf(templateOf(pod));
    this.#groupOf.set(pod, known);
    return known;
  }

  /** False while it is not known which pods there are. */
  get isKnown(): boolean {
    return this.#reading?.informer.hasSynced === true;
  }

  groups(): Set<ObjectKey> {
    return new Set([...(this.#reading?.informer.store.list() ?? [])].map((it) => this.groupOf(it)));
  }

  find(key: ObjectKey): Pod | undefined {
    return this.#reading?.informer.store.get(key);
  }

  in(group: ObjectKey): Pod[] {
    return [...(this.#reading?.informer.store.byIndex("group", group) ?? [])];
  }

  inNamespace(namespace: string): Pod[] {
    return [...(this.#reading?.informer.store.byIndex("namespace", namespace) ?? [])];
  }

  withUids(uids: ReadonlySet<string>): Pod[] {
    const store = this.#reading?.informer.store;
    return [...uids].flatMap((uid) => [...(store?.byIndex("uid", uid) ?? [])]);
  }

  /** The addresses that are this pod's, and no other one's. */
  addressesOf(pod: Pod): string[] {
    const store = this.#reading?.informer.store;
    return addressesOf(pod).filter((it) => holderOf([...(store?.byIndex("address", it) ?? [])]) === pod);
  }

  #changed({ before, after }: Change<Pod>): Set<Pod> {
    if (before !== undefined && after !== undefined && sameJson(factsOf(before), factsOf(after)))
      return new Set();
    const store = this.#reading?.informer.store;
    const changed = [before, after].flatMap((it) => it ?? []);
    const rivals = changed.flatMap(addressesOf).flatMap((it) => [...(store?.byIndex("address", it) ?? [])]);
    return new Set([...changed, ...rivals]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const before = this.#reading;
    this.#reading = undefined;
    before?.stop.abort();
    await before?.informer[Symbol.asyncDispose]();
  }
}

function addressesOf({ status }: Pod): string[] {
  return (status?.podIPs ?? []).map((it) => it.ip);
}

function factsOf({ metadata: { resourceVersion: _version, ...metadata }, spec, status }: Pod): unknown {
  return [metadata, spec, status];
}

/** What policies see of a pod. */
function trimmed({ metadata, spec, status }: Pod): Pod {
  const { name, namespace, uid = "", resourceVersion = "", labels } = metadata;
  const { creationTimestamp, deletionTimestamp } = metadata;
  const { hostNetwork, serviceAccountName } = spec ?? {};
  const { phase, podIPs } = status ?? {};
  return {
    metadata: {
      name,
      uid,
      resourceVersion,
      ...defined({ namespace, labels, creationTimestamp, deletionTimestamp }),
    },
    spec: {
      ...defined({ hostNetwork, serviceAccountName }),
      containers: (spec?.containers ?? []).map(portsOf),
      ...(spec?.initContainers === undefined ? {} : { initContainers: spec.initContainers.map(portsOf) }),
    },
    status: { ...defined({ phase, podIPs }) },
  };
}

function portsOf({ name, ports, restartPolicy }: Container): Container {
  const named = (ports ?? []).filter((it) => it.name !== undefined && it.name !== "");
  return { name, ...defined({ restartPolicy }), ...(named.length === 0 ? {} : { ports: named }) };
}
