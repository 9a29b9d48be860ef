import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { VERIFY_OUTPUTS } from "@fairlead/fleet/cli/verify/report.ts";
import {
  LIST_OUTPUTS,
  LOG_OUTPUTS,
  OBJECT_OUTPUTS,
  renderData,
  RESULT_OUTPUTS,
} from "@fairlead/fleet/cli/output.ts";
import { COMMANDS, loadCommand } from "#commands.ts";

interface Found {
  readonly name: string;
  readonly command: CommandUnknownOpts;
}

/** Every command with its subcommands, by the words that people type. */
async function allCommands(): Promise<readonly Found[]> {
  const found: Found[] = [];
  const add = (name: string, command: CommandUnknownOpts): void => {
    found.push({ name, command });
    for (const it of command.commands) add(`${name} ${it.name()}`, it);
  };
  for (const [name, entry] of COMMANDS) add(name, await loadCommand(name, entry));
  return found;
}

it("every command that prints data takes -o with the same words", async () => {
  const words = new Map<string, readonly string[] | undefined>();
  for (const { name, command } of await allCommands())
    for (const option of command.options) {
      const { short, long, flags, argChoices } = option;
      const defaultValue: unknown = option.defaultValue;
      expect({ name, long }).not.toEqual({ name, long: "--json" });
      if (short !== "-o" && long !== "--output") continue;
      const first = argChoices?.[0];
      expect({ name, flags, defaultValue }).toEqual({
        name,
        flags: "-o, --output <format>",
        defaultValue: first,
      });
      words.set(name, argChoices);
    }
  expect(Object.fromEntries(words)).toEqual({
    cordon: RESULT_OUTPUTS,
    uncordon: RESULT_OUTPUTS,
    "autoupgradeprofile create": RESULT_OUTPUTS,
    "autoupgradeprofile delete": RESULT_OUTPUTS,
    "autoupgradeprofile generate-update-run": RESULT_OUTPUTS,
    "autoupgradeprofile list": LIST_OUTPUTS,
    "autoupgradeprofile show": RESULT_OUTPUTS,
    "gate show": RESULT_OUTPUTS,
    "member list": LIST_OUTPUTS,
    "member show": RESULT_OUTPUTS,
    "member update": RESULT_OUTPUTS,
    "releasecatalog import": RESULT_OUTPUTS,
    "releasecatalog list": LIST_OUTPUTS,
    "updaterun delete": RESULT_OUTPUTS,
    "updaterun wait": RESULT_OUTPUTS,
    "updatestrategy create": RESULT_OUTPUTS,
    "updatestrategy delete": RESULT_OUTPUTS,
    "updatestrategy list": LIST_OUTPUTS,
    "updatestrategy show": RESULT_OUTPUTS,
    "gate approve": RESULT_OUTPUTS,
    "gate list": LIST_OUTPUTS,
    "updaterun create": RESULT_OUTPUTS,
    "updaterun list": LIST_OUTPUTS,
    "updaterun plan": RESULT_OUTPUTS,
    "updaterun resume": RESULT_OUTPUTS,
    "updaterun skip": RESULT_OUTPUTS,
    "updaterun start": RESULT_OUTPUTS,
    "updaterun status": RESULT_OUTPUTS,
    "updaterun stop": RESULT_OUTPUTS,
    "placement explain": RESULT_OUTPUTS,
    "placement status": RESULT_OUTPUTS,
    "placement diff": RESULT_OUTPUTS,
    "placement history": RESULT_OUTPUTS,
    "placement rollback": RESULT_OUTPUTS,
    "placement run": RESULT_OUTPUTS,
    "placement approve": RESULT_OUTPUTS,
    "policy explain": RESULT_OUTPUTS,
    "policy diff": RESULT_OUTPUTS,
    "policy what-if": RESULT_OUTPUTS,
    "policy lint": RESULT_OUTPUTS,
    "policy log": LOG_OUTPUTS,
    "lab list": LIST_OUTPUTS,
    "lab status": LIST_OUTPUTS,
    status: LIST_OUTPUTS,
    join: RESULT_OUTPUTS,
    leave: RESULT_OUTPUTS,
    "hub move": RESULT_OUTPUTS,
    drain: RESULT_OUTPUTS,
    "mesh create": RESULT_OUTPUTS,
    "mesh apply": RESULT_OUTPUTS,
    "mesh list": LIST_OUTPUTS,
    "mesh show": RESULT_OUTPUTS,
    "mesh list-members": LIST_OUTPUTS,
    "mesh status": RESULT_OUTPUTS,
    "mesh delete": RESULT_OUTPUTS,
    "mesh wait": RESULT_OUTPUTS,
    verify: VERIFY_OUTPUTS,
    "dns setup": RESULT_OUTPUTS,
    "crds print": OBJECT_OUTPUTS,
    version: RESULT_OUTPUTS,
  });
});

it("an unknown format is refused with the known ones, before anything is done", async () => {
  for (const { name, command } of await allCommands()) {
    if (!command.options.some((it) => it.long === "--output")) continue;
    let said = "";
    command.configureOutput({ writeErr: (text) => (said += text) });
    const choices = command.options.find((it) => it.long === "--output")?.argChoices?.join(", ");
    expect(() => command.parseOptions(["-o", "xml"])).toThrow("'xml' is invalid");
    expect(said).toContain(`Allowed choices are ${choices}. Run "fairlead ${name} --help" for its flags.`);
  }
});

it("data for programs are complete and plain in both forms", () => {
  const shared = { a: [1] };
  const data = { one: shared, two: shared, text: "yes" };
  for (const output of ["json", "yaml"] as const) {
    const text = renderData(data, output);
    expect(parse(text)).toEqual(data);
    expect(text).not.toMatch(/[&*]a\d|\n$/);
  }
});
