/**
 * The part of Mermaid's flowcharts that pictures in documents use: what Mermaid draws of it was tried with Mermaid itself, which is too large to be
 * a dependency. Source: Mermaid's documentation, "Flowcharts - Basic Syntax".
 */

/** Mermaid reads these as something else than nodes. */
const RESERVED = new Set(
  "call class classDef click default direction end flowchart graph href linkStyle style subgraph".split(" "),
);
const LINKS: ReadonlySet<string> = new Set(["-->", "---", "-.->", "-.-"]);
/** Links with a text, by how they begin. */
const ENDS: ReadonlyMap<string, ReadonlySet<string>> = new Map([
  ["--", new Set(["-->", "---"])],
  ["-.", new Set([".->", ".-"])],
]);
/** Shapes, attributes and comments. */
const SPECIAL = /["#%&(){}[\]|<>;\\]/;

/** Returns what Mermaid would not draw; undefined if it draws the picture. */
export function findFlowchartProblem(text: string): string | undefined {
  const [first = "", ...lines] = text.trimEnd().split("\n");
  if (!/^flowchart (?:LR|RL|TB|BT)$/.test(first)) return `not a flowchart with a direction: ${first}`;
  let depth = 0;
  for (const line of lines) {
    const words = wordsOf(line.trim());
    if (words[0] === "subgraph") depth += 1;
    if (words[0] === "end") depth -= 1;
    const isRight = depth >= 0 && isStatement(words);
    if (!isRight) return line.trim();
  }
  return depth === 0 ? undefined : "a subgraph without end";
}

/** Separated by spaces outside of brackets. */
function wordsOf(line: string): string[] {
  const words: string[] = [];
  let isOpen = false;
  for (const part of line.split(" ")) {
    if (isOpen) words.push(`${words.pop() ?? ""} ${part}`);
    else words.push(part);
    isOpen = (words.at(-1) ?? "").includes("[") && !part.endsWith("]");
  }
  return words;
}

function isStatement(words: readonly string[]): boolean {
  const [first = "", second = "", ...rest] = words;
  if (first === "end") return words.length === 1;
  if (first === "subgraph") return rest.length === 0 && isNode(second);
  return isChain(words);
}

/** A node, and any number of links with the nodes that they lead to. */
function isChain(words: readonly string[]): boolean {
  let at = 0;
  for (;;) {
    if (!isNode(words[at] ?? "")) return false;
    at += 1;
    if (at === words.length) return true;
    const length = linkLength(words.slice(at));
    if (length === 0) return false;
    at += length;
  }
}

/** Unit: words. 0: it is not a link. */
function linkLength([first = "", ...rest]: readonly string[]): number {
  if (LINKS.has(first)) return 1;
  const ends = ENDS.get(first);
  const length = rest.findIndex((it) => ends?.has(it) === true);
  return length > 0 && rest.slice(0, length).every(isText) ? length + 2 : 0;
}

function isNode(word: string): boolean {
  const begin = word.indexOf("[");
  const id = begin < 0 ? word : word.slice(0, begin);
  if (!/^[A-Za-z][A-Za-z0-9]*$/.test(id) || RESERVED.has(id)) return false;
  if (begin < 0) return true;
  const label = word.slice(begin + 1, -1).replaceAll("<br>", " ");
  return word.endsWith("]") && label.trim() !== "" && !SPECIAL.test(label);
}

function isText(word: string): boolean {
  return /^[^-.]/.test(word) && !word.includes("--") && !SPECIAL.test(word);
}
