import { expect, it } from "vitest";
import { type CommandNode, visibleCommands } from "./command-tree.ts";
import { COMMANDS } from "./commands.ts";
import { FLAGS } from "#shared/flags.ts";

/** Flags whose value is another thing in each command that has them. */
const OF_THEIR_COMMAND = new Set(["--from", "--to", "--listen"]);

/** Programs that replace those of others have the flags of these. */
const isOwn = ({ words: [name = ""] }: CommandNode): boolean => COMMANDS.get(name)?.isProgram !== true;

const commands = (await visibleCommands()).filter(isOwn);
const named = ({ words }: CommandNode): string => words.join(" ");

interface Use {
  readonly command: string;
  readonly flags: string;
  readonly long: string;
  readonly short: string | undefined;
}

const uses: readonly Use[] = commands.flatMap((it) =>
  it.options.flatMap(({ flags, long, short }) =>
    long === undefined
      ? []
      : [{ command: named(it), flags, long, short: long === short ? undefined : short }],
  ),
);

it("a flag has one letter and one kind of value in all commands", () => {
  const byName = Map.groupBy(uses, (it) => it.long);
  const differing = [...byName]
    .filter(([long, all]) => !OF_THEIR_COMMAND.has(long) && new Set(all.map((it) => it.flags)).size > 1)
    .flatMap(([, all]) => all.map((it) => `${it.command} ${it.flags}`));
  expect(differing).toEqual([]);
});

it("a letter stands for one flag, but for -f as in kubectl", () => {
  const byLetter = Map.groupBy(uses, (it) => it.short ?? "");
  byLetter.delete("");
  const found = [...byLetter].map(
    ([letter, all]) => [letter, [...new Set(all.map((it) => it.long))]] as const,
  );
  expect(found.filter(([letter, all]) => letter !== "-f" && all.length > 1)).toEqual([]);
  expect(new Map(found).get("-f")?.toSorted()).toEqual(["--file", "--follow"]);
});

it("flags of several commands are spelled as in the table of common flags, which has no others", () => {
  const table: ReadonlySet<string> = new Set(Object.values(FLAGS));
  const longOf = (text: string): string => /--[a-z-]+/.exec(text)?.[0] ?? "";
  const common = new Map([...table].map((it) => [longOf(it), it]));
  const wrong = uses.filter((it) => common.has(it.long) && common.get(it.long) !== it.flags);
  expect(wrong).toEqual([]);
  expect([...table].filter((it) => !uses.some(({ flags }) => flags === it))).toEqual([]);
});

it("a command that asks the hub takes its context, its file, and the file of all contexts; the same holds for members", () => {
  const incomplete = commands.flatMap((command) => {
    const has = new Set(command.options.map((it) => it.long));
    const lacks = (group: readonly string[]): string[] =>
      group.some((it) => has.has(it)) ? group.filter((it) => !has.has(it)) : [];
    const missing = [
      ...lacks(["--hub-context", "--hub-kubeconfig"]),
      ...lacks(["--member-context", "--member-kubeconfig"]),
    ];
    const isOfContexts = [...has].some((it) => it?.endsWith("-context") === true || it === "--context");
    if (isOfContexts && !has.has("--kubeconfig") && !has.has("--from-context")) missing.push("--kubeconfig");
    return missing.map((it) => `${named(command)} lacks ${it}`);
  });
  expect(incomplete).toEqual([]);
});

it("a command that shows or changes something takes -o, and one that previews changes --dry-run", () => {
  const ofHub = commands.filter((it) => it.options.some(({ long }) => long === "--hub-context"));
  const without = ofHub.filter((it) => !it.options.some(({ long }) => long === "--output"));
  expect(without.map(named)).toEqual([]);
  const previews = commands.filter((it) => it.options.some(({ long }) => long === "--what-if"));
  expect(previews.filter((it) => !it.options.some(({ long }) => long === "--dry-run")).map(named)).toEqual(
    [],
  );
});
