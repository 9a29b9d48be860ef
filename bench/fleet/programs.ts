/** Fairlead's programs as separate processes, from the bundle as users run them, and the resources that they use. */

import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { delay, systemClock } from "@fairlead/base/clock.ts";
import { start } from "@fairlead/base/exec.ts";
import { startRealServer } from "../../packages/apiserver/test/real-server.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
/** Linux counts processor time in these, on every architecture that Node runs on (proc(5)). Unit: milliseconds. */
const TICK_MS = 10;
const PAGE_BYTES = 4096;
/** Longest start of a program on a busy machine. Unit: milliseconds. */
const START_MS = 60_000;

export interface Program extends AsyncDisposable {
  readonly pid: number;
  /** From the start of the process until it said that it serves. Unit: milliseconds. */
  readonly readyMs: number;
  /** Ends it and waits. Default: SIGTERM. */
  stop(signal?: NodeJS.Signals): Promise<void>;
}

interface Started {
  /** The checkout whose programs are started. Default: this one. */
  readonly checkout?: string | undefined;
  /** In addition to the bench's environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** Whether its log is discarded: programs with Go's flags cannot be restricted to errors. */
  readonly isSilent?: boolean;
}

/** Starts `fairlead ARGS` and waits until it serves. Its log goes nowhere but for errors. */
export async function startProgram(args: readonly string[], options: Started = {}): Promise<Program> {
  const { checkout = root, env = {}, isSilent = false } = options;
  const startedMs = systemClock.monotonic();
  const command = [...args, "--ready-fd=3", ...(isSilent ? [] : ["--log-level", "error"])];
  const child = start(join(checkout, "bin/fairlead"), command, {
    stdio: ["ignore", "inherit", isSilent ? "ignore" : "inherit", "pipe"],
    env: { ...process.env, ...env },
  });
  const ended = once(child, "exit");
  const ready = child.stdio[3] as Readable;
  const patience = new AbortController();
  await Promise.race([
    once(ready, "data"),
    ended.then(() => Promise.reject(new Error(`fairlead ${args[0] ?? ""} ended before it was ready`))),
    delay(systemClock, START_MS, patience.signal).then(() =>
      Promise.reject(new Error(`fairlead ${args[0] ?? ""} is not ready`)),
    ),
  ]).finally(() => patience.abort());
  const readyMs = systemClock.monotonic() - startedMs;
  const stop = async (signal: NodeJS.Signals = "SIGTERM"): Promise<void> => {
    if (child.exitCode === null && child.signalCode === null) child.kill(signal);
    await ended;
  };
  return { pid: child.pid ?? 0, readyMs, stop, [Symbol.asyncDispose]: () => stop() };
}

export interface ServedApi extends AsyncDisposable {
  /** More than one for a real API server: its etcd is counted too. */
  readonly pids: readonly number[];
  readonly kubeconfig: string;
}

/**
 * An API server in a separate process, in memory as in most tests: the journal is not measured.
 *
 * @param checkout - Where the program comes from. Default: this checkout.
 */
export async function startApi(name: string, checkout?: string): Promise<ServedApi> {
  const dataDir = await mkdtemp(join(tmpdir(), `fairlead-bench-${name}-`));
  const flags = ["--data", dataDir, "--port", "0", "--journal", "none"];
  const program = await startProgram(["apiserver", ...flags], { checkout });
  return {
    pids: [program.pid],
    kubeconfig: join(dataDir, "admin.kubeconfig"),
    [Symbol.asyncDispose]: async () => {
      await program.stop();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

/** The kube-apiserver and etcd that KUBEBUILDER_ASSETS names, the latter without fsync, as envtest has it. */
export async function startRealApi(): Promise<ServedApi> {
  const { kubeconfig, pids, [Symbol.asyncDispose]: dispose } = await startRealServer();
  return { kubeconfig, pids, [Symbol.asyncDispose]: dispose };
}

export interface Usage {
  /** Resident. Unit: bytes. */
  readonly memory: number;
  /** Of it, what no file holds: a page of the executable is in memory once, however many programs run it. Unit: bytes. */
  readonly ownMemory: number;
  /** Processor time since the process began. Unit: milliseconds. */
  readonly cpuMs: number;
}

/** Source: proc(5), `statm` (pages: the second field, and the third of files) and `stat` (fields 14 and 15, behind the command in parentheses). */
async function usageOf(pid: number): Promise<Usage> {
  const [statm, stat] = await Promise.all([
    readFile(`/proc/${pid}/statm`, "utf8"),
    readFile(`/proc/${pid}/stat`, "utf8"),
  ]);
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const ticks = Number(fields[11]) + Number(fields[12]);
  const [, resident = 0, ofFiles = 0] = statm.split(" ").map(Number);
  return {
    memory: resident * PAGE_BYTES,
    ownMemory: (resident - ofFiles) * PAGE_BYTES,
    cpuMs: ticks * TICK_MS,
  };
}

/** The most that a process has had in memory. Source: proc(5), `VmHWM` of `status`. Unit: bytes. */
export async function peakMemory(pid: number): Promise<number> {
  const [, kilobytes = "0"] =
    /^VmHWM:\s*(\d+) kB$/m.exec(await readFile(`/proc/${pid}/status`, "utf8")) ?? [];
  return Number(kilobytes) * 1024;
}

/** Of several processes together. */
export async function usageOfAll(pids: readonly number[]): Promise<Usage> {
  const all = await Promise.all(pids.map(usageOf));
  return all.reduce((sum, it) => ({
    memory: sum.memory + it.memory,
    ownMemory: sum.ownMemory + it.ownMemory,
    cpuMs: sum.cpuMs + it.cpuMs,
  }));
}

/** Processor time of all `pids` during `ms` milliseconds, as a share of one processor. */
export async function shareOfCpu(pids: readonly number[], ms: number): Promise<number> {
  const before = await usageOfAll(pids);
  await delay(systemClock, ms, AbortSignal.timeout(ms * 10));
  return ((await usageOfAll(pids)).cpuMs - before.cpuMs) / ms;
}
