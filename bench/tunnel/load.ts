import { once } from "node:events";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { abortable } from "@fairlead/base/abortable.ts";
import { exec, start } from "@fairlead/base/exec.ts";
import { findProgram } from "@fairlead/base/find-program.ts";
import { type CommandLine, inNetns } from "@fairlead/os/netns/netns.ts";

/** A way from one network namespace to an address in another. */
export interface Path {
  readonly name: string;
  /** Files of network namespaces. */
  readonly from: string;
  readonly toNetns: string;
  readonly to: string;
  /** The processes that carry the packets. */
  readonly pids: readonly number[];
}

export interface Transfer {
  readonly bits: number;
  /** Of both ends. */
  readonly cpuSeconds: number;
}

interface TransferOptions {
  readonly seconds: number;
  readonly signal: AbortSignal;
}

/** One TCP connection, by iperf3 if it is installed, else by a sender of our own. */
export async function transfer(path: Path, options: TransferOptions): Promise<Transfer> {
  return hasIperf3() ? byIperf3(path, options) : byOwnSender(path, options);
}

export function hasIperf3(): boolean {
  return findProgram("iperf3", process.env["PATH"] ?? "") !== undefined;
}

async function byIperf3(
  { from, to, toNetns }: Path,
  { seconds, signal }: TransferOptions,
): Promise<Transfer> {
  await using _ = await receive(
    inNetns(toNetns, "iperf3", ["--server", "--one-off", "--forceflush"]),
    signal,
  );
  const line = inNetns(from, "iperf3", ["--client", to, "--time", String(seconds), "--json"]);
  const { stdout } = await exec(line.command, line.args, { signal, timeoutMs: (seconds + 20) * 1000 });
  const { end } = JSON.parse(stdout) as IperfReport;
  const { host_total: host, remote_total: remote } = end.cpu_utilization_percent;
  const { bytes, seconds: took } = end.sum_received;
  return { bits: bytes * 8, cpuSeconds: ((host + remote) / 100) * took };
}

interface IperfReport {
  readonly end: {
    readonly sum_received: { readonly bytes: number; readonly seconds: number };
    readonly cpu_utilization_percent: { readonly host_total: number; readonly remote_total: number };
  };
}

async function byOwnSender(
  { from, to, toNetns }: Path,
  { seconds, signal }: TransferOptions,
): Promise<Transfer> {
  const program = fileURLToPath(new URL("own-sender.ts", import.meta.url));
  await using receiver = await receive(inNetns(toNetns, process.execPath, [program, "receive"]), signal);
  const line = inNetns(from, process.execPath, [program, "send", to, String(seconds)]);
  const { stdout } = await exec(line.command, line.args, { signal, timeoutMs: (seconds + 20) * 1000 });
  const ends = [stdout, await receiver.text()].map((it) => JSON.parse(it) as OwnReport);
  return {
    bits: (ends[1]?.bytes ?? 0) * 8,
    cpuSeconds: ends.reduce((sum, it) => sum + it.cpuSeconds, 0),
  };
}

interface OwnReport {
  readonly bytes: number;
  readonly cpuSeconds: number;
}

interface Receiver extends AsyncDisposable {
  /** What it printed after it said that it listens. */
  text(): Promise<string>;
}

/** Starts a program that accepts one sender, and resolves when it listens. */
async function receive({ command, args }: CommandLine, signal: AbortSignal): Promise<Receiver> {
  const child = start(command, args, { stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(child, "close");
  const pieces: string[] = [];
  const first = Promise.withResolvers<void>();
  child.stdout?.on("data", (piece: Buffer) => {
    pieces.push(String(piece));
    first.resolve();
  });
  await abortable(first.promise, signal);
  return {
    async text() {
      await abortable(ended, signal);
      return pieces.join("").trim().split("\n").at(-1) ?? "";
    },
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await ended;
    },
  };
}

/** USER_HZ of proc_pid_stat(5), the same on all machines. */
const TICKS_PER_SECOND = 100;

/** User and system time of processes so far. */
export function cpuSeconds(pids: readonly number[]): number {
  const ticks = pids.map((pid) => {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // Behind the name, which may hold anything, these are the fields from the third.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return Number(fields[11]) + Number(fields[12]);
  });
  return ticks.reduce((sum, it) => sum + it, 0) / TICKS_PER_SECOND;
}
