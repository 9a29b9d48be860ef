import { type Node, NODES, type Service, type ServiceSpec } from "@fairlead/kube/api/core/v1/types.ts";
import type { Endpoint, EndpointPort, EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { IndexedStore } from "@fairlead/kube/informer/store.ts";
import type { Change, Informer } from "@fairlead/kube/types.ts";

/** Objects for tests of the proxy, with the fields that an API server would have filled in. */

export function makeService(name: string, spec: ServiceSpec, ingress: readonly string[] = []): Service {
  return {
    metadata: { name, namespace: "work" },
    spec: { ...spec, type: ingress.length > 0 ? "LoadBalancer" : (spec.type ?? "ClusterIP") },
    status: { loadBalancer: { ingress: ingress.map((ip) => ({ ip, ipMode: "VIP" })) } },
  };
}

export function makeSlice(
  name: string,
  service: string,
  slice: { readonly endpoints: Endpoint[]; readonly ports?: EndpointPort[] },
): EndpointSlice {
  const isV6 = slice.endpoints[0]?.addresses[0]?.includes(":") ?? false;
  return {
    metadata: { name, namespace: "work", labels: { "kubernetes.io/service-name": service } },
    addressType: isV6 ? "IPv6" : "IPv4",
    ports: slice.ports ?? [{ name: "", protocol: "TCP", port: 8080 }],
    endpoints: slice.endpoints,
  };
}

export function ready(address: string, more: Partial<Endpoint> = {}): Endpoint {
  return {
    addresses: [address],
    conditions: { ready: true, serving: true, terminating: false },
    ...more,
  };
}

export function terminating(address: string): Endpoint {
  return { addresses: [address], conditions: { ready: false, serving: true, terminating: true } };
}

export function notReady(address: string): Endpoint {
  return { addresses: [address], conditions: { ready: false, serving: false, terminating: false } };
}

/** The node of the proxy, with its addresses and prefixes of pods. */
export function makeNode(
  name: string,
  parts: { addresses?: string[]; podCIDRs?: string[]; zone?: string },
): Node {
  const { addresses = [], podCIDRs = [], zone } = parts;
  return {
    metadata: { name, labels: zone === undefined ? {} : { "topology.kubernetes.io/zone": zone } },
    spec: { podCIDRs },
    status: { addresses: addresses.map((address) => ({ type: "InternalIP", address })) },
  };
}

/** An informer of that node alone. */
export function nodeInformer(node: Node): ManualInformer<Node> {
  const informer = manualInformer(NODES);
  informer.set(node);
  return informer;
}

/** An informer whose content the test sets. */
export interface ManualInformer<T extends KubeObject> extends Informer<T> {
  set(object: T): void;
  delete(object: T): void;
}

export function manualInformer<T extends KubeObject>(of: Resource<T>): ManualInformer<T> {
  const store = new IndexedStore<T>();
  const subscribers = new Set<(change: Change<T>) => void>();
  let version = 0;
  const publish = (change: Change<T> | undefined): void => {
    if (change !== undefined) for (const it of subscribers) it(change);
  };
  return {
    of,
    store,
    hasSynced: true,
    watchingSinceMs: undefined,
    version: undefined,
    start() {},
    synced: async () => {},
    subscribe(onChange) {
      subscribers.add(onChange);
      return { [Symbol.dispose]: () => void subscribers.delete(onChange) };
    },
    set(object) {
      const metadata = { ...object.metadata, resourceVersion: String(++version) };
      publish(store.set({ ...object, metadata }));
    },
    delete(object) {
      publish(store.delete(keyOf(object)));
    },
    async [Symbol.asyncDispose]() {},
  };
}
