/**
 * How a fleet grows: members each with its own API server and agent, in a few processes; the hub's API server and
 * `fairlead hub` as separate programs. Every size has the same services and endpoints, spread over its members.
 *
 * Time: from the moment at which the first member asks to join until every member has every slice that it should have.
 * Compared with the same number of objects written to and watched from one API server, in the same run.
 *
 *   npm run bench -- scale [--members 10,50,100,255] [--services 2000] [--endpoints 50000]
 *   npm run bench -- scale --everyone [--members 10,50,255]: a global Service and identities that all members need of each other
 */
import { parseArgs } from "node:util";
import { delay, systemClock } from "@fairlead/base/clock.ts";
import { renderTable } from "@fairlead/fleet/cli/table.ts";
import { measureEveryone } from "./fleet/everyone.ts";
import { startApi, startProgram, shareOfCpu, usageOfAll } from "./fleet/programs.ts";
import { shapeOf } from "./fleet/shape.ts";
import { startWorkers, type Workers } from "./fleet/workers.ts";
import { quantile } from "./lab/lab.ts";
import { measureProfile, type ProfileFigures } from "./fleet/profile.ts";
import { measureRawWrites } from "./fleet/raw.ts";

/** Processes that host members: as many as the machine has processors, and the hub in addition. */
const WORKERS = 2;
/** Unit: milliseconds. */
const IDLE_MS = 10_000;
const SETTLE_MS = 3000;
const CHANGES = 50;
const CHANGE_EVERY_MS = 100;
const BAR_WIDTH = 40;

interface Figures {
  readonly members: number;
  readonly convergeMs: number;
  readonly slices: number;
  readonly endpoints: number;
  /** Resident. Unit: bytes. */
  readonly api: number;
  readonly hub: number;
  /** Of all members together, their API servers included: what came with the fleet. Unit: bytes. */
  readonly membersHeap: number;
  /** Share of one processor, when nothing changes. */
  readonly idle: { readonly api: number; readonly hub: number; readonly members: number };
  readonly latencies: readonly number[];
  readonly profile: readonly ProfileFigures[];
}

export async function run(argv: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      members: { type: "string", default: "10,50,100,255" },
      services: { type: "string", default: "2000" },
      endpoints: { type: "string", default: "50000" },
      everyone: { type: "boolean", default: false },
    },
  });
  if (values.everyone) return measureEveryone(values.members.split(",").map(Number));
  const [services, endpoints] = [Number(values.services), Number(values.endpoints)];
  const rawPerSecond = await measureRawWrites(2000);
  console.log(`one API server, one client: ${rawPerSecond.toFixed(0)} slices a second written and watched\n`);
  const rows: Figures[] = [];
  for (const members of values.members.split(",").map(Number)) {
    rows.push(await measure(members, services, endpoints));
    print(rows, rawPerSecond);
  }
  printProfiles(rows);
  plot("time to converge, s", rows, (it) => it.convergeMs / 1000);
  plot("hub and its API server, bytes per endpoint", rows, (it) => (it.api + it.hub) / endpoints);
  plot("members, bytes per imported endpoint", rows, (it) => it.membersHeap / it.endpoints);
}

async function measure(members: number, services: number, endpoints: number): Promise<Figures> {
  await using api = await startApi("hub");
  await using hub = await startProgram(["hub", "--kubeconfig", api.kubeconfig]);
  const [api0, hub0] = await Promise.all([usageOfAll(api.pids), usageOfAll([hub.pid])]);
  const shape = shapeOf({ members, services, endpoints });
  await using workers = await startWorkers(shape, WORKERS);
  const before = await workers.all({ do: "usage" });
  const startedMs = systemClock.monotonic();
  await workers.all({ do: "join", hubKubeconfig: api.kubeconfig });
  const convergeMs = systemClock.monotonic() - startedMs;
  await delay(systemClock, SETTLE_MS, AbortSignal.timeout(IDLE_MS));
  const [idleApi, idleHub, idleMembers] = await Promise.all([
    shareOfCpu(api.pids, IDLE_MS),
    shareOfCpu([hub.pid], IDLE_MS),
    shareOfCpu(workers.pids, IDLE_MS),
  ]);
  const after = await workers.all({ do: "usage" });
  const sum = (of: typeof after, read: (it: (typeof after)[number]) => number): number =>
    of.reduce((total, it) => total + read(it), 0);
  const [api1, hub1] = await Promise.all([usageOfAll(api.pids), usageOfAll([hub.pid])]);
  const latencies = await measureChanges(workers, shape);
  const profile = await measureProfile(api.kubeconfig, hub.pid);
  return {
    members,
    convergeMs,
    slices: shape.reduce((total, it) => total + it.imports.slices, 0),
    endpoints: sum(after, (it) => it.endpoints),
    api: api1.memory - api0.memory,
    hub: hub1.memory - hub0.memory,
    membersHeap: sum(after, (it) => it.heap) - sum(before, (it) => it.heap),
    idle: { api: idleApi, hub: idleHub, members: idleMembers },
    latencies,
    profile,
  };
}

