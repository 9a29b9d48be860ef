import { createRequire } from "node:module";
import type { RE2JS } from "re2js";

/**
 * Patterns are Go's (RE2): linear in time whatever the text, and unlike JavaScript's in `\z`, `(?P<name>)`, `(?i)`.
 * The least recently used of many go, so that no CRD can fill the memory with patterns.
 */
class PatternCache {
  readonly #compiled = new Map<string, RE2JS | Error>();
  readonly #capacity: number;

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  get(pattern: string): RE2JS | Error {
    const known = this.#compiled.get(pattern);
    const compiled = known ?? compile(pattern);
    this.#compiled.delete(pattern);
    this.#compiled.set(pattern, compiled);
    const [oldest] = this.#compiled.keys();
    if (this.#compiled.size > this.#capacity && oldest !== undefined) this.#compiled.delete(oldest);
    return compiled;
  }
}

/** A memo: what a pattern compiles to depends on nothing else. */
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
  const compiled = CACHE.get(pattern);
  return !(compiled instanceof Error) && compiled.matcher(text).find();
}

/** The error of a pattern; undefined if it compiles. */
export function patternProblem(pattern: string): string | undefined {
  const compiled = CACHE.get(pattern);
  return compiled instanceof Error ? compiled.message : undefined;
}

/** The compiled pattern, or the reason why it is invalid. */
export function compilePattern(pattern: string): RE2JS | Error {
  return CACHE.get(pattern);
}
