import { FleetError } from "@fairlead/base/errors.ts";

/**
 * The configuration of CoreDNS (the grammar of Caddyfiles): server blocks, snippets and imports. Parsed only as far as is
 * needed to add a block without affecting the others. Pure.
 */

export interface CorefileBlock {
  /** "." for the root; a zone with its port where one is written: "cluster.local:53". Snippets: "(name)". */
  readonly keys: readonly string[];
  readonly directives: readonly Directive[];
  readonly line: number;
}

export interface Directive {
  readonly name: string;
  readonly args: readonly string[];
}

export interface Corefile {
  readonly blocks: readonly CorefileBlock[];
  /** Patterns of files that are read in at the top. */
  readonly imports: readonly string[];
}

interface Token {
  readonly text: string;
  readonly line: number;
}

/**
 * @throws {FleetError} `PRECONDITION_FAILED` naming the line, for whatever could mean something else than it seems to.
 */
export function parseCorefile(text: string): Corefile {
  const lines = new Lines(tokenize(text));
  const blocks: CorefileBlock[] = [];
  const imports: string[] = [];
  for (let line = lines.next(); line !== undefined; line = lines.next()) {
    if (line.words[0] === "import") imports.push(...line.words.slice(1));
    else
      blocks.push({
        keys: readKeys(line, lines),
        directives: readBody(line.number, lines),
        line: line.number,
      });
  }
  return { blocks, imports };
}

interface Line {
  readonly number: number;
  readonly words: readonly string[];
}

/** The lines that say something, one after another. */
class Lines {
  readonly #lines: readonly Line[];
  #at = 0;
  constructor(tokens: readonly Token[]) {
    const lines = new Map<number, string[]>();
    for (const { line, text } of tokens) lines.set(line, [...(lines.get(line) ?? []), text]);
    this.#lines = [...lines].map(([number, words]) => ({ number, words }));
  }
  next(): Line | undefined {
    return this.#lines[this.#at++];
  }
}

/** The names of a block, up to the opening brace. They continue on the next line only after a comma. */
function readKeys(first: Line, lines: Lines): readonly string[] {
  const keys: string[] = [];
  for (let line: Line | undefined = first; line !== undefined; line = lines.next()) {
    const opens = line.words.at(-1) === "{";
    const words = opens ? line.words.slice(0, -1) : line.words;
    if (words.some(isBrace)) refuse(line.number, "has a brace that does not end the line");
    keys.push(...words.flatMap((it) => it.split(",")).filter((it) => it !== ""));
    if (opens && keys.length > 0) return keys;
    // Also for a Corefile without braces: such a file is one server, and no other can be added.
    if (words.at(-1)?.endsWith(",") !== true) refuse(line.number, 'is not a server name followed by "{"');
  }
  return refuse(first.number, "names a server without a block");
}

/** The directives of a block, up to its closing brace; nested blocks are skipped. */
function readBody(begin: number, lines: Lines): readonly Directive[] {
  const directives: Directive[] = [];
  let depth = 1;
  for (let line = lines.next(); line !== undefined; line = lines.next()) {
    const [name = "", ...rest] = line.words;
    if (name === "}" && rest.length === 0) {
      depth--;
      if (depth === 0) return directives;
      continue;
    }
    const opens = rest.at(-1) === "{";
    const args = opens ? rest.slice(0, -1) : rest;
    if (isBrace(name) || args.some(isBrace)) refuse(line.number, "has an unexpected brace");
    if (depth === 1) directives.push({ name, args });
    if (opens) depth++;
  }
  return refuse(begin, "opens a block that is not closed");
}

function isBrace(word: string): boolean {
  return word === "{" || word === "}";
}

function refuse(line: number, why: string): never {
  throw new FleetError(
    "PRECONDITION_FAILED",
    `line ${line} of the Corefile ${why}; nothing was changed, add the zone by hand`,
  );
}

/** Words, apart by white space; in quotes with it; `#` at the beginning of a word begins a comment. */
function tokenize(text: string): Token[] {
  const tokens: Token[] = [];
  const pattern = /"((?:[^"\\]|\\.)*)"|#[^\n]*|(\n)|([^\s"][^\s]*)|(")/g;
  let line = 1;
  for (const [whole, quoted, newline, word, open] of text.matchAll(pattern)) {
    if (newline !== undefined) line++;
    else if (open !== undefined) refuse(line, "has an unclosed quotation mark");
    else if (quoted !== undefined || word !== undefined) {
      tokens.push({ text: quoted ?? word ?? "", line });
      line += whole.split("\n").length - 1;
    }
  }
  return tokens;
}

/** The zone of a key, folded and without scheme, port and last dot: "dns://Cluster.Local.:53" is "cluster.local". */
export function zoneOf(key: string): string {
  const name = key
    .replace(/^[a-z0-9]+:\/\//i, "")
    .replace(/:\d+$/, "")
    .toLowerCase();
  return name === "." ? name : name.replace(/\.$/, "");
}

/** The port of a key; 53 where none is written. */
export function portOf(key: string): number {
  return Number(/:(\d+)$/.exec(key)?.[1] ?? 53);
}
