/** Starts programs of a lab as the lab does, without its command: that costs as much as what it starts. */

import { readFileSync } from "node:fs";
import { systemClock } from "@fairlead/base/clock.ts";
import type { LabLayout } from "@fairlead/lab/layout.ts";
import { isServing, type Launcher, type ProcessRecord, startProgram } from "@fairlead/lab/processes.ts";
import { type LabProgram, planPrograms } from "@fairlead/lab/programs.ts";
import type { LabTopology } from "@fairlead/lab/topology.ts";

/** The programs of a lab, with how they were started. */
export interface LabPrograms {
  readonly layout: LabLayout;
  readonly topology: LabTopology;
  readonly launcher: Launcher;
}

/** The id of a program of the lab, out of its record. */
export function pidOf({ layout }: Pick<LabPrograms, "layout">, program: string): number {
  return (JSON.parse(readFileSync(layout.processFile(program), "utf8")) as ProcessRecord).pid;
}

/** How one of its programs was started, which is running: all are started in the same way. */
export function launcherOf(lab: Pick<LabPrograms, "layout">, program: string): Launcher {
  const parts = (file: string): string[] =>
    readFileSync(`/proc/${pidOf(lab, program)}/${file}`, "utf8")
      .split("\0")
      .filter((it) => it !== "");
  const line = parts("cmdline");
  const command = line.slice(0, line.indexOf(program.slice(program.indexOf("/") + 1)));
  const env = parts("environ").map((it) => [it.slice(0, it.indexOf("=")), it.slice(it.indexOf("=") + 1)]);
  return { command, env: Object.fromEntries(env) as Record<string, string> };
}

/** Starts what does not run, API servers before the rest. Their objects outlived them. */
export async function startStopped(
  lab: LabPrograms,
  isMeant: (program: LabProgram) => boolean = () => true,
): Promise<void> {
  const stopped = planPrograms(lab.topology, lab.layout).filter(
    (it) => isMeant(it) && !isServing(lab.layout, it.name),
  );
  for (const stage of ["apiserver", "rest"] as const)
    await Promise.all(stopped.filter((it) => it.stage === stage).map((it) => startOne(lab, it)));
}

/** Starts a program that does not run, with these flags in addition to those that the lab gives it. */
export async function startOne(
  { layout, launcher }: LabPrograms,
  program: LabProgram,
  flags: readonly string[] = [],
): Promise<void> {
  await startProgram(
    { ...program, args: [...program.args, ...flags] },
    { layout, launcher, clock: systemClock },
    AbortSignal.timeout(60_000),
  );
}
