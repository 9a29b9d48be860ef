/**
 * A parallel network of many clusters with equal addresses, each behind NAT, with one gateway each: how long until every gateway
 * reaches every other, whether `fairlead verify` passes between all ordered pairs, and what it takes of memory and processors.
 *
 * Compared with a lab of as many clusters in the flat topology without tunnels, in the same run, if `--flat` is given.
 *
 *   npm run bench -- mesh [--members 20] [--flat]
 *
 * Ends with exit code 1 if a pair fails. `npm run test:full` includes it.
 */
import { parseArgs } from "node:util";
import { delay, systemClock } from "@fairlead/base/clock.ts";
import { exec } from "@fairlead/base/exec.ts";
import { GATEWAYS } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { renderTable } from "@fairlead/fleet/cli/table.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { type BenchLab, root, startBenchLab } from "./lab/lab.ts";
import { measurePrograms, type ProgramUsage, sum } from "./mesh/processes.ts";

/** Unit: milliseconds. */
const MESH_TIMEOUT_MS = 240_000;
const LOOK_MS = 500;
/** Until paths have been chosen and MTUs found, nothing is idle. */
const SETTLE_MS = 30_000;
const IDLE_MS = 20_000;
const VERIFY_TIMEOUT_MS = 300_000;
const CHECKS = ["tcp", "service-tcp"];

export async function run(argv: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...argv],
    options: { members: { type: "string", default: "20" }, flat: { type: "boolean", default: false } },
  });
  const members = Number(values.members);
  {
    await using lab = await startBenchLab("mesh", { members, nodes: 1, topology: "nat" });
    const upMs = systemClock.monotonic();
    console.log(`lab up: a hub and ${members} members behind NAT in ${seconds(lab.upMs)}`);
    await untilMeshed(await lab.client("hub"), members);
    console.log(
      `all ${members * (members - 1)} tunnels answer ${seconds(systemClock.monotonic() - upMs)} later`,
    );
    await delay(systemClock, SETTLE_MS, AbortSignal.timeout(2 * SETTLE_MS));
    print(members, await measurePrograms(lab.layout.root, IDLE_MS));
    await verify(lab);
  }
  if (values.flat) {
    await using lab = await startBenchLab("mesh", { members, nodes: 1 });
    console.log(`\nlab up: a hub and ${members} members of a flat network in ${seconds(lab.upMs)}`);
    print(members, await measurePrograms(lab.layout.root, IDLE_MS));
    await verify(lab);
  }
}

/** Waits until each gateway has reported a living path to each other one. */
async function untilMeshed(hub: KubeClient, members: number): Promise<void> {
  const signal = AbortSignal.timeout(MESH_TIMEOUT_MS);
  for (let living = 0; living < members * (members - 1);) {
    await delay(systemClock, LOOK_MS, signal);
    const { items } = await hub.list(GATEWAYS, { signal });
    const ways = items.flatMap(({ spec, status }) =>
      (status?.paths ?? []).flatMap((it) => (it.path === "none" ? [] : [`${spec.cluster} ${it.cluster}`])),
    );
    living = new Set(ways).size;
  }
}

interface Verified {
  readonly summary: {
    readonly pairs: number;
    readonly pairsPassed: number;
    readonly checks: number;
    readonly failed: number;
  };
}

async function verify(lab: BenchLab): Promise<void> {
  const startedMs = systemClock.monotonic();
  const where = ["--kubeconfig", lab.layout.kubeconfig, "--hub-context", "hub"];
  const checks = CHECKS.flatMap((it) => ["--check", it]);
  const { stdout } = await exec(`${root}bin/fairlead`, ["verify", ...where, ...checks, "--output", "json"], {
    timeoutMs: VERIFY_TIMEOUT_MS,
    allowFailure: true,
  });
  const { pairs, pairsPassed, checks: count, failed } = (JSON.parse(stdout) as Verified).summary;
  const time = seconds(systemClock.monotonic() - startedMs);
  console.log(
    `fairlead verify: ${pairsPassed} of ${pairs} ordered pairs pass pod to pod and pod to service, IPv4 and IPv6; ${failed} of ${count} checks failed; ${time}`,
  );
  if (pairsPassed < pairs) process.exitCode = 1;
}

function print(members: number, programs: readonly ProgramUsage[]): void {
  const mib = (bytes: number): string => (bytes / 2 ** 20).toFixed(1);
  const all: ProgramUsage = {
    program: "all",
    processes: sum(programs, (it) => it.processes),
    rss: sum(programs, (it) => it.rss),
    pss: sum(programs, (it) => it.pss),
    cpu: sum(programs, (it) => it.cpu),
  };
  const columns: [string, (it: ProgramUsage) => string][] = [
    ["PROGRAM", (it) => it.program],
    ["PROCESSES", (it) => String(it.processes)],
    ["RSS MIB", (it) => mib(it.rss)],
    ["PSS MIB", (it) => mib(it.pss)],
    ["PSS MIB/CLUSTER", (it) => mib(it.pss / members)],
    ["IDLE CPU", (it) => `${(it.cpu * 100).toFixed(1)} %`],
    ["CPU/CLUSTER", (it) => `${((it.cpu * 100) / members).toFixed(2)} %`],
  ];
  const table = renderTable(
    columns.map(([head, cell]) => ({ head, cell })),
    [...programs, all],
  );
  console.log(`\n${table}\n`);
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
