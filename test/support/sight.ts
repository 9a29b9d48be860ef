import { type Service, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES, type EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { MCS_SERVICE_NAME_LABEL } from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { FLEET_SLICE_MANAGER } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { MANAGED_BY_LABEL } from "@fairlead/kube/api/discovery/v1/types.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { addressesOf, PATIENCE_MS } from "./fleet.ts";

/** What the service proxy of an importer knows of the service hello in work, at one moment. */
export interface Seen {
  /** Addresses of the imported endpoints. */
  readonly imported: string;
  /** Those behind the MultiClusterService's load balancer. */
  readonly balanced: string;
  /** uid and address of the derived Service. */
  readonly derived: string;
}

/** All that the proxy ever saw since it was asked to look: one entry per change. */
export interface Sight extends AsyncDisposable {
  readonly now: Seen;
  /** What it saw from `from`, one of its entries, on. */
  since(from: Seen): readonly Seen[];
  until(isEnough: (seen: Seen) => boolean): Promise<void>;
}

export function watchSight(client: KubeClient): Sight {
  const stop = new AbortController();
  const slices = new Map<string, EndpointSlice>();
  const services = new Map<string, Service>();
  const seen: Seen[] = [{ imported: "", balanced: "", derived: "" }];
  const waiting = new Set<() => void>();
  const look = (): void => {
    const now = describe([...slices.values()], [...services.values()]);
    if (JSON.stringify(now) !== JSON.stringify(seen.at(-1))) seen.push(now);
    for (const wake of waiting) wake();
  };
  const follow = async <T extends KubeObject>(of: Resource<T>, into: Map<string, T>): Promise<void> => {
    const options = { allowWatchBookmarks: true, sendInitialEvents: true };
    for await (const event of client.watch(of, options, stop.signal)) {
      if (event.type === "ADDED" || event.type === "MODIFIED") into.set(keyOf(event.object), event.object);
      else if (event.type === "DELETED") into.delete(keyOf(event.object));
      look();
    }
  };
  const done = Promise.all([follow(ENDPOINT_SLICES, slices), follow(SERVICES, services)]).catch(() => {});
  const now = (): Seen => seen.at(-1) as Seen;
  return {
    get now() {
      return now();
    },
    since: (from) => seen.slice(seen.lastIndexOf(from)),
    async until(isEnough) {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const wake = (): void => {
        if (isEnough(now())) resolve();
      };
      const timer = setTimeout(
        () =>
          reject(new Error(`the importer sees otherwise:\n${JSON.stringify(seen.slice(-5), undefined, 1)}`)),
        PATIENCE_MS,
      );
      waiting.add(wake);
      wake();
      try {
        await promise;
      } finally {
        waiting.delete(wake);
        clearTimeout(timer);
      }
    },
    async [Symbol.asyncDispose]() {
      stop.abort();
      await done;
    },
  };
}

function describe(slices: readonly EndpointSlice[], services: readonly Service[]): Seen {
  const of = (isWanted: (it: EndpointSlice) => boolean): string =>
    addressesOf(slices.filter(isWanted)).join(" ");
  const derived = services.find(
    (it) => it.metadata.namespace === "work" && it.metadata.name.startsWith("derived-"),
  );
  return {
    imported: of((it) => it.metadata.labels?.[MCS_SERVICE_NAME_LABEL] === "hello"),
    balanced: of((it) => it.metadata.labels?.[MANAGED_BY_LABEL] === FLEET_SLICE_MANAGER),
    derived: derived === undefined ? "" : `${derived.metadata.uid} ${derived.spec?.clusterIP}`,
  };
}
