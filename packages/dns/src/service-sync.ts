import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES, type EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { type ObjectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { Controller, KubeClient } from "@fairlead/kube/types.ts";
import { keysOfSlice, trimmedMeta, trimmedSlice } from "./trim.ts";
import type { Contribution, RecordTree } from "./tree.ts";

/** Keeps zones equal to what an API server holds. */
export interface ZoneSync extends AsyncDisposable {
  /** Whether the zones have held everything once. Stays true: the last known state is better than none. */
  readonly hasSynced: boolean;
  /** Begins, and resolves once the zones hold everything. */
  start(signal: AbortSignal): Promise<void>;
}

/** The conversion of services to records of one zone. */
export interface ServiceZone<T extends KubeObject> {
  readonly origin: string;
  readonly ofNamespace: (key: ObjectKey) => Contribution;
  readonly ofService: (service: T, slices: Iterable<EndpointSlice>) => Contribution;
  /** Set if records are computed only when they are asked for: the name that all of a service are at or beneath. */
  readonly lazyName?: (key: ObjectKey) => string | undefined;
}

/** Services of one kind, and the zones that have their records. */
export interface ServiceZones<T extends KubeObject> {
  readonly zones: readonly ServiceZone<T>[];
  readonly services: Resource<T>;
  readonly trim: (service: T) => T;
  /** Label by which a slice names its service. */
  readonly serviceLabel: string;
  /** Further labels of slices that the zones read. */
  readonly sliceLabels?: readonly string[];
  /** Annotations of slices that the zones read. */
  readonly sliceAnnotations?: readonly string[];
  /** Resolves when the kind can be watched. Default: at once. */
  readonly served?: (signal: AbortSignal) => Promise<void>;
}

const BY_SERVICE = "service";

/** Keeps the records of services, of their endpoints, and of namespaces. */
export function createServiceSync<T extends KubeObject>(
  name: string,
  parts: { readonly client: KubeClient; readonly tree: RecordTree; readonly of: ServiceZones<T> },
  deps: RuntimeDeps,
): ZoneSync {
  const { client, tree, of } = parts;
  const label = of.serviceLabel;
  const kept = { labels: [label, ...(of.sliceLabels ?? [])], annotations: of.sliceAnnotations ?? [] };
  const services = createInformer(client, of.services, { trim: of.trim }, deps);
  const namespaces = createInformer(client, NAMESPACES, { trim: trimmedMeta }, deps);
  const slices = createInformer(
    client,
    ENDPOINT_SLICES,
    {
      labelSelector: label,
      trim: (slice) => trimmedSlice(slice, kept),
      indexes: { [BY_SERVICE]: (slice) => keysOfSlice(slice, label) },
    },
    deps,
  );

  function refresh(zone: ServiceZone<T>, key: ObjectKey): void {
    const owner = `${zone.origin} ${key}`;
    if (splitKey(key).namespace === undefined) {
      const exists = namespaces.store.get(key) !== undefined;
      tree.put(owner, exists ? zone.ofNamespace(key) : { records: [] });
      return;
    }
    const service = services.store.get(key);
    const records = (): Contribution =>
      service === undefined
        ? { records: [] }
        : zone.ofService(service, slices.store.byIndex(BY_SERVICE, key));
    const lazyName = zone.lazyName?.(key);
    if (lazyName === undefined) tree.put(owner, records());
    else if (service === undefined) tree.removeLazy({ owner, name: lazyName });
    else tree.putLazily({ owner, name: lazyName }, records);
  }

  const controller = createController(
    {
      name,
      concurrency: 1,
      sources: [
        watching(services),
        watching(namespaces),
        watching(slices, (change) => keysOfSliceChange(change, label)),
      ],
      reconcile: (key) => {
        for (const zone of of.zones) refresh(zone, key);
        return Promise.resolve();
      },
    },
    deps,
  );
  return zoneSync(controller, [services, slices, namespaces], of.served);
}

/** The services that a slice belonged to before a change, and belongs to after it. */
function keysOfSliceChange(
  change: { readonly before: EndpointSlice | undefined; readonly after: EndpointSlice | undefined },
  label: string,
): Set<ObjectKey> {
  const states = [change.before, change.after].filter((it) => it !== undefined);
  return new Set(states.flatMap((slice) => keysOfSlice(slice, label)));
}

/** Runs a controller and its informers as one component. */
function zoneSync(
  controller: Controller,
  informers: readonly AsyncDisposable[],
  served: ((signal: AbortSignal) => Promise<void>) | undefined,
): ZoneSync {
  let hasSynced = false;
  return {
    get hasSynced() {
      return hasSynced;
    },
    async start(signal) {
      await served?.(signal);
      await controller.start(signal);
      await controller.idle(signal);
      hasSynced = true;
    },
    async [Symbol.asyncDispose]() {
      await controller[Symbol.asyncDispose]();
      await Promise.all(informers.map((it) => it[Symbol.asyncDispose]()));
    },
  };
}

/** The serial number of a zone that begins now: seconds, as 32 bits (RFC 1982 makes the wrap harmless). */
export function serialAt(nowMs: number): number {
  return Math.floor(nowMs / 1000) >>> 0;
}
