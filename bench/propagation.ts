/**
 * One endpoint changes in member-1: after how long has it changed in the kernel map of every importer, and, for a
 * headless service, in an importer's DNS answer? And how many API writes did that cost, of which kind?
 *
 * Both ends are included: the clock starts before the request that writes the EndpointSlice and stops when the kernel
 * (nftables' own event) or the DNS server shows it. Compared with one hop in the same run: a write to an API server
 * until a watch delivers it. Changes that a newer one overtook count as seen when the newer one was.
 */
import { IMPORTED_SERVICES } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import { CONFIG_MAPS, NAMESPACES, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import {
  ENDPOINT_SLICES,
  type EndpointSlice,
  SERVICE_NAME_LABEL,
} from "@fairlead/kube/api/discovery/v1/types.ts";
import {
  MCS_SERVICE_EXPORTS,
  MCS_SERVICE_IMPORTS,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  ENDPOINT_SLICE_IMPORTS,
  FLEET_SERVICE_IMPORTS,
  INTERNAL_SERVICE_EXPORTS,
  INTERNAL_SERVICE_IMPORTS,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { delay, systemClock } from "@fairlead/base/clock.ts";
import { renderTable } from "@fairlead/fleet/cli/table.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { nodeNetns } from "@fairlead/lab/places.ts";
import { watchDns, watchKernelMap } from "../scripts/demo/latency.ts";
import { type BenchLab, quantile, startBenchLab } from "./lab/lab.ts";
import { measureGlobal } from "./propagation/global.ts";
import { measureIdentities } from "./propagation/identity.ts";
import { measureSwitched } from "./propagation/switched.ts";
import { type CrowdFigures, crowdRow, measureCrowd, measureRawCrowd } from "./fleet/measure-crowd.ts";
import { NO_ASSETS, realAssets } from "../packages/apiserver/test/real-server.ts";
import { countWrites } from "./lab/writes.ts";

const IMPORTERS = [1, 3, 10];
const RATES = [1, 10, 100];
/** Changes for each cell of the table: enough for a 99th percentile at high rates, some seconds at low ones. */
const CHANGES: ReadonlyMap<number, number> = new Map([
  [1, 10],
  [10, 60],
  [100, 400],
]);
const NAMESPACE = "bench";
const EXPORTER = "member-1";
const KARMADA_P99_MS = 989;

/** Thin importers, and how many changes a second. */
const CROWD = 100;
const CROWD_RATES = [1, 10, 100];

/** Rounds of switches in each mode of a network. */
const ROUNDS = 5;

/**
 * Without `--crowd` the lab first, with real packets' ends, then a switched endpoint in a flat and in a parallel network (`--switched`: that
 * alone), then identities of pods (`--identities`) and a global Service (`--global`); then, in any case, the crowd, also at a real hub.
 */
export async function run(argv: readonly string[]): Promise<void> {
  if (argv.includes("--switched")) return measureSwitched(ROUNDS);
  if (argv.includes("--identities")) return measureIdentities();
  if (argv.includes("--global")) return measureGlobal(measureHop);
  if (!argv.includes("--crowd")) {
    await runLab();
    await measureSwitched(ROUNDS);
    await measureIdentities();
    await measureGlobal(measureHop);
  }
  const signal = AbortSignal.timeout(600_000);
  const most = Math.max(...CROWD_RATES);
  const raw = await measureRawCrowd(CROWD, most, signal);
  const quantiles = [quantile(raw, 0.5), quantile(raw, 0.99)].map((it) => it.toFixed(0)).join(" / ");
  console.log(`${CROWD} watchers of one API server, ${most} changes/s: p50 / p99 ${quantiles} ms\n`);
  printCrowd(await measureCrowd(CROWD, CROWD_RATES, { withRealHub: false, signal }), raw);
  if (realAssets() === undefined) {
    console.log(`Not measured at a real API server: ${NO_ASSETS}`);
    return;
  }
  console.log("The same with the hub on the kube-apiserver of KUBEBUILDER_ASSETS:\n");
  printCrowd(await measureCrowd(CROWD, CROWD_RATES, { withRealHub: true, signal }), raw);
}

function printCrowd(figures: readonly CrowdFigures[], raw: readonly number[]): void {
  print(
    [
      "THIN IMPORTERS",
      "CHANGES/S",
      "P50 MS",
      "P99 MS",
      "P99/WATCHERS",
      "KERNEL P50",
      "P99",
      "IMPORTER'S SLICE P50",
      "P99",
      "MISSING",
      "WRITES/CHANGE",
    ],
    figures.map((it) => crowdRow(it, raw)),
  );
  for (const it of figures) console.log(`processors at ${it.rate}/s: ${it.cpu}`);
}

async function runLab(): Promise<void> {
  const most = Math.max(...IMPORTERS);
  await using lab = await startBenchLab("bench", { members: most + 1, nodes: 1 });
  const signal = AbortSignal.timeout(600_000);
  const exporter = await lab.client(EXPORTER);
  const hop = await measureHop(await lab.client("hub"), signal);
  console.log(`one hop (write until watched): p50 ${hop.toFixed(1)} ms\n`);
  await createService(exporter, "kernel", "10.96.0.0", signal);
  const rows: string[][] = [];
  let joined = 0;
  for (const importers of IMPORTERS) {
    for (; joined < importers; joined += 1) {
      const client = await lab.client(`member-${joined + 2}`);
      await client.create(NAMESPACES, { metadata: { name: NAMESPACE } }, { signal });
    }
    for (const rate of RATES) rows.push(await measureKernel({ lab, exporter, importers, rate, hop, signal }));
  }
  print(
    [
      "IMPORTERS",
      "CHANGES/S",
      "P50 MS",
      "P99 MS",
      "P50/HOP",
      "P99/KARMADA",
      "HUB WRITES/CHANGE",
      "MEMBER WRITES/CHANGE",
    ],
    rows,
  );
  await measureHeadless({ lab, exporter, hop, signal });
}

interface Cell {
  readonly lab: BenchLab;
  readonly exporter: KubeClient;
  readonly importers: number;
  readonly rate: number;
  readonly hop: number;
  readonly signal: AbortSignal;
}

/** A Service without selector, whose one slice is ours to change, and its export. */
async function createService(
  client: KubeClient,
  name: string,
  clusterIP: string,
  signal: AbortSignal,
): Promise<void> {
  const headless = clusterIP === "None" ? { clusterIP } : {};
  await client.apply(NAMESPACES, { metadata: { name: NAMESPACE } }, { fieldManager: "bench", signal });
  const metadata = { name, namespace: NAMESPACE };
  await client.create(
    SERVICES,
    { metadata, spec: { ...headless, ports: [{ name: "http", port: 80, targetPort: 8080 }] } },
    { signal },
  );
  await client.create(ENDPOINT_SLICES, sliceOf(name, 0), { signal });
  await client.create(MCS_SERVICE_EXPORTS, { metadata }, { signal });
}

function sliceOf(service: string, change: number): EndpointSlice {
  return {
    metadata: { name: `${service}-1`, namespace: NAMESPACE, labels: { [SERVICE_NAME_LABEL]: service } },
    addressType: "IPv4",
    ports: [{ name: "http", port: 8080, protocol: "TCP" }],
    endpoints: [
      { addresses: [addressOf(change)], conditions: { ready: true, serving: true, terminating: false } },
    ],
  };
}

/** Change number to address and back: the kernel's events then identify their change. */
function addressOf(change: number): string {
  return `172.20.${Math.floor(change / 250)}.${(change % 250) + 1}`;
}
function changeOf(text: string): number {
  let newest = -1;
  for (const [, third, fourth] of text.matchAll(/\b172\.20\.(\d+)\.(\d+)\b/g)) {
    newest = Math.max(newest, Number(third) * 250 + Number(fourth) - 1);
  }
  return newest;
}

let lastChange = 0;

/** Writes the slice `count` times, `rate` times a second. @returns for each change, when it was asked for. */
async function makeChanges(
  client: KubeClient,
  service: string,
  count: number,
  cell: Pick<Cell, "rate" | "signal">,
): Promise<Map<number, number>> {
  const asked = new Map<number, number>();
  const pending: Promise<unknown>[] = [];
  const startMs = systemClock.monotonic();
  for (let at = 0; at < count; at += 1) {
    const dueMs = startMs + (at * 1000) / cell.rate;
    const leftMs = dueMs - systemClock.monotonic();
    if (leftMs > 1) await delay(systemClock, leftMs, cell.signal);
    lastChange += 1;
    asked.set(lastChange, systemClock.monotonic());
    const patch = { endpoints: sliceOf(service, lastChange).endpoints };
    pending.push(
      client.mergePatch(ENDPOINT_SLICES, objectKey(NAMESPACE, `${service}-1`), patch, {
        signal: cell.signal,
      }),
    );
  }
  await Promise.all(pending);
  return asked;
}

async function measureKernel(cell: Cell): Promise<string[]> {
  const members = cell.lab.topology.clusters.slice(2, 2 + cell.importers);
  const seenBy = members.map(() => new Map<number, number>());
  const watches = await Promise.all(
    members.map((member, at) => {
      const node = member.nodes[0];
      if (node === undefined) throw new Error(`${member.name} has no node`);
      const final = lastChange + (CHANGES.get(cell.rate) ?? 0);
      let newest = lastChange;
      const onText = (text: string): boolean => {
        const change = changeOf(text);
        const now = systemClock.monotonic();
        for (; newest < change; newest += 1) seenBy[at]?.set(newest + 1, now);
        return newest >= final;
      };
      return watchKernelMap(cell.lab.layout.netnsOf(nodeNetns(node)), onText, systemClock);
    }),
  );
  // The first change also shows that the importers have the service at all; it is not counted.
  await delay(systemClock, 1500, cell.signal);
  const first = members[0]?.name ?? "";
  const hub = await cell.lab.client("hub");
  const member = await cell.lab.client(first);
  const pairs = (client: KubeClient, kinds: readonly Resource[]) => kinds.map((of) => [client, of] as const);
  await using hubWrites = await countWrites(pairs(hub, HUB_KINDS), cell.signal);
  await using memberWrites = await countWrites(pairs(member, MEMBER_KINDS), cell.signal);
  const asked = await makeChanges(cell.exporter, "kernel", CHANGES.get(cell.rate) ?? 0, cell);
  await Promise.race([Promise.all(watches.map((it) => it.seen)), delay(systemClock, 20_000, cell.signal)]);
  for (const watch of watches) watch[Symbol.dispose]();
  const latencies = seenBy.flatMap((seen) =>
    [...asked].flatMap(([change, askedMs]) => (seen.has(change) ? [(seen.get(change) ?? 0) - askedMs] : [])),
  );
  const missing = asked.size * members.length - latencies.length;
  if (missing > 0)
    console.log(`  (${missing} sightings are missing at ${cell.importers} importers, ${cell.rate}/s)`);
  const [p50, p99] = [quantile(latencies, 0.5), quantile(latencies, 0.99)];
  return [
    String(cell.importers),
    String(cell.rate),
    p50.toFixed(1),
    p99.toFixed(1),
    (p50 / cell.hop).toFixed(1),
    (p99 / KARMADA_P99_MS).toFixed(3),
    perChange(hubWrites.counts(), asked.size),
    perChange(memberWrites.counts(), asked.size),
  ];
}

const HUB_KINDS: readonly Resource[] = [
  IMPORTED_SERVICES,
  ENDPOINT_SLICE_EXPORTS,
  ENDPOINT_SLICE_IMPORTS,
  INTERNAL_SERVICE_EXPORTS,
  INTERNAL_SERVICE_IMPORTS,
  FLEET_SERVICE_IMPORTS,
];
const MEMBER_KINDS: readonly Resource[] = [ENDPOINT_SLICES, MCS_SERVICE_IMPORTS, SERVICES];

/** "1.00 EndpointSliceExport, 1.00 EndpointSliceImport". */
function perChange(counts: ReadonlyMap<string, number>, changes: number): string {
  return [...counts].map(([kind, count]) => `${(count / changes).toFixed(2)} ${kind}`).join(", ") || "0";
}

async function measureHeadless(of: Omit<Cell, "importers" | "rate">): Promise<void> {
  const { lab, exporter, hop, signal } = of;
  await createService(exporter, "headless", "None", signal);
  const importer = lab.topology.clusters[2];
  if (importer === undefined) throw new Error("there is no importer");
  const latencies: number[] = [];
  for (let at = 0; at < 20; at += 1) {
    const next = addressOf(lastChange + 1);
    using seen = watchDns(
      importer.fleetDns.v4,
      `headless.${NAMESPACE}.svc.clusterset.local`,
      (addresses) => addresses.includes(next),
      systemClock,
    );
    const asked = await makeChanges(exporter, "headless", 1, { rate: 1, signal });
    const askedMs = asked.get(lastChange) ?? 0;
    latencies.push((await seen.seen) - askedMs);
    await delay(systemClock, 100, signal);
  }
  const [p50, p99] = [quantile(latencies, 0.5), quantile(latencies, 0.99)];
  print(
    ["HEADLESS: DNS ANSWER", "P50 MS", "P99 MS", "P50/HOP"],
    [["one importer, one change at a time", p50.toFixed(1), p99.toFixed(1), (p50 / hop).toFixed(1)]],
  );
}

/** From a write to one API server until a watch of it delivers the change. Unit: milliseconds, the median. */
async function measureHop(client: KubeClient, signal: AbortSignal): Promise<number> {
  const metadata = { name: "bench-hop", namespace: "default" };
  await client.apply(CONFIG_MAPS, { metadata, data: { at: "0" } }, { fieldManager: "bench", signal });
  const stop = new AbortController();
  const samples: number[] = [];
  const sentMs = new Map<string, number>();
  const { metadata: list } = await client.list(CONFIG_MAPS, { namespace: "default", signal });
  const events = client.watch(
    CONFIG_MAPS,
    { namespace: "default", resourceVersion: list.resourceVersion },
    AbortSignal.any([signal, stop.signal]),
  );
  const reading = (async () => {
    for await (const event of events) {
      const at = event.type === "MODIFIED" ? sentMs.get(event.object.data?.["at"] ?? "") : undefined;
      if (at !== undefined) samples.push(systemClock.monotonic() - at);
    }
  })().catch(() => {});
  await delay(systemClock, 200, signal);
  for (let at = 1; at <= 50; at += 1) {
    sentMs.set(String(at), systemClock.monotonic());
    await client.mergePatch(
      CONFIG_MAPS,
      objectKey("default", "bench-hop"),
      { data: { at: String(at) } },
      { signal },
    );
    await delay(systemClock, 20, signal);
  }
  stop.abort();
  await reading;
  return quantile(samples, 0.5);
}

function print(heads: readonly string[], rows: readonly string[][]): void {
  console.log(
    `${renderTable(
      heads.map((head, at) => ({ head, cell: (row: string[]) => row[at] ?? "" })),
      rows,
    )}\n`,
  );
}
