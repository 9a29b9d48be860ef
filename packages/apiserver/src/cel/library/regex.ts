import { compilePattern } from "#schema/patterns.ts";
import type { Declaration } from "../function.ts";
import { CelError } from "../value.ts";

/** Regular expressions are RE2's. Source: k8s.io/apiserver, pkg/cel/library/regex.go. */

function compiled(pattern: string, prefix = ""): Exclude<ReturnType<typeof compilePattern>, Error> {
  const found = compilePattern(pattern);
  if (found instanceof Error) throw new CelError(prefix + found.message);
  return found;
}

export function matchesPattern(text: string, pattern: string): boolean {
  return compiled(pattern).matcher(text).find();
}

/** @param limit - Below 0: all of them. */
function findAll(text: string, pattern: string, limit = -1n): string[] {
  const matcher = compiled(pattern, "Illegal regex: ").matcher(text);
  const found: string[] = [];
  let end = -1;
  const most = limit < 0n ? Infinity : Number(limit);
  while (found.length < most && matcher.find()) {
    // Nothing is not found right behind something.
    if (matcher.start() === matcher.end() && matcher.start() === end) continue;
    end = matcher.end();
    found.push(matcher.group() ?? "");
  }
  return found;
}

export const REGEX: readonly Declaration[] = [
  [
    "find",
    [
      ".string_find_string(string, string) -> string",
      (text: string, it: string) => findAll(text, it, 1n)[0] ?? "",
    ],
  ],
  [
    "findAll",
    [".string_find_all_string(string, string) -> list(string)", findAll],
    [".string_find_all_string_int(string, string, int) -> list(string)", findAll],
  ],
];
