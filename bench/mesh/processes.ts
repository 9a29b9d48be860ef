/** What the processes of a lab hold in memory and take of the processors, by program. Source: proc(5). */

import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { delay, systemClock } from "@fairlead/base/clock.ts";
import { findLabProcesses } from "@fairlead/lab/processes.ts";

/** Linux counts processor time in these, on every architecture that Node runs on (proc(5)). Unit: milliseconds. */
const TICK_MS = 10;
const PAGE_BYTES = 4096;

export interface ProgramUsage {
  readonly program: string;
  readonly processes: number;
  /** Unit: bytes. */
  readonly rss: number;
  /** Proportional share: pages that several processes map count once. Unit: bytes. */
  readonly pss: number;
  /** Share of one processor, with that of child processes that have ended. */
  readonly cpu: number;
}

interface Reading {
  readonly program: string;
  readonly rss: number;
  readonly pss: number;
  readonly cpuMs: number;
}

/** Watches all processes of the lab in `labRoot` for `forMs` milliseconds. Ordered by memory, the largest first. */
export async function measurePrograms(labRoot: string, forMs: number): Promise<readonly ProgramUsage[]> {
  const before = readAll(labRoot, false);
  await delay(systemClock, forMs, AbortSignal.timeout(forMs + 60_000));
  const after = readAll(labRoot, true);
  const programs = Map.groupBy(after, ([, it]) => it.program);
  return [...programs]
    .map(([program, all]) => ({
      program,
      processes: all.length,
      rss: sum(all, ([, it]) => it.rss),
      pss: sum(all, ([, it]) => it.pss),
      cpu: sum(all, ([pid, it]) => it.cpuMs - (before.get(pid)?.cpuMs ?? it.cpuMs)) / forMs,
    }))
    .toSorted((a, b) => b.pss - a.pss);
}

function readAll(labRoot: string, withShare: boolean): ReadonlyMap<number, Reading> {
  return new Map(
    findLabProcesses(labRoot).flatMap((pid) => {
      try {
        return [[pid, readOne(pid, withShare)] as const];
      } catch {
        return [];
      }
    }),
  );
}

function readOne(pid: number, withShare: boolean): Reading {
  const read = (file: string): string => readFileSync(`/proc/${pid}/${file}`, "utf8");
  const stat = read("stat");
  // The command may hold spaces; of what follows it, these are user and system time, own and of children.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const ticks = fields.slice(11, 15).reduce((total, it) => total + Number(it), 0);
  const share = withShare ? Number(/^Pss:\s+(\d+) kB/m.exec(read("smaps_rollup"))?.[1] ?? 0) : 0;
  return {
    program: programOf(read("cmdline").split("\0")),
    rss: Number(fields[21]) * PAGE_BYTES,
    pss: share * 1024,
    cpuMs: ticks * TICK_MS,
  };
}

/** The subcommand of Fairlead, or the name of another program. */
function programOf(words: readonly string[]): string {
  const entry = words.findIndex((it) => /\/(?:fairlead\.mjs|main\.ts)$/.test(it));
  return entry < 0 ? basename(words[0] ?? "") : (words[entry + 1] ?? "fairlead");
}

export function sum<T>(items: readonly T[], of: (item: T) => number): number {
  return items.reduce((total, it) => total + of(it), 0);
}
