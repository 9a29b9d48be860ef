import { basename } from "node:path";
import { COMMANDS } from "./commands.ts";
import { runFairlead } from "./run.ts";

/** Runs the command of this process's arguments. Called by the name of one of its programs, the executable is that program. */
export function runAsCalled(): Promise<number> {
  const [, path = "", ...given] = process.argv;
  const name = basename(path);
  const program = COMMANDS.get(name)?.isProgram === true ? [name] : [];
  return runFairlead([...program, ...given]);
}
