import { flagsByValue, type Place, quoted, typed } from "./places.ts";

const CONTEXTS = "kubectl config get-contexts -o name 2>/dev/null";

/** How the values of each kind are completed. Names from outside are never expanded by the shell. */
const COMPLETE: Readonly<Record<string, string>> = {
  file: 'compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$cur")',
  folder: 'compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$cur")',
  context: `while IFS= read -r word; do [[ $word == "$cur"* ]] && COMPREPLY+=("$(printf %q "$word")"); done < <(${CONTEXTS})`,
  other: ":",
};

export function renderBash(places: readonly Place[]): string {
  const known = places.slice(1).map((it) => quoted(typed(it.words)));
  const values = [...flagsByValue(places)].map(([value, flags]) => {
    const complete = COMPLETE[value] ?? `mapfile -t COMPREPLY < <(compgen -W ${quoted(value)} -- "$cur")`;
    return `    ${flags.map((it) => quoted(it)).join(" | ")})\n      ${complete}\n      return ;;`;
  });
  const words = places.map(({ words: at, commands, flags }) => {
    const names = flags.flatMap((it) => it.names).join(" ");
    const below = commands.map((it) => it.word).join(" ");
    return `    ${quoted(typed(at))}) flags=${quoted(names)} commands=${quoted(below)} ;;`;
  });
  return `# bash completion of fairlead: source <(fairlead completion bash)
_fairlead() {
  local cur prev at word i flags commands
  COMPREPLY=()
  at=''
  cur=\${COMP_WORDS[COMP_CWORD]}
  prev=\${COMP_WORDS[COMP_CWORD - 1]}
  # "--flag=value" is three words.
  if [[ $cur == = ]]; then
    cur=''
  elif [[ $prev == = && $COMP_CWORD -ge 2 ]]; then
    prev=\${COMP_WORDS[COMP_CWORD - 2]}
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=\${COMP_WORDS[i]}
    case "$at $word" in
    ${known.join(" | ")}) at+=" $word" ;;
    esac
  done
  case "$at $prev" in
${values.join("\n")}
  esac
  case "$at" in
${words.join("\n")}
  esac
  if [[ $cur == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$cur")
  else
    mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$cur")
  fi
}
complete -F _fairlead fairlead kubectl-fairlead
`;
}
