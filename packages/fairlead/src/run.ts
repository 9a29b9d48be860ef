import { printNote, printText } from "@fairlead/base/print.ts";
import { CommanderError } from "@commander-js/extra-typings";
import { messageOf } from "@fairlead/base/errors.ts";
import { nearest } from "@fairlead/base/text.ts";
import { exitCodeOf, MISUSE } from "@fairlead/base/program/people.ts";
import { COMMANDS, loadCommand } from "./commands.ts";
import { VERSION } from "@fairlead/base/version.ts";

/**
 * What the one executable does. Only the module of the command that was asked for is loaded, so that each program starts with no
 * more than it needs.
 */
export const USAGE = `Fairlead: fleet networking for Kubernetes.

Usage: fairlead COMMAND [flags]

Commands:
${[...COMMANDS]
  .filter(([, entry]) => entry.hidden !== true)
  .map(([name, entry]) => `  ${name.padEnd(29)} ${entry.summary}`)
  .join("\n")}

"fairlead COMMAND --help" shows the flags of a command, "fairlead --version" the version.
`;

/** @returns The code to end with: 0, 1 when the command failed, 2 when its command line could not be understood, or its own. */
export async function runFairlead(argv: readonly string[]): Promise<number> {
  const [name, ...rest] = argv;
  switch (name) {
    case undefined:
      printNote(USAGE.trimEnd());
      return MISUSE;
    case "help":
      if (rest.length > 0) return runFairlead([...rest, "--help"]);
      printText(USAGE.trimEnd());
      return 0;
    case "--help":
    case "-h":
      printText(USAGE.trimEnd());
      return 0;
    case "--version":
    case "-V":
      printText(`fairlead ${VERSION}`);
      return 0;
    default:
      return run(name, rest);
  }
}

async function run(name: string, argv: readonly string[]): Promise<number> {
  const entry = COMMANDS.get(name);
  if (entry === undefined) {
    const like = nearest(
      name,
      [...COMMANDS].flatMap(([it, { hidden }]) => (hidden === true ? [] : it)),
    );
    const meant = like === undefined ? "" : `, did you mean "fairlead ${like}"?`;
    printNote(
      `fairlead: unknown command ${JSON.stringify(name)}${meant || "."} Run "fairlead --help" for a list.`,
    );
    return MISUSE;
  }
  try {
    const command = await loadCommand(name, entry);
    await command.parseAsync(argv, { from: "user" });
  } catch (error) {
    // What is wrong, or the help that was asked for, has been printed.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : MISUSE;
    printNote(`fairlead ${name}: ${messageOf(error)}`);
    // An interrupted command has set the exit code that shells expect.
    return typeof process.exitCode === "number" && process.exitCode !== 0
      ? process.exitCode
      : exitCodeOf(error);
  }
  return typeof process.exitCode === "number" ? process.exitCode : 0;
}
