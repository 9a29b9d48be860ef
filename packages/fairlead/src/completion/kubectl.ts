import { escapeControls } from "@fairlead/base/print.ts";
import { Command } from "@commander-js/extra-typings";
import { type Place, placesOf, typed } from "./places.ts";

/** The program that kubectl starts to complete "kubectl fairlead ..." (kubectl's documentation, "kubectl plugin"). */
export function command(): unknown {
  return new Command("kubectl_complete-fairlead")
    .helpOption(false)
    .allowUnknownOption()
    .argument("[words...]")
    .action(async () => {
      const { visibleCommands } = await import("#command-tree.ts");
      // As they were typed: the parser would take flags out.
      const words = process.argv.slice(2).filter((it, at) => at > 0 || it !== "kubectl_complete-fairlead");
      process.stdout.write(escapeControls(complete(placesOf(await visibleCommands()), words)));
    });
}

/** ShellCompDirective of Cobra, which kubectl reads from the last line. */
const FILES = 0;
const NO_FILES = 4;

/**
 * Suggestions for the last of the words. Names of contexts are left to kubectl's own flags. Pure.
 *
 * @param words - What follows "kubectl fairlead"; the last is being typed, and may be empty.
 */
export function complete(places: readonly Place[], words: readonly string[]): string {
  const current = words.at(-1) ?? "";
  const before = words.slice(0, -1);
  const place = placeAfter(places, before);
  const value = place?.flags.find((it) => it.names.includes(before.at(-1) ?? ""))?.value;
  if (value === "file" || value === "folder") return render([], current, FILES);
  if (value !== undefined) return render(typeof value === "string" ? [] : value, current, NO_FILES);
  const { flags = [], commands = [] } = place ?? {};
  const offered = current.startsWith("-")
    ? flags.flatMap((it) => it.names.map((name) => `${name}\t${it.summary}`))
    : commands.map((it) => `${it.word}\t${it.summary}`);
  return render(offered, current, NO_FILES);
}

/** The place of the commands among the words. */
function placeAfter(places: readonly Place[], words: readonly string[]): Place | undefined {
  const byWords = new Map(places.map((it) => [typed(it.words), it]));
  let at = "";
  for (const word of words) if (byWords.has(at + typed([word]))) at += typed([word]);
  return byWords.get(at);
}

function render(lines: readonly string[], current: string, directive: number): string {
  return [...lines.filter((it) => it.startsWith(current)), `:${directive}\n`].join("\n");
}
