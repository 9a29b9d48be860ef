import { printNote } from "#print.ts";
import { FleetError, hasCode, messageOf } from "#errors.ts";
import { createLogger } from "#log.ts";
import { type RuntimeDeps, systemDeps } from "#deps.ts";

/** The exit code for an invalid command line. */
export const MISUSE = 2;

/** With which code a command or a program ends that failed. */
export function exitCodeOf(error: unknown): number {
  return hasCode(error, "OPTION_INVALID", "LAB_NOT_FOUND") ? MISUSE : 1;
}

/** The common part of commands for people: progress on standard error, and one line if a command fails. */
export async function runForPeople(
  name: string,
  body: (context: { readonly deps: RuntimeDeps; readonly signal: AbortSignal }) => Promise<void>,
): Promise<void> {
  const stop = new AbortController();
  const onSignal = (by: NodeJS.Signals): void =>
    stop.abort(new FleetError("ABORTED", `interrupted by ${by}`));
  process.once("SIGINT", onSignal);
  process.once("SIGTERM", onSignal);
  try {
    await body({ deps: systemDeps(createLogger(name, "warn")), signal: stop.signal });
  } catch (error) {
    // Whatever a step says of the end of its wait, it is not the cause.
    printNote(`fairlead ${name}: ${messageOf(stop.signal.aborted ? stop.signal.reason : error)}`);
    process.exitCode = stop.signal.aborted ? 130 : exitCodeOf(error);
  } finally {
    process.off("SIGINT", onSignal);
    process.off("SIGTERM", onSignal);
  }
}

/** A step done that has nothing to say but its name. */
export function sayStep(step: string): void {
  printNote(step);
}
