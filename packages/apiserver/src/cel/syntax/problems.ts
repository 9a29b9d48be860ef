import { codePoints } from "../value.ts";
/** An error in an expression. `at` is undefined if the error has no position. */
export interface Problem {
  readonly at: number | undefined;
  readonly message: string;
}

/** Thrown where an expression does not parse or does not check. The message shows each place. */
export class CompileError extends Error {
  static {
    this.prototype.name = "CompileError";
  }
  readonly problems: readonly Problem[];
  constructor(source: string, problems: readonly Problem[]) {
    super(describeProblems(source, problems));
    this.problems = problems;
  }
}

const MAX_PROBLEMS = 100;
/** Unit: characters. */
const MAX_SNIPPET = 16_384;

interface Location {
  readonly line: number;
  readonly column: number;
}

const NOWHERE: Location = { line: -1, column: -1 };

function locate(source: string, at: number | undefined): Location {
  if (at === undefined) return NOWHERE;
  const before = source.slice(0, at);
  const line = before.split("\n").length;
  return { line, column: codePoints(before.slice(before.lastIndexOf("\n") + 1)).length };
}

function describeProblems(source: string, problems: readonly Problem[]): string {
  const shown = problems
    .slice(0, MAX_PROBLEMS)
    .map(({ at, message }) => ({ message, location: locate(source, at) }))
    .toSorted((a, b) => a.location.line - b.location.line || a.location.column - b.location.column)
    .map(({ message, location }) => describeProblem(source, message, location));
  const more = problems.length - MAX_PROBLEMS;
  return [...shown, ...(more > 0 ? [`${more} more errors were truncated`] : [])].join("\n");
}

function describeProblem(source: string, message: string, { line, column }: Location): string {
  const head = `ERROR: <input>:${line}:${column + 1}: ${message}`;
  const text = source.split("\n")[line - 1];
  if (text === undefined || source === "" || text.length > MAX_SNIPPET) return head;
  const characters = codePoints(text.replaceAll("\t", " "));
  const dots = characters.slice(0, column).map((it) => (isWide(it) ? "．" : "."));
  const mark = isWide(characters[column] ?? "") ? "＾" : "^";
  return `${head}\n | ${characters.join("")}\n | ${dots.join("")}${mark}`;
}

function isWide(character: string): boolean {
  return (character.codePointAt(0) ?? 0) > 0x7f;
}
