import { once } from "node:events";
import { readFileSync } from "node:fs";
import { exec, start } from "@fairlead/base/exec.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";

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

/** Accepts one sender. */
export async function receive({ toNetns }: Path, signal: AbortSignal): Promise<AsyncDisposable> {
  const line = inNetns(toNetns, "iperf3", ["--server", "--one-off", "--forceflush"]);
  const child = start(line.command, line.args, { stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(child, "exit");
  // Only this server writes there, and first that it listens.
  if (child.stdout !== null) await once(child.stdout, "data", { signal });
  return {
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await ended;
    },
  };
}

interface Report {
  readonly end: {
    readonly sum_received: { readonly bytes: number; readonly seconds: number };
    readonly cpu_utilization_percent: { readonly host_total: number; readonly remote_total: number };
  };
}

export async function send(
  { from, to }: Path,
  { seconds, signal }: { readonly seconds: number; readonly signal: AbortSignal },
): Promise<{ readonly bits: number; readonly cpuSeconds: number }> {
  const line = inNetns(from, "iperf3", ["--client", to, "--time", String(seconds), "--json"]);
  const { stdout } = await exec(line.command, line.args, { signal, timeoutMs: (seconds + 20) * 1000 });
  const { end } = JSON.parse(stdout) as Report;
  const { host_total: host, remote_total: remote } = end.cpu_utilization_percent;
  return {
    bits: end.sum_received.bytes * 8,
    cpuSeconds: ((host + remote) / 100) * end.sum_received.seconds,
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
