import type { Option } from "@commander-js/extra-typings";
import { LIST_OUTPUTS, OBJECT_OUTPUTS, RESULT_OUTPUTS } from "@fairlead/fleet/cli/output.ts";
import { type CommandNode, visibleCommands } from "@fairlead/fairlead/command-tree.ts";
import { EXAMPLES, EXIT_CODES } from "@fairlead/fairlead/examples.ts";

/** The reference of the command line, from the commands themselves. */
export async function cliReference(): Promise<string> {
  const nodes = await visibleCommands();
  const words = (of: readonly string[]): string => of.map((it) => `\`${it}\``).join(", ");
  const top = nodes.filter((it) => it.words.length === 1);
  return `# Command line

This page is generated from the commands: \`npm run generate\`. \`fairlead COMMAND --help\` prints the same on a terminal.
\`kubectl fairlead COMMAND\` is \`fairlead COMMAND\` where \`kubectl-fairlead\` is on the PATH.

${table(
  ["command", "what it does"],
  top.map((it) => [`[${it.words.join(" ")}](#${anchorOf(it)})`, it.summary]),
)}

## Exit codes

${table(
  ["code", "meaning"],
  EXIT_CODES.map(([code, text]) => [String(code), text]),
)}

Errors have stable codes of their own: [errors](errors.md).

## Output formats

\`-o\` chooses the format. Commands that show things take ${words(LIST_OUTPUTS)}: \`wide\` has more columns, \`name\` prints one name per line for
scripts. Commands that do something take ${words(RESULT_OUTPUTS)}; they report progress on standard error and the result on standard output. Commands that print
Kubernetes objects take ${words(OBJECT_OUTPUTS)}.

${nodes.map((it) => section(it)).join("\n")}`;
}

const titleOf = ({ words }: CommandNode): string => `fairlead ${words.join(" ")}`;
const anchorOf = (node: CommandNode): string => titleOf(node).replaceAll(" ", "-");

function section(node: CommandNode): string {
  const { words, command, options } = node;
  const usage = command.usage();
  const takes = command.registeredArguments.filter((it) => it.description !== "");
  const flags = options
    .filter((it) => it.long !== "--help")
    .map((it) => [flag(it), meaning(it), defaultOf(it)]);
  const rows = [...takes.map((it) => [`\`${it.name()}\``, escaped(it.description), ""]), ...flags];
  return `## ${titleOf(node)}

${sentence(command.description())}

\`\`\`text
${titleOf(node)} ${usage}
\`\`\`

${rows.length === 0 ? "" : `${table(["argument or flag", "meaning", "default"], rows)}\n\n`}\`\`\`sh
${(EXAMPLES[words.join(" ")] ?? []).join("\n")}
\`\`\`
`;
}

const flag = ({ flags }: Option): string => `\`${flags}\``;

function meaning({ description, argChoices, mandatory }: Option): string {
  const choices = argChoices === undefined ? "" : `: ${argChoices.join(", ")}`;
  return `${escaped(description)}${choices}${mandatory ? " (required)" : ""}`;
}

function defaultOf({ defaultValue, defaultValueDescription, negate }: Option): string {
  if (negate || defaultValue === undefined || defaultValue === false || defaultValue === "") return "";
  if (Array.isArray(defaultValue) && defaultValue.length === 0) return "";
  return `\`${defaultValueDescription ?? String(defaultValue)}\``;
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

/** Such as \`<name>\` would be taken for markup. */
function escaped(text: string): string {
  return text.replaceAll("<", "&lt;");
}

function table(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((it) => it.replaceAll("|", String.raw`\|`)).join(" | ")} |`.replaceAll("|  |", "| |");
  return [line(heads), line(heads.map(() => "---")), ...rows.map((it) => line(it))].join("\n");
}
