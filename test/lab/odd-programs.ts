/** Programs of a lab that run otherwise than the lab starts them. */

import { planPrograms } from "@fairlead/lab/programs.ts";
import { die, revive } from "./fault-tools.ts";
import { found, type TestLab } from "../support/lab-fixture.ts";
import { startOne } from "../support/lab-programs.ts";

/** Restarts a program with more flags, until it is `restarted`. */
export async function restartWith(lab: TestLab, name: string, flags: readonly string[]): Promise<void> {
  const program = found(planPrograms(lab.topology, lab.layout).find((it) => it.name === name));
  await die(lab, name);
  await startOne(lab, program, flags);
}

/** Restarts programs as the lab does. */
export async function restarted(lab: TestLab, ...names: readonly string[]): Promise<void> {
  await die(lab, ...names);
  await revive(lab);
}
