/** Services of a fleet of three clusters, and changes of their endpoints at a rate. */

import { delay, systemClock } from "@fairlead/base/clock.ts";
import { ENDPOINT_SLICES, type EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { MULTI_CLUSTER_SERVICES } from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { FLEET_SERVICE_EXPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1beta1/types.ts";
import { addressOf, changeOf } from "./changes.ts";
import { exportService, NAMESPACE, sliceOf, untilImported, type World } from "./trio.ts";

/** After the last change, for it to come through. Unit: milliseconds. */
const SETTLE_MS = 2000;
const AT_A_TIME = 8;

export interface Load {
  /** Whether the managers have the names that Fairlead gives them. */
  readonly hasOwnNames: boolean;
  readonly slices: number;
  /** Changes a second. */
  readonly rate: number;
}

export async function fill(world: World, { slices, hasOwnNames }: Load): Promise<void> {
  const numbers = Array.from({ length: slices }, (_, at) => at).values();
  const work = async (): Promise<void> => {
    for (const at of numbers) {
      const slice = sliceOf({ name: `slice-${at}`, service: `service-${at}` }, endpointsOf(at, "10.0.0.1"));
      await world.exporter.create(ENDPOINT_SLICES, slice, { signal: world.signal });
      await exportService(world, `service-${at}`);
      if (!hasOwnNames) await balance(world, `service-${at}`);
    }
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, work));
  await untilImported(world, slices);
}

/** What fleet-networking imports, it imports for load balancers. */
async function balance({ exporter, importer, signal }: World, name: string): Promise<void> {
  const metadata = { namespace: NAMESPACE, name };
  await exporter.create(FLEET_SERVICE_EXPORTS, { metadata }, { signal });
  const spec = { serviceImport: { name } };
  await importer.create(MULTI_CLUSTER_SERVICES, { metadata, spec }, { signal });
}

/** Ten endpoints, as a busy Service has; the address of the first identifies the change. */
function endpointsOf(at: number, address: string): EndpointSlice["endpoints"] {
  const others = Array.from({ length: 9 }, (_, other) => `10.${at & 255}.${at >> 8}.${other + 1}`);
  return [address, ...others].map((it) => ({
    addresses: [it],
    conditions: { ready: true, serving: true, terminating: false },
    zone: "zone-1",
  }));
}

let lastChange = 0;

/** Resolves when the last change of each slice is imported. */
export async function change(
  world: World,
  { slices, rate }: Pick<Load, "slices" | "rate">,
  count: number,
): Promise<void> {
  const { exporter, imported, signal } = world;
  const awaited = new Map<number, number>();
  const last = Promise.withResolvers<void>();
  using _watch = imported.subscribe(({ after }) => {
    const seen = changeOf(after?.endpoints[0]?.addresses[0] ?? "");
    if (awaited.get(seen % slices) === seen) awaited.delete(seen % slices);
    if (awaited.size === 0) last.resolve();
  });
  const pending: Promise<unknown>[] = [];
  const startMs = systemClock.monotonic();
  for (let at = 0; at < count; at += 1) {
    const leftMs = startMs + (at * 1000) / rate - systemClock.monotonic();
    if (leftMs > 1) await delay(systemClock, leftMs, signal);
    lastChange += 1;
    const slice = lastChange % slices;
    awaited.set(slice, lastChange);
    const endpoints = endpointsOf(slice, addressOf(lastChange));
    const key = objectKey(NAMESPACE, `slice-${slice}`);
    pending.push(exporter.mergePatch(ENDPOINT_SLICES, key, { endpoints }, { signal }));
  }
  await Promise.all(pending);
  await Promise.race([last.promise, delay(systemClock, SETTLE_MS * 10, signal)]);
  await delay(systemClock, SETTLE_MS, signal);
}
