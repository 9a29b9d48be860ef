/**
 * What the managers take of a machine: memory at the start, with many services imported and after changes, and
 * processor time for each change. By default the four programs under the names that fleet-networking calls its own by:
 * the hub's, one that exports, one that imports, and the importer's for MultiClusterServices. With `--against`, the
 * same programs of another checkout too, in turn, and the ratio.
 *
 *   npm run bench -- managers [--own-names] [--against CHECKOUT] [--runs 3] [--slices 200] [--seconds 10] [--rate 50]
 */
import { parseArgs } from "node:util";
import { delay, systemClock } from "@fairlead/base/clock.ts";
import { renderTable } from "@fairlead/fleet/cli/table.ts";
import { change, fill, type Load } from "./fleet/load.ts";
import { startQuartet } from "./fleet/quartet.ts";
import { usageOfAll } from "./fleet/programs.ts";
import { type FleetClients, startWorld, Trio } from "./fleet/trio.ts";

const MIB = 1 << 20;
const RUN_MS = 300_000;
/** Before memory is looked at: what garbage there is of the start may have been collected by then. Unit: milliseconds. */
const IDLE_MS = 5000;
/** Before changes count: a compiler that has not seen the code yet takes twice as long for it. */
const WARM_UP_CHANGES = 500;

/** The managers by role, and the clusters that they manage. */
interface Fleet extends AsyncDisposable {
  readonly clients: FleetClients;
  readonly pids: ReadonlyMap<string, number>;
}

interface Measured extends Load {
  readonly seconds: number;
}

/** Of one program. Memory: resident, and of it what is not a file's. Units: bytes, milliseconds. */
interface Figures {
  readonly idle: readonly [number, number];
  readonly filled: readonly [number, number];
  readonly loaded: readonly [number, number];
  readonly cpuPerChange: number;
}

export async function run(argv: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      "own-names": { type: "boolean", default: false },
      against: { type: "string" },
      runs: { type: "string", default: "3" },
      slices: { type: "string", default: "200" },
      rate: { type: "string", default: "50" },
      seconds: { type: "string", default: "10" },
    },
  });
  const [slices, rate, seconds] = [values.slices, values.rate, values.seconds].map(Number);
  const load: Measured = {
    hasOwnNames: values["own-names"],
    slices: slices ?? 0,
    rate: rate ?? 0,
    seconds: seconds ?? 0,
  };
  const checkouts = [...(values.against === undefined ? [] : [values.against]), undefined];
  const runs = new Map<string | undefined, Map<string, Figures>[]>(checkouts.map((it) => [it, []]));
  for (let at = 0; at < Number(values.runs); at += 1)
    for (const checkout of checkouts) runs.get(checkout)?.push(await measure(checkout, load));
  const [now = [], before] = [...runs.values()].toReversed().map((it) => it);
  print(medians(now), before === undefined ? undefined : medians(before));
}

async function measure(checkout: string | undefined, load: Measured): Promise<Map<string, Figures>> {
  const signal = AbortSignal.timeout(RUN_MS);
  await using fleet = load.hasOwnNames
    ? await startTrio(checkout, signal)
    : await startQuartet(checkout, signal);
  await using stack = new AsyncDisposableStack();
  const world = await startWorld(fleet.clients, stack, signal);
  await delay(systemClock, IDLE_MS, signal);
  const idle = await usageOf(fleet);
  await fill(world, load);
  await delay(systemClock, IDLE_MS, signal);
  const filled = await usageOf(fleet);
  await change(world, load, WARM_UP_CHANGES);
  const before = await usageOf(fleet);
  await change(world, load, load.rate * load.seconds);
  const after = await usageOf(fleet);
  const figures = [...after].map(([role, used]): [string, Figures] => [
    role,
    {
      idle: memoryOf(idle.get(role)),
      filled: memoryOf(filled.get(role)),
      loaded: memoryOf(used),
      cpuPerChange: (used.cpuMs - (before.get(role)?.cpuMs ?? 0)) / (load.rate * load.seconds),
    },
  ]);
  return new Map(figures);
}

async function startTrio(checkout: string | undefined, signal: AbortSignal): Promise<Fleet> {
  const trio = await Trio.start(signal, false, checkout);
  const roles = ["hub", "exporter", "importer"] as const;
  return {
    clients: trio.clients,
    pids: new Map(roles.map((it) => [it, trio[it].program.pid])),
    [Symbol.asyncDispose]: () => trio[Symbol.asyncDispose](),
  };
}

type Usage = Awaited<ReturnType<typeof usageOfAll>>;

async function usageOf({ pids }: Fleet): Promise<Map<string, Usage>> {
  return new Map(
    await Promise.all([...pids].map(async ([role, pid]) => [role, await usageOfAll([pid])] as const)),
  );
}

function memoryOf(used: Usage | undefined): readonly [number, number] {
  return [used?.memory ?? 0, used?.ownMemory ?? 0];
}

function medians(runs: readonly Map<string, Figures>[]): Map<string, Figures> {
  const median = (values: readonly number[]): number =>
    values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
  const of = (role: string, read: (it: Figures) => number): number =>
    median(runs.flatMap((it) => it.get(role) ?? []).map(read));
  const both = (
    role: string,
    read: (it: Figures) => readonly [number, number],
  ): readonly [number, number] => [of(role, (it) => read(it)[0]), of(role, (it) => read(it)[1])];
  return new Map(
    [...(runs[0]?.keys() ?? [])].map((role) => [
      role,
      {
        idle: both(role, (it) => it.idle),
        filled: both(role, (it) => it.filled),
        loaded: both(role, (it) => it.loaded),
        cpuPerChange: of(role, (it) => it.cpuPerChange),
      },
    ]),
  );
}

function print(now: ReadonlyMap<string, Figures>, before: ReadonlyMap<string, Figures> | undefined): void {
  const row = (name: string, figures: readonly Figures[], olds: readonly Figures[]): string[] => [
    name,
    ...[
      (it: Figures) => it.idle[0] / MIB,
      (it: Figures) => it.filled[0] / MIB,
      (it: Figures) => it.loaded[0] / MIB,
      (it: Figures) => it.loaded[1] / MIB,
      (it: Figures) => it.cpuPerChange,
    ].map((read, column) => {
      const sum = (of: readonly Figures[]): number => of.reduce((total, it) => total + read(it), 0);
      const text = sum(figures).toFixed(column === 4 ? 2 : 0);
      return olds.length === 0 ? text : `${text} (${(sum(figures) / sum(olds)).toFixed(2)})`;
    }),
  ];
  const rows = [...now].map(([role, it]) =>
    row(
      role,
      [it],
      [before?.get(role)].filter((old) => old !== undefined),
    ),
  );
  rows.push(row("all", [...now.values()], [...(before?.values() ?? [])]));
  const heads = ["MANAGER", "RSS MIB: IDLE", "FILLED", "UNDER LOAD", "NOT OF FILES", "CPU MS/CHANGE"];
  if (before !== undefined) console.log("In parentheses: the ratio to the other checkout.");
  console.log(
    renderTable(
      heads.map((head, at) => ({ head, cell: (it: string[]) => it[at] ?? "" })),
      rows,
    ),
  );
}
