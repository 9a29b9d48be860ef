import { basename } from "node:path";
import { COMMANDS } from "./commands.ts";
import { runFairlead } from "./run.ts";

/** Runs the command of this process's arguments. Called by the name of one of its programs, the executable is that program. */
export function runAsCalled(): Promise<number> {
  process.stdout.on("error", endWithReader);
  const [, path = "", ...given] = process.argv;
  const name = basename(path);
  const program = COMMANDS.get(name)?.isProgram === true ? [name] : [];
  return runFairlead([...program, ...given]);
}

/** The code that shells report of a program that SIGPIPE ended. */
const NO_READER = 141;

/** Exits quietly if the reader of the output has exited, as in "fairlead status | head". */
function endWithReader(error: NodeJS.ErrnoException): void {
  if (error.code !== "EPIPE") throw error;
  process.exit(NO_READER);
}
