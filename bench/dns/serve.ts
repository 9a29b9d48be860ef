/** The servers that `bench dns` runs with this project's code. Prints the port, and the heap that the zones take, as JSON. */
import { createSocket } from "node:dgram";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { systemClock } from "@fairlead/base/clock.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { parseSocketAddress } from "@fairlead/dns/listen-address.ts";
import { createDnsMeters } from "@fairlead/dns/meters.ts";
import { createResolver } from "@fairlead/dns/resolver.ts";
import { createResponder } from "@fairlead/dns/responder.ts";
import { startDnsServer } from "@fairlead/dns/server.ts";
import { type Contribution, RecordTree } from "@fairlead/dns/tree.ts";
import { type ClusterSetZone, serviceContribution } from "@fairlead/fleet/dns/zone.ts";
import type { ServiceImport } from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { addressOf, ENDPOINTS, SERVICES } from "./data.ts";

/** What a process serves; "echo" sends each datagram back. */
export type Served = "echo" | "dns" | "dns with changes" | "dns without Fleetboard's zone";

export interface ServedBy {
  readonly port: number;
  /** Unit: bytes of heap. */
  readonly zoneBytes: number;
}

const CLUSTER_SET: ClusterSetZone = { origin: "clusterset.local.", ttl: 5, isReverse: true };
const FLEETBOARD: ClusterSetZone = { origin: "fleetboard.local.", ttl: 5, hasClusterNames: true };
/** Between two changes of a service. Unit: milliseconds. */
const CHANGE_EVERY_MS = 10;

async function serve(kind: Served): Promise<ServedBy> {
  if (kind === "echo") return { port: await serveEcho(), zoneBytes: 0 };
  const zones = kind === "dns without Fleetboard's zone" ? [CLUSTER_SET] : [CLUSTER_SET, FLEETBOARD];
  const collect = collector();
  const tree = new RecordTree();
  for (const { origin, ttl } of zones) tree.addZone({ origin, negativeTtl: ttl, serial: 1 });
  collect();
  const before = process.memoryUsage().heapUsed;
  for (let service = 0; service < SERVICES; service++) putService(tree, zones, { service, version: 0 });
  collect();
  const zoneBytes = process.memoryUsage().heapUsed - before;
  if (kind === "dns with changes") {
    let turn = 0;
    setInterval(
      () => putService(tree, zones, { service: turn % SERVICES, version: ++turn }),
      CHANGE_EVERY_MS,
    );
  }
  const resolve = createResolver({ rng: seededRng(1), tree, isReady: () => true });
  const meters = createDnsMeters(noMetrics);
  const respond = createResponder({ resolve, isRecursive: false, meters, log: silentLogger });
  const listen = [parseSocketAddress("127.0.0.1:0")];
  const server = await startDnsServer({ listen, respond, clock: systemClock, log: silentLogger });
  return { port: server.addresses[0]?.port ?? 0, zoneBytes };
}

/** A headless service. */
function putService(
  tree: RecordTree,
  zones: readonly ClusterSetZone[],
  { service, version }: { readonly service: number; readonly version: number },
): void {
  const name = `service-${service}`;
  const endpoints = Array.from({ length: ENDPOINTS }, (_, index) => ({
    addresses: [addressOf(service, index + ((version * ENDPOINTS) % 200))],
  }));
  const labels = { "multicluster.kubernetes.io/source-cluster": "east" };
  const metadata = { name, namespace: "work" };
  const imported: ServiceImport = { metadata, spec: { type: "Headless", ports: [] } };
  const ports = [{ name: "http", port: 80 }];
  const slice: EndpointSlice = { metadata: { ...metadata, labels }, addressType: "IPv4", endpoints, ports };
  for (const zone of zones) {
    const owner = `${zone.origin} ${name}`;
    const records = (): Contribution => serviceContribution(zone, imported, [slice]);
    if (zone === FLEETBOARD) tree.putLazily({ owner, name: `${name}.work.svc.${zone.origin}` }, records);
    else tree.put(owner, records());
  }
}

async function serveEcho(): Promise<number> {
  const socket = createSocket({ type: "udp4", recvBufferSize: 1 << 20 });
  socket.on("message", (bytes, from) => socket.send(bytes, from.port, from.address));
  await new Promise<void>((resolve) => {
    socket.bind(0, "127.0.0.1", resolve);
  });
  return socket.address().port;
}

function collector(): () => void {
  setFlagsFromString("--expose-gc");
  return runInNewContext("gc") as () => void;
}

if (import.meta.main) console.log(JSON.stringify(await serve(process.argv[2] as Served)));
