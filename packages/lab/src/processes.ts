/** Starts, finds and ends the processes of a lab. A process is known by its id together with its start time. */

import { closeSync, mkdirSync, openSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import type { Readable } from "node:stream";
import { replaceFileSync } from "@fairlead/base/replace-file.ts";
import { abortError, type Clock, delay } from "@fairlead/base/clock.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { start } from "@fairlead/base/exec.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import type { LabLayout } from "./layout.ts";
import { runningProcess } from "#node/container/process.ts";
import type { LabProgram } from "./programs.ts";

/** In the environment of everything that a lab starts: the lab's folder. */
export const LAB_VARIABLE = "FAIRLEAD_LAB";

/** In the environment of a program of a lab, and of what it starts: the program's name. */
const PROGRAM_VARIABLE = "FAIRLEAD_PROGRAM";

/** How the command line of a program of a lab ends, and that of what it starts does not. */
const READY_FLAG = ["--ready-fd", "3"] as const;

/** What is on disk of a program that was started. */
export interface ProcessRecord {
  readonly pid: number;
  /** Field 22 of /proc/PID/stat: two processes of one id have different ones. Unit: clock ticks since boot. */
  readonly startTicks: number;
  /** Whether it ever said that it serves. */
  readonly isReady: boolean;
}

export interface Launcher {
  /** The Node binary and what comes before a program's own arguments. */
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** How long a program may take until it serves. Unit: milliseconds. Generous: a busy machine must not fail a lab. */
const READY_TIMEOUT_MS = 60_000;

/**
 * Starts a program in its namespace and resolves when it serves. The program outlives this process.
 *
 * @throws {FleetError} `LAB_INVALID` with the end of its log when it ends before it serves, `TIMED_OUT` when it takes longer than a minute.
 */
export async function startProgram(
  program: LabProgram,
  context: { readonly layout: LabLayout; readonly launcher: Launcher; readonly clock: Clock },
  signal: AbortSignal,
): Promise<void> {
  const { layout, launcher } = context;
  const log = layout.logOf(program.name);
  mkdirSync(dirname(log), { recursive: true });
  mkdirSync(layout.processes, { recursive: true });
  if (program.folder !== undefined) mkdirSync(program.folder, { recursive: true, mode: 0o700 });
  const output = openSync(log, "a", 0o600);
  const [node = "node", ...before] = launcher.command;
  const args = [...before, ...program.args, ...READY_FLAG];
  const line =
    program.netns === undefined
      ? { command: node, args }
      : inNetns(layout.netnsOf(program.netns), node, args);
  const child = start(line.command, line.args, {
    detached: true,
    stdio: ["ignore", output, output, "pipe"],
    env: { ...launcher.env, [LAB_VARIABLE]: layout.root, [PROGRAM_VARIABLE]: program.name },
  });
  closeSync(output);
  const pid = child.pid;
  if (pid !== undefined) writeRecord(layout.processFile(program.name), pid, false);
  child.unref();
  const pipe = child.stdio[3] as Readable;
  try {
    await untilReady(pipe, context.clock, signal);
    if (pid !== undefined) writeRecord(layout.processFile(program.name), pid, true);
  } catch (error) {
    // A repair of the lab must not mistake a program that does not serve yet for one that does.
    if (pid !== undefined) signalProcess(pid, "SIGKILL");
    if (signal.aborted) throw error;
    const said = tail(log, 6);
    throw new FleetError("LAB_INVALID", `cannot start ${program.name}; the end of ${log}:\n${said}`, {
      cause: error,
    });
  } finally {
    pipe.destroy();
  }
}

function untilReady(pipe: Readable, clock: Clock, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    let text = "";
    let isDone = false;
    const timer = clock.after(READY_TIMEOUT_MS, () =>
      finish(new FleetError("TIMED_OUT", `not ready within ${READY_TIMEOUT_MS / 1000} s`)),
    );
    const onAbort = (): void => finish(abortError(signal));
    const finish = (error?: Error): void => {
      if (isDone) return;
      isDone = true;
      timer[Symbol.dispose]();
      signal.removeEventListener("abort", onAbort);
      if (error === undefined) resolve();
      else reject(error);
    };
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) onAbort();
    pipe.on("data", (chunk: Buffer) => {
      text += chunk.toString("utf8");
      if (text.startsWith("ready")) finish();
    });
    pipe.on("error", (error) => finish(error));
    pipe.on("end", () => finish(new FleetError("EXEC_FAILED", "the program ended before it was ready")));
  });
}

