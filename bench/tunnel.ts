/**
 * What does the way of a packet from pod to pod cost, beyond the encryption? Compared with a bare WireGuard tunnel between the
 * nodes, configured by hand, and with the link between the nodes itself, in turns in the same run.
 *
 *   npm run bench -- tunnel [--rounds 5] [--seconds 3]
 *
 * Throughput and CPU by iperf3 (Debian package iperf3): CPU is that of both ends and of wireguard-go, per gigabit received.
 */
import { parseArgs } from "node:util";
import { exec } from "@fairlead/base/exec.ts";
import { findProgram } from "@fairlead/base/find-program.ts";
import { renderTable } from "@fairlead/fleet/cli/table.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import { cpuSeconds, type Path, receive, send } from "./tunnel/load.ts";
import { startTunnelWorld } from "./tunnel/world.ts";

interface Figures {
  readonly megabits: number[];
  readonly cpuPerGigabit: number[];
  readonly rttMs: number[];
}

/** Of pings, for the median. They are 5 ms apart. */
const PINGS = 100;

export async function run(argv: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...argv],
    options: { rounds: { type: "string", default: "5" }, seconds: { type: "string", default: "3" } },
  });
  const [rounds, seconds] = [Number(values.rounds), Number(values.seconds)];
  if (findProgram("iperf3", process.env["PATH"] ?? "") === undefined)
    throw new Error("iperf3 is missing: install the Debian package iperf3");
  const signal = AbortSignal.timeout((rounds * 3 * (seconds + 10) + 60) * 1000);
  await using world = await startTunnelWorld(signal);
  console.log(`pods are linked by ${world.kind}; ${rounds} rounds of ${seconds} s for each path\n`);
  const all = new Map<Path, Figures>(
    world.paths.map((it) => [it, { megabits: [], cpuPerGigabit: [], rttMs: [] }]),
  );
  for (let round = 0; round < rounds; round++) {
    for (const [path, figures] of all) await measure(path, figures, { seconds, signal });
  }
  print(all);
}

async function measure(
  path: Path,
  figures: Figures,
  options: { readonly seconds: number; readonly signal: AbortSignal },
): Promise<void> {
  figures.rttMs.push(await medianRtt(path, options.signal));
  await using _ = await receive(path, options.signal);
  const before = cpuSeconds(path.pids);
  const { bits, cpuSeconds: ends } = await send(path, options);
  const tunnels = cpuSeconds(path.pids) - before;
  figures.megabits.push(bits / options.seconds / 1e6);
  figures.cpuPerGigabit.push((ends + tunnels) / (bits / 1e9));
}

async function medianRtt({ from, to }: Path, signal: AbortSignal): Promise<number> {
  const line = inNetns(from, "ping", ["-c", String(PINGS), "-i", "0.005", to]);
  const { stdout } = await exec(line.command, line.args, { signal });
  return median([...stdout.matchAll(/time=([\d.]+) ms/g)].map((it) => Number(it[1])));
}

function print(all: ReadonlyMap<Path, Figures>): void {
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
  const [ours, ...others] = [...all];
  for (const [path, figures] of others) {
    if (ours === undefined) continue;
    const ratio = (of: keyof Figures): string => medianRatio(ours[1][of], figures[of]).toPrecision(2);
    console.log(
      `${ours[0].name}, of ${path.name}: throughput ${ratio("megabits")}, CPU per gigabit ${ratio("cpuPerGigabit")}, RTT ${ratio("rttMs")}`,
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
