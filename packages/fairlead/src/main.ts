import { basename } from "node:path";
import { COMMANDS } from "./commands.ts";
import { runFairlead } from "./run.ts";

/** Called by the name of one of its programs, the executable is that program. */
function asCalled(name: string): readonly string[] {
  return COMMANDS.get(name)?.isProgram === true ? [name] : [];
}

const [, path = "", ...given] = process.argv;
process.exitCode = await runFairlead([...asCalled(basename(path)), ...given]);
