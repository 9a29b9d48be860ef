import { createSocket, type Socket } from "node:dgram";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@fairlead/base/clock.ts";
import { encodeMessage } from "@fairlead/dns/wire/encode.ts";
import { TYPE } from "@fairlead/dns/wire/types.ts";
import { exec } from "@fairlead/base/exec.ts";
import { renderTable } from "@fairlead/fleet/cli/table.ts";
import { measureChanges } from "./dns/change.ts";
import { ENDPOINTS, nameOf, SERVICES, shuffled } from "./dns/data.ts";
import { measureWithDnsperf, type PerfFigures } from "./dns/dnsperf.ts";
import type { Served } from "./dns/serve.ts";
import { type RunningServer, startKnot, startOurs, startUnbound } from "./dns/servers.ts";
import { quantile } from "./lab/lab.ts";

/**
 * Three questions about the cluster-set DNS server, with 10,000 headless services of four endpoints:
 *
 * - answers: how many a second, as a ratio to a program of the same runtime that only sends each datagram back; 100 queries
 *   in flight from a separate process, names in shuffled order;
 * - peers: the same with dnsperf, also for unbound and Knot from Debian with the same records, one thread that answers each;
 *   ours while 100 services change each second, theirs unchanged; p99 at a fixed rate; and what an endpoint costs in memory;
 * - changes: from a write to the API server until an answer has it, which the aim is 50 ms for.
 *
 * Runs of the kinds alternate; medians are printed.
 */
const IN_FLIGHT = 100;
const RUN_MS = 1500;
const ROUNDS = 3;
const AIM_MS = 50;
const CHANGES_PER_SECOND = 100;

export async function run(): Promise<void> {
  await benchEcho();
  const dir = await mkdtemp(join(tmpdir(), "bench-dns-"));
  try {
    await benchPeers(dir);
    await benchChanges(dir);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
  await printMemory();
}

async function benchEcho(): Promise<void> {
  const kinds: readonly Served[] = ["echo", "dns", "dns with changes"];
  const rates = new Map<Served, number[]>(kinds.map((kind) => [kind, []]));
  for (let round = 0; round < ROUNDS; round++) {
    for (const kind of kinds) {
      await using server = await startOurs(kind);
      rates.get(kind)?.push(await load(server.port));
    }
  }
  const limits = rates.get("echo") ?? [];
  for (const [kind, measured] of rates) {
    // Each round has its own limit: what else the machine does weighs on both.
    const ratio = quantile(
      measured.map((rate, round) => rate / (limits[round] ?? 1)),
      0.5,
    );
    const rate = quantile(measured, 0.5).toFixed(0).padStart(8);
    console.log(`${kind.padEnd(18)} ${rate} answers/s  ${ratio.toFixed(2)} of the echo`);
  }
}

async function benchPeers(dir: string): Promise<void> {
  if (!(await isInstalled("dnsperf", "-h"))) {
    console.log(
      "\nno comparison with peers: dnsperf is missing (Debian: apt-get install dnsperf unbound knot)",
    );
    return;
  }
  const starts = new Map<string, () => Promise<RunningServer>>([
    ["fairlead dns, 100 changes/s", () => startOurs("dns with changes")],
  ]);
  if (await isInstalled("unbound", "-V")) starts.set("unbound", () => startUnbound(dir));
  else console.log("\nunbound is missing: not compared");
  if (await isInstalled("knotd", "-V")) starts.set("knot", () => startKnot(dir));
  else console.log("\nknot is missing: not compared");
  const measured = new Map<string, PerfFigures[]>([...starts.keys()].map((name) => [name, []]));
  for (let round = 0; round < ROUNDS; round++) {
    for (const [name, startIt] of starts) {
      await using server = await startIt();
      measured.get(name)?.push(await measureWithDnsperf(dir, server));
    }
  }
  const median = (figures: readonly PerfFigures[], of: keyof PerfFigures): number =>
    quantile(
      figures.map((it) => it[of]),
      0.5,
    );
  const rows = [...measured].map(([name, figures]) => ({ name, figures }));
  const peer = measured.get("unbound");
  const columns = [
    { head: "SERVER", cell: ({ name }: (typeof rows)[number]) => name },
    {
      head: "ANSWERS/S",
      cell: ({ figures }: (typeof rows)[number]) => median(figures, "perSecond").toFixed(0),
    },
    {
      head: "PER CPU SECOND",
      cell: ({ figures }: (typeof rows)[number]) => median(figures, "perCpuSecond").toFixed(0),
    },
    {
      head: "OF UNBOUND",
      cell: ({ figures }: (typeof rows)[number]) =>
        peer === undefined
          ? "-"
          : (median(figures, "perCpuSecond") / median(peer, "perCpuSecond")).toFixed(2),
    },
    { head: "P99 (MS)", cell: ({ figures }: (typeof rows)[number]) => median(figures, "p99").toFixed(2) },
  ];
  console.log(`\n${renderTable(columns, rows)}`);
}

async function benchChanges(dir: string): Promise<void> {
  console.log("");
  for (const rate of [0, CHANGES_PER_SECOND]) {
    const latencies = await measureChanges(dir, rate);
    const [p50, p99] = [quantile(latencies, 0.5), quantile(latencies, 0.99)];
    console.log(
      `change to answer, ${rate} other changes/s: p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms, ` +
        `${(p50 / AIM_MS).toFixed(2)} of the aim (${AIM_MS} ms)`,
    );
  }
}

async function printMemory(): Promise<void> {
  console.log("");
  for (const kind of ["dns without Fleetboard's zone", "dns"] as const) {
    await using server = await startOurs(kind);
    const each = server.zoneBytes / (SERVICES * ENDPOINTS);
    console.log(`${kind.padEnd(30)} ${each.toFixed(0).padStart(5)} bytes of heap for each endpoint`);
  }
}

async function isInstalled(program: string, flag: string): Promise<boolean> {
  return exec(program, [flag], { allowFailure: true }).then(
    () => true,
    () => false,
  );
}

/** Keeps `IN_FLIGHT` queries open for `RUN_MS` and returns the answers per second. */
async function load(port: number): Promise<number> {
  const queries = shuffled(2048).map(query);
  const socket = createSocket({ type: "udp4", recvBufferSize: 1 << 20 });
  await new Promise<void>((resolve) => {
    socket.connect(port, "127.0.0.1", resolve);
  });
  let answers = 0;
  let sent = 0;
  const send = (to: Socket): void => to.send(queries[sent++ % queries.length]!);
  socket.on("message", () => {
    answers++;
    send(socket);
  });
  for (let index = 0; index < IN_FLIGHT; index++) send(socket);
  await pause(RUN_MS / 3);
  const before = answers;
  const startedMs = systemClock.monotonic();
  await pause(RUN_MS);
  const rate = ((answers - before) * 1000) / (systemClock.monotonic() - startedMs);
  socket.close();
  return rate;
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}

function query(service: number): Buffer {
  return encodeMessage({
    id: service,
    response: false,
    opcode: 0,
    authoritative: false,
    truncated: false,
    recursionDesired: true,
    recursionAvailable: false,
    authenticData: false,
    checkingDisabled: false,
    rcode: 0,
    questions: [{ name: nameOf(service), type: TYPE.A, class: 1 }],
    answers: [],
    authorities: [],
    additionals: [],
    edns: { udpSize: 1232, version: 0, dnssecOk: false, options: [] },
  });
}
