import type { Option } from "@commander-js/extra-typings";
import type { CommandNode } from "#command-tree.ts";

/** What can be typed at each place of a command line, as the scripts of all shells have it. Pure. */

export interface Place {
  /** The commands before it; empty at the beginning. */
  readonly words: readonly string[];
  readonly commands: readonly Suggestion[];
  readonly flags: readonly Flag[];
}

export interface Suggestion {
  readonly word: string;
  readonly summary: string;
}

export interface Flag {
  /** Such as "-o" and "--output". */
  readonly names: readonly string[];
  readonly summary: string;
  /** Undefined if it takes no value. */
  readonly value: Value | undefined;
}

/** What a flag takes: files, folders, names of contexts, one of the words, or something that no shell can know. */
export type Value = "file" | "folder" | "context" | "other" | readonly string[];

/** Values of flags that are not declared as choices, by the placeholder in the help. */
const WORDS: ReadonlyMap<string, readonly string[]> = new Map([
  ["<level>", ["debug", "info", "warn", "error", "silent"]],
  ["<role>", ["hub", "member"]],
  ["[bool]", ["true", "false"]],
]);

const ROOT_FLAGS: readonly Flag[] = [
  { names: ["-h", "--help"], summary: "display help", value: undefined },
  { names: ["-V", "--version"], summary: "print the version", value: undefined },
];

export function placesOf(nodes: readonly CommandNode[]): readonly Place[] {
  const below = (words: readonly string[]): readonly Suggestion[] =>
    nodes
      .filter(
        (it) => it.words.length === words.length + 1 && words.every((word, at) => it.words[at] === word),
      )
      .map((it) => ({ word: it.words.at(-1) ?? "", summary: it.summary }));
  const top = [...below([]), { word: "help", summary: "the help of a command" }];
  return [
    { words: [], commands: top, flags: ROOT_FLAGS },
    ...nodes.map(({ words, command, options }) => ({
      words,
      commands: [
        ...below(words),
        ...command.registeredArguments.flatMap(({ argChoices = [] }) =>
          argChoices.map((word) => ({ word, summary: "" })),
        ),
      ],
      flags: options.map((it) => flagOf(it)),
    })),
  ];
}

function flagOf(option: Option): Flag {
  const names = [option.short, option.long].filter((it) => it !== undefined);
  return { names, summary: option.description, value: valueOf(option) };
}

function valueOf({ flags, long = "", argChoices, required }: Option): Value | undefined {
  const start = flags.search(/[<[]/);
  const placeholder = start < 0 ? "" : flags.slice(start);
  if (argChoices !== undefined) return argChoices;
  // An optional value is accepted only after "=".
  if (!required) return undefined;
  if (placeholder === "<file>") return "file";
  if (placeholder === "<folder>") return "folder";
  if (/^--(?:.+-)?context$/.test(long)) return "context";
  return WORDS.get(placeholder) ?? "other";
}

/** The flags of all places by what they take: each with the words before it, such as "lab up --name". */
export function flagsByValue(places: readonly Place[]): ReadonlyMap<string, readonly string[]> {
  const byValue = new Map<string, string[]>();
  for (const { words, flags } of places)
    for (const { names, value } of flags) {
      if (value === undefined) continue;
      const key = typeof value === "string" ? value : value.join(" ");
      const known = byValue.get(key) ?? [];
      byValue.set(key, known);
      known.push(...names.map((name) => typed([...words, name])));
    }
  return byValue;
}

/** Words as scripts compare them: each behind a space. */
export function typed(words: readonly string[]): string {
  return words.map((it) => ` ${it}`).join("");
}

/** As shells of the Bourne family quote a text. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
