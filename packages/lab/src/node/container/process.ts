import { readFileSync } from "node:fs";

/** A process, told from a later one with the same id by its start time. */
export interface ProcessIdentity {
  readonly pid: number;
  /** Field 22 of /proc/PID/stat. Unit: clock ticks since boot. */
  readonly startTicks: number;
}

/** Set from the moment at which a process begins to exit: PF_EXITING in linux/sched.h. */
const EXITING = 0x4;

/**
 * Reads a line of /proc/PID/stat. The second field, the name, may hold spaces and parentheses (proc_pid_stat(5)).
 *
 * @returns Undefined if it is something else.
 */
export function parseStat(line: string): ProcessIdentity | undefined {
  const { pid, startTicks } = readStat(line);
  return Number.isInteger(pid) && Number.isInteger(startTicks) ? { pid, startTicks } : undefined;
}

/**
 * A process that runs; undefined if it has ended, whether or not it was waited for.
 *
 * The first process of a PID namespace waits for all others there to be waited for (zap_pid_ns_processes in kernel/pid_namespace.c).
 * Process 1 of a container often waits for none, so this may never happen: it has ended when it has no memory any more.
 */
export function runningProcess(pid: number): ProcessIdentity | undefined {
  let line: string;
  try {
    line = readFileSync(`/proc/${pid}/stat`, "utf8");
  } catch {
    return undefined;
  }
  const { state, flags, bytes } = readStat(line);
  const isEmptied = (flags & EXITING) !== 0 && bytes === 0;
  return state === "Z" || state === "X" || isEmptied ? undefined : parseStat(line);
}

function readStat(line: string): {
  readonly pid: number;
  readonly startTicks: number;
  readonly state: string | undefined;
  readonly flags: number;
  /** Virtual memory. */
  readonly bytes: number;
} {
  const rest = line.slice(line.lastIndexOf(")") + 2).split(" ");
  const [state, flags, startTicks, bytes] = [rest[0], rest[6], rest[19], rest[20]];
  return {
    pid: Number.parseInt(line, 10),
    startTicks: Number(startTicks),
    state,
    flags: Number(flags),
    bytes: Number(bytes),
  };
}

/** Whether the process still runs; one that has ended and was not yet waited for does not. */
export function isRunning({ pid, startTicks }: ProcessIdentity): boolean {
  return runningProcess(pid)?.startTicks === startTicks;
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
