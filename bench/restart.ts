/**
 * The hub's manager, an importer's and an exporter's are restarted, one after the other, while a fleet holds thousands of
 * slices and endpoints keep changing. How long until changes flow again, is any endpoint withdrawn, is anything written
 * that did not change? Compared with how long the bare program takes to start, and with one list of as many slices.
 *
 *   npm run bench -- restart [--slices 10000]
 */
import { parseArgs } from "node:util";
import { SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import { MCS_SERVICE_IMPORTS } from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  ENDPOINT_SLICE_IMPORTS,
  FLEET_SERVICE_IMPORTS,
  INTERNAL_SERVICE_EXPORTS,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { delay, systemClock } from "@fairlead/base/clock.ts";
import { renderTable } from "@fairlead/fleet/cli/table.ts";
import type { Program } from "./fleet/programs.ts";
import {
  exportService,
  NAMESPACE,
  sliceOf,
  startWorld,
  Trio,
  untilImported,
  type World as TrioWorld,
} from "./fleet/trio.ts";
import { quantile } from "./lab/lab.ts";
import { countWrites } from "./lab/writes.ts";

const SLICES_PER_SERVICE = 10;
const AT_A_TIME = 16;
/** Between two changes while a program restarts. Unit: milliseconds. */
const CHANGE_EVERY_MS = 20;
/** How long changes continue after the program is up again. Unit: milliseconds. */
const AFTER_MS = 5000;

interface World extends TrioWorld {
  readonly slices: number;
}

interface Figures {
  readonly program: string;
  readonly readyMs: number;
  /** From the start of the process until the first change came through. */
  readonly flowsMs: number;
  /** Of the changes made from then on. */
  readonly latencies: readonly number[];
  /** Changes that never came through. */
  readonly lost: number;
  readonly withdrawn: number;
  /** Beyond those that the changes cost. */
  readonly writes: string;
}

export async function run(argv: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...argv],
    options: { slices: { type: "string", default: "10000" } },
  });
  const slices = Number(values.slices);
  const signal = AbortSignal.timeout(1_500_000);
  await using trio = await Trio.start(signal);
  await using stack = new AsyncDisposableStack();
  const world: World = { ...(await startWorld(trio.clients, stack, signal)), slices };
  const filledMs = await fill(world);
  console.log(`${slices} slices exported and imported in ${(filledMs / 1000).toFixed(1)} s`);
  const listMs = await measureList(world);
  console.log(`one list of them: ${listMs.toFixed(0)} ms\n`);
  const rows: Figures[] = [];
  for (const role of ["hub", "importer", "exporter"] as const)
    rows.push(await restart(world, role, () => trio.restart(role)));
  print(rows, listMs);
}

async function fill(world: World): Promise<number> {
  const { exporter, slices, signal } = world;
  const startedMs = systemClock.monotonic();
  const numbers = Array.from({ length: slices }, (_, at) => at).values();
  const work = async (): Promise<void> => {
    for (const at of numbers) {
      const service = `service-${Math.floor(at / SLICES_PER_SERVICE)}`;
      const address = `10.${(at >> 16) & 255}.${(at >> 8) & 255}.${at & 255}`;
      const slice = sliceOf({ name: `slice-${at}`, service }, [
        { addresses: [address], conditions: { ready: true } },
      ]);
      await exporter.create(ENDPOINT_SLICES, slice, { signal });
      if (at % SLICES_PER_SERVICE === 0) await exportService(world, service);
    }
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, work));
  await untilImported(world, slices);
  return systemClock.monotonic() - startedMs;
}

async function measureList({ importer, signal }: World): Promise<number> {
  const startedMs = systemClock.monotonic();
  await importer.list(ENDPOINT_SLICES, { signal });
  return systemClock.monotonic() - startedMs;
}

let lastAddress = 0;

