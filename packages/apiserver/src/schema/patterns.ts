import { createRequire } from "node:module";
import type { RE2JS } from "re2js";

/**
 * Patterns are Go's (RE2): linear in time whatever the text, and unlike JavaScript's in `\z`, `(?P<name>)`, `(?i)`.
 * The least recently used of many go, so that no CRD can fill the memory with patterns.
 */
class PatternCache {
  readonly #compiled = new Map<string, Compiled>();
  readonly #capacity: number;

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  get(pattern: string): Compiled {
    const known = this.#compiled.get(pattern);
    const compiled = known ?? { program: compile(pattern), answers: new Map() };
    this.#compiled.delete(pattern);
    this.#compiled.set(pattern, compiled);
    const [oldest] = this.#compiled.keys();
    if (this.#compiled.size > this.#capacity && oldest !== undefined) this.#compiled.delete(oldest);
    return compiled;
  }
}

interface Compiled {
  readonly program: RE2JS | Error;
  /** For the texts that were asked about lately. */
  readonly answers: Map<string, boolean>;
}

/** Types and reasons of conditions occur again and again; a pattern keeps the answers for so many texts of so many characters. */
const KEPT_ANSWERS = { texts: 64, characters: 64 };

/** A memo: what a pattern compiles to, and matches, depends on nothing else. */
const CACHE = new PatternCache(1000);

/** Loaded when the first pattern is compiled: a server without custom resources needs none. */
const load = createRequire(import.meta.url);

function compile(pattern: string): RE2JS | Error {
  try {
    return (load("re2js") as { RE2JS: typeof RE2JS }).RE2JS.compile(pattern);
  } catch (error) {
    return error as Error;
  }
}

/** Whether the pattern is found in the text. One that does not compile is found nowhere. */
export function matches(pattern: string, text: string): boolean {
  const { program, answers } = CACHE.get(pattern);
  if (program instanceof Error) return false;
  const known = answers.get(text);
  if (known !== undefined) return known;
  const found = program.matcher(text).find();
  if (text.length > KEPT_ANSWERS.characters) return found;
  if (answers.size >= KEPT_ANSWERS.texts) answers.clear();
  answers.set(text, found);
  return found;
}

/** The error of a pattern; undefined if it compiles. */
export function patternProblem(pattern: string): string | undefined {
  const { program } = CACHE.get(pattern);
  return program instanceof Error ? program.message : undefined;
}

/** The compiled pattern, or the reason why it is invalid. */
export function compilePattern(pattern: string): RE2JS | Error {
  return CACHE.get(pattern).program;
}
