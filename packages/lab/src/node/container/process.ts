import { readFileSync } from "node:fs";

/** A process, told from a later one with the same id by its start time. */
export interface ProcessIdentity {
  readonly pid: number;
  /** Field 22 of /proc/PID/stat. Unit: clock ticks since boot. */
  readonly startTicks: number;
}

/** Reads a line of /proc/PID/stat. The second field, the name, may hold spaces and parentheses (proc_pid_stat(5)). */
export function parseStat(line: string): ProcessIdentity | undefined {
  const pid = Number.parseInt(line, 10);
  const rest = line.slice(line.lastIndexOf(")") + 2).split(" ");
  const startTicks = Number(rest[19]);
  return Number.isInteger(pid) && Number.isInteger(startTicks) ? { pid, startTicks } : undefined;
}

/** Whether the process still runs; one that has ended and was not yet waited for does not. */
export function isRunning({ pid, startTicks }: ProcessIdentity): boolean {
  try {
    const line = readFileSync(`/proc/${pid}/stat`, "utf8");
    const state = line.slice(line.lastIndexOf(")") + 2, line.lastIndexOf(")") + 3);
    return parseStat(line)?.startTicks === startTicks && state !== "Z" && state !== "X";
  } catch {
    return false;
  }
}

/** Sends `signal` unless the process has ended. */
export function signalProcess(identity: ProcessIdentity, signal: NodeJS.Signals): void {
  if (!isRunning(identity)) return;
  try {
    process.kill(identity.pid, signal);
  } catch (error) {
    // Ended between the look and the signal.
    if (!(Error.isError(error) && "code" in error && error.code === "ESRCH")) throw error;
  }
}
