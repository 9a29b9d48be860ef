import { flagsByValue, type Place, quoted, typed } from "./places.ts";

const COMPLETE: Readonly<Record<string, string>> = {
  file: "_files",
  folder: "_files -/",
  context: 'contexts=(${(f)"$(kubectl config get-contexts -o name 2>/dev/null)"}); compadd -a contexts',
  other: ":",
};

export function renderZsh(places: readonly Place[]): string {
  const known = places.slice(1).map((it) => quoted(typed(it.words)));
  const values = [...flagsByValue(places)].map(([value, flags]) => {
    const complete = COMPLETE[value] ?? `compadd -- ${value}`;
    return `    (${flags.map((it) => quoted(it)).join("|")}) ${complete}; return ;;`;
  });
  const described = (word: string, summary: string): string => quoted(`${word}:${summary}`);
  const words = places.map(({ words: at, commands, flags }) => {
    const names = flags.flatMap((it) => it.names.map((name) => described(name, it.summary)));
    const below = commands.map((it) => described(it.word, it.summary));
    return `    (${quoted(typed(at))}) flags=(${names.join(" ")}) commands=(${below.join(" ")}) ;;`;
  });
  return `#compdef fairlead kubectl-fairlead
# zsh completion of fairlead: source <(fairlead completion zsh), after compinit
_fairlead() {
  local at='' word prev=\${words[CURRENT-1]}
  local -a flags commands contexts
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case "$at $word" in
    (${known.join("|")}) at+=" $word" ;;
    esac
  done
  case "$at $prev" in
${values.join("\n")}
  esac
  case "$at" in
${words.join("\n")}
  esac
  if [[ $PREFIX == -* ]]; then
    _describe -o option flags
  elif (( \${#commands} )); then
    _describe command commands
  fi
}
if [[ \${funcstack[1]} == _fairlead ]]; then
  _fairlead "$@"
else
  compdef _fairlead fairlead kubectl-fairlead
fi
`;
}
