/** How the demo speaks: plain text of at most 80 columns that reads well without colour and without a terminal. */

const WIDTH = 80;

export function title(text: string): void {
  process.stdout.write(`${text}\n${"=".repeat(Math.min(WIDTH, text.length))}\n`);
}

let step = 0;

/** A numbered step of the story. */
export function chapter(text: string): void {
  step += 1;
  process.stdout.write(`\n${step}. ${text}\n`);
}

/** Lines below a step; a line that is too long is broken between words. */
export function say(text = ""): void {
  for (const line of text.split("\n")) process.stdout.write(`${wrap(line)}\n`);
}

function wrap(line: string): string {
  const indent = "   ";
  if (line.length + indent.length <= WIDTH) return line === "" ? "" : indent + line;
  const at = line.lastIndexOf(" ", WIDTH - indent.length);
  // Without a space there is nothing to break at: paths and commands stay whole.
  if (at < line.search(/\S/)) return indent + line;
  return `${indent}${line.slice(0, at)}\n${wrap(`  ${line.slice(at + 1)}`)}`;
}

/** "4 by member-1, 6 by member-2". */
export function countBy(names: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, count]) => `${count} by ${name}`)
    .join(", ");
}
