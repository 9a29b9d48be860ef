import { expect, it } from "vitest";
import { visibleCommands } from "./command-tree.ts";
import { EXAMPLES } from "./examples.ts";

it("every command has an example in its help, and no example is of a command that does not exist", async () => {
  const nodes = await visibleCommands();
  expect(Object.keys(EXAMPLES).toSorted()).toEqual(nodes.map((it) => it.words.join(" ")).toSorted());
  for (const { words, command } of nodes) {
    let help = "";
    command.configureOutput({ writeOut: (text) => (help += text) });
    command.outputHelp();
    const name = words.join(" ");
    for (const example of EXAMPLES[name] ?? []) expect(help).toContain(`  ${example}\n`);
    expect(EXAMPLES[name]?.join(" ")).toContain(`fairlead ${name}`);
  }
});
