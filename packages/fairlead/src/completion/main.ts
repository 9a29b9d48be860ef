import { Argument, Command } from "@commander-js/extra-typings";
import { renderBash } from "./bash.ts";
import { renderFish } from "./fish.ts";
import { type Place, placesOf } from "./places.ts";
import { renderZsh } from "./zsh.ts";

const SHELLS = ["bash", "zsh", "fish"] as const;
type Shell = (typeof SHELLS)[number];

const RENDER: Readonly<Record<Shell, (places: readonly Place[]) => string>> = {
  bash: renderBash,
  zsh: renderZsh,
  fish: renderFish,
};

/** The script by which a shell completes commands, flags and their values. */
export function command(): unknown {
  return new Command("completion")
    .description("print the script by which a shell completes commands, flags and their values")
    .addArgument(new Argument("<shell>", "the shell").choices(SHELLS))
    .action(async (shell) => void process.stdout.write(await completionOf(shell)));
}

export async function completionOf(shell: Shell): Promise<string> {
  // Imports this module in its turn, to list its command.
  const { visibleCommands } = await import("#command-tree.ts");
  return RENDER[shell](placesOf(await visibleCommands()));
}
