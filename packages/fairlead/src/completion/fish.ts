import { type Flag, type Place, typed } from "./places.ts";

/** As fish quotes a text. */
function quoted(text: string): string {
  return `'${text.replaceAll(/['\\]/g, String.raw`\$&`)}'`;
}

const COMPLETE: Readonly<Record<string, string>> = {
  file: " -r -F",
  folder: " -x -a '(__fish_complete_directories)'",
  context: " -x -a '(kubectl config get-contexts -o name 2>/dev/null)'",
  other: " -x",
};

export function renderFish(places: readonly Place[]): string {
  const known = places.slice(1).map((it) => quoted(typed(it.words)));
  const lines = places.flatMap(({ words, commands, flags }) => {
    const at = `complete -c fairlead -n ${quoted(`__fairlead_at ${quoted(typed(words))}`)}`;
    return [
      ...commands.map((it) => `${at} -a ${quoted(it.word)} -d ${quoted(it.summary)}`),
      ...flags.map((it) => `${at} ${flagOf(it)} -d ${quoted(it.summary)}`),
    ];
  });
  return `# fish completion of fairlead: fairlead completion fish | source
function __fairlead_at
    set -l at
    for word in (commandline -opc)[2..]
        switch "$at $word"
            case ${known.join(" ")}
                set at "$at $word"
        end
    end
    test "$at" = "$argv[1]"
end
complete -c fairlead -f
complete -c kubectl-fairlead -w fairlead
${lines.join("\n")}
`;
}

function flagOf({ names, value }: Flag): string {
  const flags = names
    .map((it) => (it.startsWith("--") ? `-l ${it.slice(2)}` : `-s ${it.slice(1)}`))
    .join(" ");
  if (value === undefined) return flags;
  return flags + (typeof value === "string" ? (COMPLETE[value] ?? "") : ` -x -a ${quoted(value.join(" "))}`);
}
