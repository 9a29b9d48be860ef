import { exec } from "@fairlead/base/exec.ts";
import { renderTable } from "@fairlead/fleet/cli/table.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import { cpuSeconds, hasIperf3, type Path, transfer } from "./load.ts";

interface Figures {
  readonly megabits: number[];
  readonly cpuPerGigabit: number[];
  readonly rttMs: number[];
}

/** Of pings, for the median. They are 5 ms apart. */
const PINGS = 100;

/**
 * Measures paths in turns, and prints them, and ratios to the limit: of the first to each of the others, or of the others to
 * the first.
 */
export async function comparePaths(
  paths: readonly Path[],
  options: {
    readonly rounds: number;
    readonly seconds: number;
    readonly signal: AbortSignal;
    readonly limit: "first" | "others";
  },
): Promise<void> {
  const sender = hasIperf3() ? "iperf3" : "a sender of our own, since iperf3 is missing";
  console.log(`${options.rounds} rounds of ${options.seconds} s for each path, by ${sender}\n`);
  const all = new Map<Path, Figures>(paths.map((it) => [it, { megabits: [], cpuPerGigabit: [], rttMs: [] }]));
  for (let round = 0; round < options.rounds; round++)
    for (const [path, figures] of all) await measure(path, figures, options);
  print(all, options.limit);
}

async function measure(
  path: Path,
  figures: Figures,
  options: { readonly seconds: number; readonly signal: AbortSignal },
): Promise<void> {
  figures.rttMs.push(await medianRtt(path, options.signal));
  const before = cpuSeconds(path.pids);
  const { bits, cpuSeconds: ends } = await transfer(path, options);
  const tunnels = cpuSeconds(path.pids) - before;
  figures.megabits.push(bits / options.seconds / 1e6);
  figures.cpuPerGigabit.push((ends + tunnels) / (bits / 1e9));
}

async function medianRtt({ from, to }: Path, signal: AbortSignal): Promise<number> {
  const line = inNetns(from, "ping", ["-c", String(PINGS), "-i", "0.005", to]);
  const { stdout } = await exec(line.command, line.args, { signal });
  return median([...stdout.matchAll(/time=([\d.]+) ms/g)].map((it) => Number(it[1])));
}

function print(all: ReadonlyMap<Path, Figures>, limit: "first" | "others"): void {
  const spread = (of: readonly number[], digits: number): string =>
    `${median(of).toFixed(digits)} (${Math.min(...of).toFixed(digits)} to ${Math.max(...of).toFixed(digits)})`;
  const columns: [string, (it: [Path, Figures]) => string][] = [
    ["PATH", ([path]) => path.name],
    ["MBIT/S", ([, it]) => spread(it.megabits, 0)],
    ["CPU S PER GBIT", ([, it]) => spread(it.cpuPerGigabit, 2)],
    ["RTT MS", ([, it]) => spread(it.rttMs, 3)],
  ];
  console.log(
    renderTable(
      columns.map(([head, cell]) => ({ head, cell })),
      [...all],
    ),
  );
  const [first, ...others] = [...all];
  for (const other of others) {
    if (first === undefined) continue;
    const [ours, theirs] = limit === "first" ? [other, first] : [first, other];
    const ratio = (of: keyof Figures): string => medianRatio(ours[1][of], theirs[1][of]).toPrecision(2);
    console.log(
      `${ours[0].name}, of ${theirs[0].name}: throughput ${ratio("megabits")}, CPU per gigabit ${ratio("cpuPerGigabit")}, RTT ${ratio("rttMs")}`,
    );
  }
}

/** Of the rounds: what disturbs one disturbs its neighbours alike. */
function medianRatio(ours: readonly number[], theirs: readonly number[]): number {
  return median(ours.map((it, at) => it / (theirs[at] ?? Number.NaN)));
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
}
