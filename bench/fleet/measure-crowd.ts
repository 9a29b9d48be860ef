/**
 * Many importers of one fleet on one machine: the hub's API server, `fairlead hub`, an exporting and an importing member
 * as separate programs, and a crowd of thin importers in one process. From the request that changes an endpoint in the
 * exporter until each importer has it.
 */

import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { CONFIG_MAPS } from "@fairlead/kube/api/core/v1/types.ts";
import { type EndpointSlice, ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  ENDPOINT_SLICE_IMPORTS,
  INTERNAL_SERVICE_EXPORTS,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { delay, systemClock } from "@fairlead/base/clock.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import { quantile } from "../lab/lab.ts";
import { countWrites } from "../lab/writes.ts";
import { addressOf, changeOf, nowMs } from "./changes.ts";
import type { CrowdOrder, CrowdReport, Sightings } from "./crowd.ts";
import { startApi, usageOfAll } from "./programs.ts";
import {
  exportService,
  NAMESPACE,
  type Role,
  sliceOf,
  startWorld,
  Trio,
  untilImported,
  type World as TrioWorld,
} from "./trio.ts";

export interface CrowdFigures {
  readonly importers: number;
  readonly rate: number;
  /** Unit: milliseconds. */
  readonly crowd: readonly number[];
  readonly kernel: readonly number[];
  readonly full: readonly number[];
  /** Sightings that never came, those of overtaken changes apart. */
  readonly missing: number;
  readonly writes: string;
  /** What each program takes while changes are made: of one processor, and for each change. */
  readonly cpu: string;
}

const SLICES = 50;
const SECONDS = 10;
/** Before anything counts: a compiler that has not seen the code yet takes twice as long for it. Unit: changes a second. */
const WARM_UP_RATE = 50;
/** After the last change. Unit: milliseconds. */
const SETTLE_MS = 2000;
const deps = systemDeps(silentLogger);

interface World extends TrioWorld {
  readonly crowd: ChildProcess;
  readonly pids: ReadonlyMap<string, readonly number[]>;
}

export async function measureCrowd(
  importers: number,
  rates: readonly number[],
  { withRealHub, signal }: { readonly withRealHub: boolean; readonly signal: AbortSignal },
): Promise<CrowdFigures[]> {
  await using trio = await Trio.start(signal, withRealHub);
  await using stack = new AsyncDisposableStack();
  const clusters = await startWorld(trio.clients, stack, signal);
  for (let at = 0; at < SLICES; at += 1) await deploy(clusters, at);
  await untilImported(clusters, SLICES);
  const crowd = fork(fileURLToPath(new URL("crowd.ts", import.meta.url)));
  using _end = { [Symbol.dispose]: () => crowd.disconnect() };
  await ask(crowd, { do: "watch", kubeconfig: trio.hub.api.kubeconfig, importers });
  const pids = pidsOf(trio)
    .set("crowd", [crowd.pid ?? 0])
    .set("this bench", [process.pid]);
  const world: World = { ...clusters, crowd, pids };
  await measure(world, importers, WARM_UP_RATE);
  const figures: CrowdFigures[] = [];
  for (const rate of rates) figures.push(await measure(world, importers, rate));
  return figures;
}

function pidsOf(trio: Trio): Map<string, readonly number[]> {
  const roles: readonly Role[] = ["hub", "exporter", "importer"];
  return new Map(
    roles.flatMap((role): [string, readonly number[]][] => [
      [`API of ${role}`, trio[role].api.pids],
      [role, [trio[role].program.pid]],
    ]),
  );
}

async function deploy(world: TrioWorld, at: number): Promise<void> {
  const slice = sliceOf({ name: `slice-${at}`, service: `service-${at}` }, endpointsOf(at, "10.0.0.1"));
  await world.exporter.create(ENDPOINT_SLICES, slice, { signal: world.signal });
  await exportService(world, `service-${at}`);
}

/** Ten endpoints, as a busy Service has; the address of the first identifies the change. */
function endpointsOf(at: number, address: string): EndpointSlice["endpoints"] {
  return [address, ...Array.from({ length: 9 }, (_, other) => `10.${at}.0.${other + 1}`)].map((it) => ({
    addresses: [it],
    conditions: { ready: true, serving: true, terminating: false },
    zone: "zone-1",
  }));
}

let lastChange = 0;

async function measure(world: World, importers: number, rate: number): Promise<CrowdFigures> {
  const { exporter, hub, importer, imported, crowd, pids, signal } = world;
  const full: [number, number][] = [];
  using _watch = imported.subscribe(({ after }) =>
    full.push([changeOf(after?.endpoints[0]?.addresses[0] ?? ""), nowMs()]),
  );
  await using writes = await countWrites(
    [...HUB_KINDS.map((of) => [hub, of] as const), [importer, ENDPOINT_SLICES]],
    signal,
  );
  await readReport(crowd);
  const before = await cpuOf(pids);
  const asked = new Map<number, number>();
  const pending: Promise<unknown>[] = [];
  const startMs = systemClock.monotonic();
  for (let at = 0; at < rate * SECONDS; at += 1) {
    const leftMs = startMs + (at * 1000) / rate - systemClock.monotonic();
    if (leftMs > 1) await delay(systemClock, leftMs, signal);
    lastChange += 1;
    const slice = lastChange % SLICES;
    const endpoints = endpointsOf(slice, addressOf(lastChange));
    asked.set(lastChange, nowMs());
    pending.push(
      exporter.mergePatch(ENDPOINT_SLICES, objectKey(NAMESPACE, `slice-${slice}`), { endpoints }, { signal }),
    );
  }
  await Promise.all(pending);
  const cpu = await cpuSince(pids, before, {
    tookMs: systemClock.monotonic() - startMs,
    changes: pending.length,
  });
  await delay(systemClock, SETTLE_MS, signal);
  const report = await readReport(crowd);
  const all = report.importers.map((it) => latenciesOf(asked, it));
  return {
    importers,
    rate,
    crowd: all.flat(),
    kernel: latenciesOf(asked, report.kernel),
    full: latenciesOf(asked, full),
    missing: all.reduce((sum, it) => sum + asked.size - it.length, 0),
    writes: [...writes.counts()]
      .map(([kind, count]) => `${(count / asked.size).toFixed(2)} ${kind}`)
      .join(", "),
    cpu,
  };
}

async function cpuOf(pids: World["pids"]): Promise<Map<string, number>> {
  const used = [...pids].map(async ([name, its]) => [name, (await usageOfAll(its)).cpuMs] as const);
  return new Map(await Promise.all(used));
}

async function cpuSince(
  pids: World["pids"],
  before: ReadonlyMap<string, number>,
  { tookMs, changes }: { readonly tookMs: number; readonly changes: number },
): Promise<string> {
  const after = await cpuOf(pids);
  const used = [...after].map(([name, cpuMs]) => [name, cpuMs - (before.get(name) ?? 0)] as const);
  const total = used.reduce((sum, [, cpuMs]) => sum + cpuMs, 0);
  return [...used, ["all", total] as const]
    .map(([name, cpuMs]) => {
      const share = ((cpuMs / tookMs) * 100).toFixed(0);
      return `${name} ${share} % (${(cpuMs / changes).toFixed(2)} ms a change)`;
    })
    .join(", ");
}

const HUB_KINDS: readonly Resource[] = [
  ENDPOINT_SLICE_EXPORTS,
  ENDPOINT_SLICE_IMPORTS,
  INTERNAL_SERVICE_EXPORTS,
];

/** A change that a newer one of the same slice overtook counts as seen when that was. */
function latenciesOf(asked: ReadonlyMap<number, number>, sightings: Sightings): number[] {
  const latencies: number[] = [];
  const next = new Map<number, number>();
  for (const change of asked.keys()) {
    const slice = change % SLICES;
    if (!next.has(slice)) next.set(slice, change);
  }
  for (const [change, atMs] of sightings) {
    const slice = change % SLICES;
    let waiting = next.get(slice) ?? Number.POSITIVE_INFINITY;
    for (; waiting <= change; waiting += SLICES) {
      const askedMs = asked.get(waiting);
      if (askedMs !== undefined) latencies.push(atMs - askedMs);
    }
    next.set(slice, waiting);
  }
  return latencies;
}

async function readReport(crowd: ChildProcess): Promise<Extract<CrowdReport, { done: "report" }>> {
  const report = await ask(crowd, { do: "report" });
  if (report.done !== "report") throw new Error("unreachable");
  return report;
}

function ask(crowd: ChildProcess, order: CrowdOrder): Promise<CrowdReport> {
  return new Promise((resolve, reject) => {
    const onExit = (): void => reject(new Error("the crowd of importers ended"));
    crowd.once("exit", onExit);
    crowd.once("message", (report) => {
      crowd.off("exit", onExit);
      resolve(report as CrowdReport);
    });
    crowd.send(order);
  });
}

/** What the machine allows: the same number of watchers of one API server, without a fleet between. */
export async function measureRawCrowd(
  importers: number,
  rate: number,
  signal: AbortSignal,
): Promise<readonly number[]> {
  await using api = await startApi("raw");
  const config = await loadKubeconfig(api.kubeconfig);
  await using stack = new AsyncDisposableStack();
  const writer = stack.use(connect(config, deps));
  const key = objectKey("default", "change");
  const { name, namespace } = { name: "change", namespace: "default" };
  await writer.create(CONFIG_MAPS, { metadata: { name, namespace }, data: { at: "-1" } }, { signal });
  const asked = new Map<number, number>();
  const latencies: number[] = [];
  for (let at = 0; at < importers; at += 1) {
    const informer = stack.use(
      createInformer(stack.use(connect(config, deps)), CONFIG_MAPS, { namespace }, deps),
    );
    informer.subscribe(({ after }) => {
      const askedMs = asked.get(Number(after?.data?.["at"] ?? -1));
      if (askedMs !== undefined) latencies.push(nowMs() - askedMs);
    });
    informer.start(signal);
    await informer.synced(signal);
  }
  const padding = "x".repeat(1000);
  const startMs = systemClock.monotonic();
  for (let at = 0; at < rate * SECONDS; at += 1) {
    const leftMs = startMs + (at * 1000) / rate - systemClock.monotonic();
    if (leftMs > 1) await delay(systemClock, leftMs, signal);
    asked.set(at, nowMs());
    void writer
      .mergePatch(CONFIG_MAPS, key, { data: { at: String(at), padding } }, { signal })
      .catch(() => {});
  }
  await delay(systemClock, SETTLE_MS, signal);
  return latencies;
}

export function crowdRow(it: CrowdFigures, raw: readonly number[]): string[] {
  const ms = (of: readonly number[], share: number): string => quantile(of, share).toFixed(0);
  return [
    String(it.importers),
    String(it.rate),
    ms(it.crowd, 0.5),
    ms(it.crowd, 0.99),
    (quantile(it.crowd, 0.99) / quantile(raw, 0.99)).toFixed(1),
    ms(it.kernel, 0.5),
    ms(it.kernel, 0.99),
    ms(it.full, 0.5),
    ms(it.full, 0.99),
    String(it.missing),
    it.writes,
  ];
}
