import { readdirSync } from "node:fs";
import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { expect, it } from "vitest";
import { VERSION } from "@fairlead/base/version.ts";
import { visibleCommands } from "./command-tree.ts";
import { USAGE } from "./run.ts";

/** What `--help` prints on a terminal of 80 columns. */
function helpOf(command: CommandUnknownOpts): string {
  let text = "";
  command.configureOutput({
    writeOut: (part) => (text += part),
    getOutHelpWidth: () => 80,
    getOutHasColors: () => false,
  });
  command.outputHelp();
  return text.replaceAll(VERSION, "VERSION");
}

it("the help of every command", async () => {
  const commands = await visibleCommands();
  const helps = new Map([
    ["fairlead", USAGE],
    ...commands.map(({ words, command }) => [words.join("-"), helpOf(command)] as const),
  ]);
  for (const [name, help] of helps)
    await expect.soft(help, name).toMatchFileSnapshot(`goldens/help/${name}.txt`);
  const goldens = readdirSync(new URL("goldens/help/", import.meta.url));
  expect(new Set(goldens)).toEqual(new Set([...helps.keys()].map((it) => `${it}.txt`)));
});
