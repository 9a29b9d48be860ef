/** The share of a machine that programs use. Processor time is robust where a machine also does other work, and wall time is not. */

import { readdirSync, readFileSync } from "node:fs";
import { LAB_VARIABLE } from "@fairlead/lab/processes.ts";

/** Linux counts processor time in these, on every architecture that Node runs on (proc(5)). Unit: milliseconds. */
const TICK_MS = 10;
const MIB_KIB = 1024;

/** Source: proc(5), fields 14 to 17 of `stat`, behind the command in parentheses. */
function ticksOf(pid: number | "self"): readonly number[] {
  const text = readOf(pid, "stat");
  return text
    .slice(text.lastIndexOf(")") + 2)
    .split(" ")
    .slice(11, 15)
    .map(Number);
}

/** User and system time of programs and of those of their children that have ended. Unit: milliseconds. */
export function cpuOf(pids: readonly number[]): number {
  return pids.flatMap(ticksOf).reduce((sum, it) => sum + it, 0) * TICK_MS;
}

/** Processor time of all programs that this process has started and waited for. Unit: milliseconds. */
export function cpuOfEnded(): number {
  const [, , user = 0, system = 0] = ticksOf("self");
  return (user + system) * TICK_MS;
}

/** Proportional share: a page that several processes map counts once. Unit: MiB. */
export function pssOf(pids: readonly number[]): number {
  const kib = pids.map((pid) => Number(/^Pss:\s+(\d+) kB/m.exec(readOf(pid, "smaps_rollup"))?.[1] ?? 0));
  return kib.reduce((sum, it) => sum + it, 0) / MIB_KIB;
}

/** All processes of a lab, which have its folder in their environment. */
export function processesOf(labFolder: string): number[] {
  const wanted = `${LAB_VARIABLE}=${labFolder}`;
  return readdirSync("/proc")
    .filter((it) => /^\d+$/.test(it))
    .map(Number)
    .filter((pid) => readOf(pid, "environ").split("\0").includes(wanted));
}

/** Reads a file of a process; empty, where the process has ended. */
function readOf(pid: number | "self", file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8");
  } catch {
    return "";
  }
}
