/**
 * Minimal importers, each with its own connection to the hub, over which it watches the slices of the view, as a
 * member does. The first one keeps them and programs a kernel map by netlink; the others only read the watch stream and discard it.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { VIEW_NAMESPACE } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import {
  ENDPOINT_SLICE_IMPORTS,
  type EndpointSliceImport,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import { changeOps, noteOps, recordOf } from "@fairlead/fleet/dataplane/service-proxy/changes.ts";
import { DesiredElements } from "@fairlead/fleet/dataplane/service-proxy/desired.ts";
import { PROXY_TABLE } from "@fairlead/fleet/dataplane/service-proxy/names.ts";
import { planService } from "@fairlead/fleet/dataplane/service-proxy/plan.ts";
import { renderTable } from "@fairlead/fleet/dataplane/service-proxy/table.ts";
import { createNetns, deleteNetns } from "@fairlead/os/netns/netns.ts";
import { diffTable } from "@fairlead/os/nft/diff.ts";
import { createNft } from "@fairlead/os/nft/netlink/driver.ts";
import { changeOf, nowMs } from "./changes.ts";
import { watchThinly } from "./thin.ts";

export type CrowdOrder =
  | { readonly do: "watch"; readonly kubeconfig: string; readonly importers: number }
  | { readonly do: "report" };

/** One entry for each change that an importer saw: its number and when. */
export type Sightings = readonly (readonly [number, number])[];
export type CrowdReport =
  | { readonly done: "watch" }
  | { readonly done: "report"; readonly importers: readonly Sightings[]; readonly kernel: Sightings };

const deps = systemDeps(silentLogger);
const stack = new AsyncDisposableStack();
const stop = new AbortController();
let sightings: [number, number][][] = [];
let kernel: [number, number][] = [];

async function watch(kubeconfig: string, importers: number): Promise<void> {
  const config = await loadKubeconfig(kubeconfig);
  sightings = Array.from({ length: importers }, () => []);
  const seenBy = (at: number) => (change: number) => sightings[at]?.push([change, nowMs()]);
  const [program, client] = [await programKernel(), stack.use(connect(config, deps))];
  const informer = stack.use(
    createInformer(client, ENDPOINT_SLICE_IMPORTS, { namespace: VIEW_NAMESPACE }, deps),
  );
  informer.subscribe(({ after }) => {
    if (after === undefined) return;
    seenBy(0)(numberIn(after));
    program(after);
  });
  informer.start(stop.signal);
  await informer.synced(stop.signal);
  for (let at = 1; at < importers; at += 1) await watchThinly(config, seenBy(at), stop.signal);
}

function numberIn({ spec }: EndpointSliceImport): number {
  return changeOf(spec.endpoints[0]?.addresses[0] ?? "");
}

/** What turns a slice into elements of a kernel map. Changes that come while it writes go with the next write. */
async function programKernel(): Promise<(slice: EndpointSliceImport) => void> {
  const folder = mkdtempSync(join(tmpdir(), "fairlead-bench-"));
  const netns = join(folder, "node");
  await createNetns(netns, stop.signal);
  stack.defer(async () => {
    await deleteNetns(netns, AbortSignal.timeout(10_000));
    rmSync(folder, { recursive: true, force: true });
  });
  const nft = createNft({ netns });
  const desired = new DesiredElements();
  const table = renderTable(desired.elements);
  await nft.apply(PROXY_TABLE, diffTable(undefined, table), stop.signal);
  const record = recordOf(table);
  const waiting = new Map<string, EndpointSliceImport>();
  let isWriting = false;
  const write = async (): Promise<void> => {
    isWriting = true;
    while (waiting.size > 0) {
      const slices = [...waiting.values()];
      waiting.clear();
      for (const it of slices) planInto(desired, it);
      const ops = changeOps(record, desired.elements, desired.takeChanged());
      await nft.apply(PROXY_TABLE, ops, stop.signal);
      noteOps(record, ops);
      for (const it of slices) kernel.push([numberIn(it), nowMs()]);
    }
    isWriting = false;
  };
  return (slice) => {
    waiting.set(slice.metadata.name, slice);
    if (!isWriting) void write();
  };
}

/** A Service per slice, with an address that follows from the slice's number. */
function planInto(desired: DesiredElements, { metadata, spec }: EndpointSliceImport): void {
  const number = Number(/(\d+)-[0-9a-v]+$/.exec(metadata.name)?.[1] ?? 0);
  const name = `service-${number}`;
  const address = `10.200.${(number >> 8) & 255}.${number & 255}`;
  const slice: EndpointSlice = {
    metadata: { namespace: "bench", name },
    addressType: "IPv4",
    endpoints: spec.endpoints.map(({ addresses }) => ({ addresses, conditions: { ready: true } })),
    ports: [{ name: "http", port: 80, protocol: "TCP" }],
  };
  const service = {
    metadata: { namespace: "bench", name },
    spec: {
      clusterIP: address,
      clusterIPs: [address],
      ports: [{ name: "http", port: 80, protocol: "TCP" as const }],
    },
  };
  desired.set(
    `bench/${name}`,
    planService({ service, slices: [slice], node: { name: "node", zone: undefined, addresses: [] } }),
  );
}

async function obey(order: CrowdOrder): Promise<void> {
  if (order.do === "watch") {
    await watch(order.kubeconfig, order.importers);
    process.send?.({ done: "watch" } satisfies CrowdReport);
    return;
  }
  process.send?.({ done: "report", importers: sightings, kernel } satisfies CrowdReport);
  sightings = sightings.map(() => []);
  kernel = [];
}

process.on("message", (order) => {
  obey(order as CrowdOrder).catch((error: unknown) => {
    console.error(error);
    process.exit(1);
  });
});
process.on("disconnect", () => {
  stop.abort();
  void stack.disposeAsync().finally(() => process.exit(0));
});
