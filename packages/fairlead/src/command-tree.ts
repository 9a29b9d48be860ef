import type { CommandUnknownOpts, Option } from "@commander-js/extra-typings";
import { COMMANDS, loadCommand } from "./commands.ts";

/** The commands as people see them: what completion and the reference are generated from. */
export interface CommandNode {
  /** What people type after "fairlead", such as ["lab", "up"]. */
  readonly words: readonly string[];
  readonly summary: string;
  readonly command: CommandUnknownOpts;
  /** Without hidden ones; with --help. */
  readonly options: readonly Option[];
}

/** Every command and subcommand that the help lists, each after the command that it belongs to. */
export async function visibleCommands(): Promise<readonly CommandNode[]> {
  const nodes: CommandNode[] = [];
  const add = (words: readonly string[], summary: string, command: CommandUnknownOpts): void => {
    const options = command.createHelp().visibleOptions(command);
    nodes.push({ words, summary, command, options });
    for (const it of command.commands) add([...words, it.name()], it.description(), it);
  };
  for (const [name, entry] of COMMANDS)
    if (entry.hidden !== true) add([name], entry.summary, await loadCommand(name, entry));
  return nodes;
}
