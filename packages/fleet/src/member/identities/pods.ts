import { defined } from "@fairlead/base/defined.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { type Container, type Pod, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { Change, Informer, KubeClient } from "@fairlead/kube/types.ts";
import { groupOf, hasAddresses, holderOf, templateOf } from "./groups.ts";

/** The pods of this cluster, which are read while another cluster needs to know some of them. */
export class Pods implements AsyncDisposable {
  readonly #local: KubeClient;
  readonly #deps: RuntimeDeps;
  readonly #onChange: (groups: Iterable<ObjectKey>) => void;
  /** Of pods as they are now: all are asked for when a namespace changes. */
  readonly #groupOf = new WeakMap<Pod, ObjectKey>();
  #reading: { readonly informer: Informer<Pod>; readonly stop: AbortController } | undefined;

  constructor(local: KubeClient, onChange: (groups: Iterable<ObjectKey>) => void, deps: RuntimeDeps) {
    this.#local = local;
    this.#onChange = onChange;
    this.#deps = deps;
  }

  async follow(isNeeded: boolean): Promise<void> {
    if (isNeeded === (this.#reading !== undefined)) return;
    if (!isNeeded) return this[Symbol.asyncDispose]();
    const stop = new AbortController();
    const indexes = {
      group: (it: Pod) => [this.#group(it)],
      uid: (it: Pod) => [it.metadata.uid ?? ""],
      address: (it: Pod) => (hasAddresses(it) ? addressesOf(it) : []),
    };
    const informer = createInformer(this.#local, PODS, { trim: trimmed, indexes }, this.#deps);
    this.#reading = { informer, stop };
    informer.subscribe((change) => this.#onChange(this.#groupsOf(change)));
    informer.start(stop.signal);
    void informer.synced(stop.signal).then(
      () => this.#onChange(this.groups()),
      () => {},
    );
  }

  #group(pod: Pod): ObjectKey {
    const known = this.#groupOf.get(pod) ?? groupOf(templateOf(pod));
    this.#groupOf.set(pod, known);
    return known;
  }

  /** False while it is not known which pods there are. */
  get isKnown(): boolean {
    return this.#reading?.informer.hasSynced === true;
  }

  groups(): Set<ObjectKey> {
    return new Set([...(this.#reading?.informer.store.list() ?? [])].map((it) => this.#group(it)));
  }

  in(group: ObjectKey): Pod[] {
    return [...(this.#reading?.informer.store.byIndex("group", group) ?? [])];
  }

  groupsOfUids(uids: ReadonlySet<string>): ObjectKey[] {
    const store = this.#reading?.informer.store;
    return [...uids].flatMap((uid) => [...(store?.byIndex("uid", uid) ?? [])]).map((it) => this.#group(it));
  }

  /** The addresses that are this pod's, and no other one's. */
  addressesOf(pod: Pod): string[] {
    const store = this.#reading?.informer.store;
    return addressesOf(pod).filter((it) => holderOf([...(store?.byIndex("address", it) ?? [])]) === pod);
  }

  /** Also of the pods that had, or have, the same addresses. */
  #groupsOf({ before, after }: Change<Pod>): Set<ObjectKey> {
    if (before !== undefined && after !== undefined && sameJson(factsOf(before), factsOf(after)))
      return new Set();
    const store = this.#reading?.informer.store;
    const changed = [before, after].flatMap((it) => it ?? []);
    const rivals = changed.flatMap(addressesOf).flatMap((it) => [...(store?.byIndex("address", it) ?? [])]);
    return new Set([...changed, ...rivals].map((it) => this.#group(it)));
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