async function restart(world: World, program: string, again: () => Promise<Program>): Promise<Figures> {
  const { exporter, imported, signal } = world;
  const asked = new Map<string, number>();
  const seen = new Map<string, number>();
  let withdrawn = 0;
  using _watch = imported.subscribe(({ before, after }) => {
    const address = after?.endpoints[0]?.addresses[0];
    if (address === undefined) withdrawn += before?.endpoints.length ?? 0;
    else if (asked.has(address) && !seen.has(address)) seen.set(address, systemClock.monotonic());
  });
  await using writes = await countWrites(
    [
      ...HUB_KINDS.map(([of]) => [world.hub, of] as const),
      ...IMPORTER_KINDS.map(([of]) => [world.importer, of] as const),
    ],
    signal,
  );
  const stop = new AbortController();
  const changes = (async () => {
    const pending: Promise<unknown>[] = [];
    while (!stop.signal.aborted) {
      lastAddress += 1;
      const address = `172.${16 + (lastAddress >> 16)}.${(lastAddress >> 8) & 255}.${lastAddress & 255}`;
      // Every change is of another slice: none overtakes another.
      const key = objectKey(NAMESPACE, `slice-${(lastAddress * 7) % world.slices}`);
      asked.set(address, systemClock.monotonic());
      const endpoints = [{ addresses: [address], conditions: { ready: true } }];
      pending.push(exporter.mergePatch(ENDPOINT_SLICES, key, { endpoints }, { signal }));
      await delay(systemClock, CHANGE_EVERY_MS, signal);
    }
    await Promise.all(pending);
  })();
  await delay(systemClock, 500, signal);
  const stopping = systemClock.monotonic();
  const started = await again();
  const startedMs = systemClock.monotonic() - started.readyMs;
  await delay(systemClock, AFTER_MS, signal);
  stop.abort();
  await changes;
  await delay(systemClock, 1000, signal);
  const flowing = Math.min(
    ...[...seen].filter(([, atMs]) => atMs >= startedMs && atMs >= stopping).map(([, atMs]) => atMs),
  );
  const later = [...asked].filter(([, askedMs]) => askedMs >= flowing);
  return {
    program,
    readyMs: started.readyMs,
    flowsMs: flowing - startedMs,
    latencies: later.flatMap(([address, askedMs]) => {
      const atMs = seen.get(address);
      return atMs === undefined ? [] : [atMs - askedMs];
    }),
    lost: [...asked.keys()].filter((it) => !seen.has(it)).length,
    withdrawn,
    writes: beyond(writes.counts(), asked.size),
  };
}

/** Kinds, and how many writes of them one change costs. */
const HUB_KINDS: readonly [Resource, number][] = [
  [ENDPOINT_SLICE_EXPORTS, 1],
  [ENDPOINT_SLICE_IMPORTS, 1],
  [INTERNAL_SERVICE_EXPORTS, 0],
  [FLEET_SERVICE_IMPORTS, 0],
];
const IMPORTER_KINDS: readonly [Resource, number][] = [
  [ENDPOINT_SLICES, 1],
  [MCS_SERVICE_IMPORTS, 0],
  [SERVICES, 0],
];

/** Writes that `changes` of endpoints do not explain. */
function beyond(counts: ReadonlyMap<string, number>, changes: number): string {
  const cost = new Map([...HUB_KINDS, ...IMPORTER_KINDS].map(([of, perChange]) => [of.kind, perChange]));
  const extra = [...counts]
    .map(([kind, count]) => [kind, count - (cost.get(kind) ?? 0) * changes] as const)
    .filter(([, count]) => count > 0);
  return extra.map(([kind, count]) => `${count} ${kind}`).join(", ") || "0";
}

function print(rows: readonly Figures[], listMs: number): void {
  const columns: [string, (it: Figures) => string][] = [
    ["RESTARTED", (it) => it.program],
    ["SERVES AFTER MS", (it) => it.readyMs.toFixed(0)],
    ["CHANGES FLOW AFTER MS", (it) => it.flowsMs.toFixed(0)],
    ["/ (START + LIST)", (it) => (it.flowsMs / (it.readyMs + listMs)).toFixed(2)],
    ["THEN P50 MS", (it) => quantile(it.latencies, 0.5).toFixed(0)],
    ["P99 MS", (it) => quantile(it.latencies, 0.99).toFixed(0)],
    ["CHANGES LOST", (it) => String(it.lost)],
    ["ENDPOINTS WITHDRAWN", (it) => String(it.withdrawn)],
    ["WRITES BEYOND", (it) => it.writes],
  ];
  console.log(
    renderTable(
      columns.map(([head, cell]) => ({ head, cell })),
      rows,
    ),
  );
}