/**
 * Ends what runs of programs that are not known to serve: the command that started them was killed before they did, perhaps before
 * it wrote their records. Nothing waits for them any more, and they may hold their addresses.
 */
export async function endUnready(
  layout: LabLayout,
  programs: readonly Pick<LabProgram, "name">[],
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  const wanted = new Set(programs.map((it) => `${PROGRAM_VARIABLE}=${it.name}`));
  const isUnready = (pid: number): boolean =>
    stringsOf(pid, "environ").some((it) => wanted.has(it)) &&
    sameJson(stringsOf(pid, "cmdline").slice(-READY_FLAG.length), READY_FLAG);
  const pids = wanted.size === 0 ? [] : findLabProcesses(layout.root).filter(isUnready);
  await endProcesses(pids, 0, clock, signal);
}

function writeRecord(file: string, pid: number, isReady: boolean): void {
  const startTicks = startTicksOf(pid);
  if (startTicks === undefined) return;
  replaceFileSync(file, JSON.stringify({ pid, startTicks, isReady } satisfies ProcessRecord));
}

/** What is known of a program that lives. */
function readRecord(layout: LabLayout, program: string): ProcessRecord | undefined {
  let record: ProcessRecord;
  try {
    record = JSON.parse(readFileSync(layout.processFile(program), "utf8")) as ProcessRecord;
  } catch {
    return undefined;
  }
  return startTicksOf(record.pid) === record.startTicks ? record : undefined;
}

/** The id of a program that lives; undefined when it never started or has ended. */
export function runningPid(layout: LabLayout, program: string): number | undefined {
  return readRecord(layout, program)?.pid;
}

/** Whether a program lives and has said that it serves. */
export function isServing(layout: LabLayout, program: string): boolean {
  return readRecord(layout, program)?.isReady === true;
}

/** Start time of a living process; undefined for one that is gone or is only waiting to be reaped. */
export function startTicksOf(pid: number): number | undefined {
  return runningProcess(pid)?.startTicks;
}

/** Ids of every process that a lab started, containers' shims included, found by their environment. */
export function findLabProcesses(root: string): readonly number[] {
  const wanted = `${LAB_VARIABLE}=${root}`;
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && pid !== process.pid)
    .filter((pid) => stringsOf(pid, "environ").includes(wanted));
}

/** What a file of /proc/PID lists (proc_pid_environ(5)); nothing for a process that is gone or whose files are not readable. */
function stringsOf(pid: number, file: "environ" | "cmdline"): readonly string[] {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8").split("\0").slice(0, -1);
  } catch {
    return [];
  }
}

/** Sends a signal; a process that is gone is not an error. */
export function signalProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (!(Error.isError(error) && "code" in error && error.code === "ESRCH")) throw error;
  }
}

/** Ends processes: asks first, insists after `graceMs`. Resolves when all are gone. */
export async function endProcesses(
  pids: readonly number[],
  graceMs: number,
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  const living = new Map(pids.map((pid) => [pid, startTicksOf(pid)]));
  const stillThere = (): number[] =>
    [...living]
      .filter(([pid, ticks]) => ticks !== undefined && startTicksOf(pid) === ticks)
      .map(([pid]) => pid);
  if (graceMs > 0) for (const pid of stillThere()) signalProcess(pid, "SIGTERM");
  const insistAtMs = clock.monotonic() + graceMs;
  // The kernel tells only a parent of an end, and these are not our children: looking is the only way.
  for (let left = stillThere(); left.length > 0; left = stillThere()) {
    if (clock.monotonic() >= insistAtMs) for (const pid of left) signalProcess(pid, "SIGKILL");
    await delay(clock, 5, signal);
  }
}

/** The last lines of a file. */
export function tail(file: string, lines: number): string {
  try {
    return readFileSync(file, "utf8").trimEnd().split("\n").slice(-lines).join("\n");
  } catch {
    return "(there is no log)";
  }
}

export function forgetProcess(layout: LabLayout, program: string): void {
  rmSync(layout.processFile(program), { force: true });
}
