import { NAMESPACES, type Namespace } from "#api/core/v1/types.ts";
import { ENDPOINT_SLICES, type EndpointSlice } from "#api/discovery/v1/types.ts";
import { type ObjectKey, splitKey } from "#api/meta/key.ts";
import {
  MCS_SERVICE_IMPORTS,
  MCS_SERVICE_NAME_LABEL,
  MCS_SOURCE_CLUSTER_LABEL,
  type ServiceImport,
} from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import { createController } from "#kube/controller.ts";
import type { RuntimeDeps } from "#kube/deps.ts";
import { createInformer } from "#kube/informer.ts";
import { watching } from "#kube/source.ts";
import type { Controller, KubeClient } from "#kube/types.ts";
import { untilServed } from "./crd.ts";
import { keysOfSlice, trimmedMeta, trimmedSlice } from "./trim.ts";
import type { RecordTree } from "./tree.ts";
import { type ClusterSetZone, namespaceContribution, serviceContribution, zoneContribution } from "./zone.ts";

/** Keeps zones equal to what an API server holds. */
export interface ZoneSync extends AsyncDisposable {
  /** Whether the zones have held everything once. Stays true: the last known state is better than none. */
  readonly hasSynced: boolean;
  /** Begins, and resolves once the zones hold everything. */
  start(signal: AbortSignal): Promise<void>;
}

const BY_SERVICE = "service";

/** Keeps a cluster-set zone: imported services, their endpoints, and namespaces. */
export function createClusterSetSync(
  parts: { readonly client: KubeClient; readonly tree: RecordTree; readonly zone: ClusterSetZone },
  deps: RuntimeDeps,
): ZoneSync {
  const { client, tree, zone } = parts;
  const imports = createInformer(client, MCS_SERVICE_IMPORTS, { trim: trimmedImport }, deps);
  const slices = createInformer(
    client,
    ENDPOINT_SLICES,
    {
      labelSelector: MCS_SERVICE_NAME_LABEL,
      trim: (slice) => trimmedSlice(slice, [MCS_SERVICE_NAME_LABEL, MCS_SOURCE_CLUSTER_LABEL]),
      indexes: { [BY_SERVICE]: (slice) => keysOfSlice(slice, MCS_SERVICE_NAME_LABEL) },
    },
    deps,
  );
  const namespaces = createInformer<Namespace>(client, NAMESPACES, { trim: trimmedMeta }, deps);
  tree.addZone({ origin: zone.origin, negativeTtl: zone.ttl, serial: serialAt(deps.clock.now()) });
  tree.put(`fixed ${zone.origin}`, zoneContribution(zone));

  function refresh(key: ObjectKey): void {
    const owner = `${zone.origin} ${key}`;
    if (splitKey(key).namespace === undefined) {
      const exists = namespaces.store.get(key) !== undefined;
      tree.put(owner, exists ? namespaceContribution(zone, key) : { records: [] });
      return;
    }
    const imported = imports.store.get(key);
    if (imported === undefined) tree.remove(owner);
    else tree.put(owner, serviceContribution(zone, imported, slices.store.byIndex(BY_SERVICE, key)));
  }

  const controller = createController(
    {
      name: "dns-clusterset",
      concurrency: 1,
      sources: [
        watching(imports),
        watching(namespaces),
        watching(slices, (change) => keysOfSliceChange(change, MCS_SERVICE_NAME_LABEL)),
      ],
      reconcile: (key) => {
        refresh(key);
        return Promise.resolve();
      },
    },
    deps,
  );
  return zoneSync({
    controller,
    informers: [imports, slices, namespaces],
    before: (signal) => untilServed(client, MCS_SERVICE_IMPORTS, deps, signal),
  });
}

/** The services that a slice belonged to before a change, and belongs to after it. */
export function keysOfSliceChange(
  change: { readonly before: EndpointSlice | undefined; readonly after: EndpointSlice | undefined },
  label: string,
): Set<ObjectKey> {
  const states = [change.before, change.after].filter((it) => it !== undefined);
  return new Set(states.flatMap((slice) => keysOfSlice(slice, label)));
}

/** Runs a controller over informers of its own as one thing. */
export function zoneSync(parts: {
  readonly controller: Controller;
  readonly informers: readonly AsyncDisposable[];
  /** What must be there before anything can be watched. */
  readonly before?: (signal: AbortSignal) => Promise<void>;
}): ZoneSync {
  let hasSynced = false;
  return {
    get hasSynced() {
      return hasSynced;
    },
    async start(signal) {
      await parts.before?.(signal);
      await parts.controller.start(signal);
      await parts.controller.idle(signal);
      hasSynced = true;
    },
    async [Symbol.asyncDispose]() {
      await parts.controller[Symbol.asyncDispose]();
      await Promise.all(parts.informers.map((it) => it[Symbol.asyncDispose]()));
    },
  };
}

/** The serial number of a zone that begins now: seconds, as 32 bits (RFC 1982 makes the wrap harmless). */
export function serialAt(nowMs: number): number {
  return Math.floor(nowMs / 1000) >>> 0;
}

function trimmedImport(imported: ServiceImport): ServiceImport {
  const { type, ports, ips } = imported.spec ?? { type: "Headless", ports: [], ips: [] };
  const spec = { type, ports, ...(ips === undefined ? {} : { ips }) };
  return { ...trimmedMeta(imported), ...(imported.spec === undefined ? {} : { spec }) };
}
