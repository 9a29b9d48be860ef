/** An API server and a hub that start, on an empty server and on one that is as it was, and both at rest. */

import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { delay, systemClock } from "@fairlead/base/clock.ts";
import { type Program, startProgram } from "../fleet/programs.ts";
import type { Checkout } from "./checkout.ts";
import type { Figures } from "./figures.ts";
import { startExporter } from "./hub-change.ts";
import { cpuOf, pssOf } from "./usage.ts";

/** Time for the work of a hub after it is ready. Unit: milliseconds. */
const SETTLE_MS = 4000;
const REST_MS = 10_000;
const QUICK_SETTLE_MS = 2000;
const QUICK_RUN_MS = 60_000;
const WARM_UP_CHANGES = 100;
const CHANGES = 200;

interface World {
  readonly folder: string;
  readonly kubeconfig: string;
  readonly api: Program;
}

export async function measureStart({ folder }: Checkout): Promise<Figures> {
  const figures = new Map<string, number>();
  await withServer(folder, [], async (world) => {
    const pids = [world.api.pid];
    figures.set("API server, until it is ready: CPU ms", cpuOf(pids));
    figures.set("API server, until it is ready: wall ms", world.api.readyMs);
    figures.set("API server: PSS MiB", pssOf(pids));
    for (const which of ["first", "second"])
      for (const [name, value] of await measureHub(world)) figures.set(`hub, ${which} start, ${name}`, value);
  });
  return figures;
}

/** The same in a few seconds, without the time at rest, and what a change costs. */
export async function measureQuickly(folder: string): Promise<Figures> {
  const signal = AbortSignal.timeout(QUICK_RUN_MS);
  const figures = new Map<string, number>();
  await withServer(folder, [], async (world) => {
    const server = [world.api.pid];
    figures.set("API server, until it is ready: CPU ms", cpuOf(server));
    for (const which of ["first", "second"]) {
      const before = cpuOf(server);
      await using hub = await startHub(world);
      const own = [hub.pid];
      await settle(QUICK_SETTLE_MS);
      figures.set(`hub, ${which} start: CPU ms`, cpuOf(own));
      figures.set(`hub, ${which} start: CPU ms of its API server`, cpuOf(server) - before);
      figures.set(`hub, ${which} start: PSS MiB`, pssOf(own));
      figures.set(`hub, ${which} start: PSS MiB of its API server`, pssOf(server));
      if (which === "first") continue;
      await using exporter = await startExporter(world.kubeconfig, signal);
      await exporter.change(WARM_UP_CHANGES);
      const [ownMs, serverMs] = [cpuOf(own), cpuOf(server)];
      await exporter.change(CHANGES);
      figures.set("a change of endpoints: CPU ms of the hub", (cpuOf(own) - ownMs) / CHANGES);
      figures.set("a change of endpoints: CPU ms of its API server", (cpuOf(server) - serverMs) / CHANGES);
    }
  });
  return figures;
}

/** Counts the requests of a hub that starts. Apart from the others: the audit log costs processor time. */
export async function countRequests({ folder }: Checkout): Promise<Figures> {
  const figures = new Map<string, number>();
  await withServer(folder, ["--audit-log-path", "audit.log"], async (world) => {
    const log = join(world.kubeconfig, "../audit.log");
    for (const which of ["first", "second"]) {
      const before = await countsOf(log);
      await using _hub = await startHub(world);
      await settle(SETTLE_MS);
      const after = await countsOf(log);
      figures.set(`hub, ${which} start: requests`, after.requests - before.requests);
      figures.set(`hub, ${which} start: watches of them`, after.watches - before.watches);
    }
  });
  return figures;
}

async function withServer(
  folder: string,
  flags: readonly string[],
  work: (world: World) => Promise<void>,
): Promise<void> {
  const data = await mkdtemp(join(tmpdir(), "fairlead-bench-"));
  try {
    const paths = flags.map((it) => (it.startsWith("--") ? it : join(data, it)));
    const args = ["apiserver", "--data", data, "--port", "0", ...paths];
    await using api = await startProgram(args, { checkout: folder });
    await work({ folder, api, kubeconfig: join(data, "admin.kubeconfig") });
  } finally {
    await rm(data, { recursive: true, force: true });
  }
}

function startHub({ folder, kubeconfig }: World): Promise<Program> {
  return startProgram(["hub", "--kubeconfig", kubeconfig, "--no-leader-elect"], { checkout: folder });
}

async function measureHub(world: World): Promise<Figures> {
  const server = [world.api.pid];
  const before = cpuOf(server);
  await using hub = await startHub(world);
  const own = [hub.pid];
  const figures = new Map([
    ["until it is ready: CPU ms", cpuOf(own)],
    ["until it is ready: CPU ms of its API server", cpuOf(server) - before],
    ["until it is ready: wall ms", hub.readyMs],
  ]);
  await settle(SETTLE_MS);
  const started = [cpuOf(own), cpuOf(server)] as const;
  figures.set("4 s after: CPU ms", started[0]);
  figures.set("4 s after: CPU ms of its API server", started[1] - before);
  figures.set("4 s after: PSS MiB", pssOf(own));
  figures.set("4 s after: PSS MiB of its API server", pssOf(server));
  await settle(REST_MS);
  figures.set("10 s at rest: CPU ms", cpuOf(own) - started[0]);
  figures.set("10 s at rest: CPU ms of its API server", cpuOf(server) - started[1]);
  return figures;
}

/** The end of a watch is another entry, at another stage. */
async function countsOf(log: string): Promise<{ readonly requests: number; readonly watches: number }> {
  const lines = (await readFile(log, "utf8").catch(() => "")).split("\n").filter((it) => it !== "");
  const entries = lines.map((it) => JSON.parse(it) as Entry);
  const ofHub = entries.filter((it) => it.objectRef !== undefined);
  const watches = ofHub.filter((it) => it.verb === "watch" && it.stage === "ResponseStarted").length;
  const others = ofHub.filter((it) => it.verb !== "watch" && it.stage === "ResponseComplete").length;
  return { requests: watches + others, watches };
}

interface Entry {
  readonly stage: string;
  readonly verb: string;
  readonly objectRef?: object;
}

function settle(ms: number): Promise<void> {
  return delay(systemClock, ms, AbortSignal.timeout(ms * 10));
}
