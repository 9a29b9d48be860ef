/** Programs of a lab that run otherwise than the lab starts them. */

import { readFileSync } from "node:fs";
import { systemClock } from "@fairlead/base/clock.ts";
import { startProgram } from "@fairlead/lab/processes.ts";
import { planPrograms } from "@fairlead/lab/programs.ts";
import { die, revive } from "./fault-tools.ts";
import { found, pidOf, type TestLab } from "../support/lab-fixture.ts";

/** Restarts a program with more flags, until it is `restarted`. */
export async function restartWith(lab: TestLab, name: string, flags: readonly string[]): Promise<void> {
  const program = found(planPrograms(lab.topology, lab.layout).find((it) => it.name === name));
  const pid = pidOf(lab, name);
  const parts = (file: string): string[] =>
    readFileSync(`/proc/${pid}/${file}`, "utf8")
      .split("\0")
      .filter((it) => it !== "");
  const line = parts("cmdline");
  const command = line.slice(0, line.indexOf(found(program.args[0])));
  const env = Object.fromEntries(
    parts("environ").map((it) => [it.slice(0, it.indexOf("=")), it.slice(it.indexOf("=") + 1)]),
  );
  await die(lab, name);
  await startProgram(
    { ...program, args: [...program.args, ...flags] },
    { layout: lab.layout, launcher: { command, env }, clock: systemClock },
    AbortSignal.timeout(60_000),
  );
}

/** Restarts programs as the lab does. */
export async function restarted(lab: TestLab, ...names: readonly string[]): Promise<void> {
  await die(lab, ...names);
  await revive(lab);
}