/** Single endpoint changes at this size: from the write in one member to the importers' EndpointSlices. */
async function measureChanges(workers: Workers, shape: ReturnType<typeof shapeOf>): Promise<number[]> {
  const asked = new Map<string, { readonly member: string; readonly atMs: number }>();
  const seen: { readonly member: string; readonly address: string; readonly atMs: number }[] = [];
  workers.onSeen((it) => seen.push(it));
  for (let at = 0; at < CHANGES; at += 1) {
    const of = shape[(at * 7) % shape.length];
    const own = of?.services.filter((it) => it.addresses.length > 0) ?? [];
    if (of === undefined || own.length === 0) continue;
    const address = `172.16.${Math.floor(at / 250)}.${(at % 250) + 1}`;
    const atMs = await workers.change({ do: "change", member: of.name, service: at % own.length, address });
    asked.set(address, { member: of.name, atMs });
    await delay(systemClock, CHANGE_EVERY_MS, AbortSignal.timeout(IDLE_MS));
  }
  await delay(systemClock, SETTLE_MS, AbortSignal.timeout(IDLE_MS));
  return seen.flatMap((it) => {
    const of = asked.get(it.address);
    return of === undefined || of.member === it.member ? [] : [it.atMs - of.atMs];
  });
}

function printProfiles(rows: readonly Figures[]): void {
  const columns = [
    { head: "profile", cell: (it: ProfileFigures) => it.what },
    { head: "s", cell: (it: ProfileFigures) => (it.ms / 1000).toFixed(1) },
    { head: "hub's CPU, ms", cell: (it: ProfileFigures) => it.cpuMs.toFixed(0) },
  ];
  console.log(
    `\n${renderTable(
      columns,
      rows.flatMap((it) => it.profile),
    )}\n`,
  );
}

function print(rows: readonly Figures[], rawPerSecond: number): void {
  const mib = (bytes: number): string => (bytes / 2 ** 20).toFixed(0);
  const percent = (share: number): string => `${(share * 100).toFixed(1)} %`;
  const columns: [string, (it: Figures) => string][] = [
    ["MEMBERS", (it) => String(it.members)],
    ["CONVERGED S", (it) => (it.convergeMs / 1000).toFixed(1)],
    ["SLICES/S / RAW", (it) => (it.slices / (it.convergeMs / 1000) / rawPerSecond).toFixed(2)],
    ["HUB API MIB", (it) => mib(it.api)],
    ["HUB MIB", (it) => mib(it.hub)],
    ["MEMBER MIB", (it) => (it.membersHeap / it.members / 2 ** 20).toFixed(1)],
    ["BYTES/IMPORTED ENDPOINT", (it) => (it.membersHeap / it.endpoints).toFixed(0)],
    ["IDLE CPU API", (it) => percent(it.idle.api)],
    ["HUB", (it) => percent(it.idle.hub)],
    ["PER MEMBER", (it) => percent(it.idle.members / it.members)],
    ["CHANGE P50 MS", (it) => quantile(it.latencies, 0.5).toFixed(0)],
    ["P99 MS", (it) => quantile(it.latencies, 0.99).toFixed(0)],
  ];
  console.log(
    `${renderTable(
      columns.map(([head, cell]) => ({ head, cell })),
      rows,
    )}\n`,
  );
}

function plot(title: string, rows: readonly Figures[], value: (it: Figures) => number): void {
  const most = Math.max(...rows.map(value));
  const lines = rows.map((it) => {
    const bar = "#".repeat(Math.max(1, Math.round((value(it) / most) * BAR_WIDTH)));
    return `${String(it.members).padStart(5)} ${bar.padEnd(BAR_WIDTH)} ${value(it).toFixed(1)}`;
  });
  console.log(`${title}\n${lines.join("\n")}\n`);
}
