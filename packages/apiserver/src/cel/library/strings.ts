import { describe } from "../eval/describe.ts";
import type { Declaration } from "../function.ts";
import { codePoints, CelError, type CelValue } from "../value.ts";
import { matchesPattern } from "./regex.ts";
import { formatString } from "./string-format.ts";

/** Strings. Indexes count code points. Sources: cel-spec; cel-go, extension strings, version 2. */

function outOfRange(at: bigint): never {
  throw new CelError(`index out of range: ${at}`);
}

function charAt(text: string, at: bigint): string {
  const characters = codePoints(text);
  if (at < 0n || at > BigInt(characters.length)) return outOfRange(at);
  return characters[Number(at)] ?? "";
}

function indexOf(text: string, part: string, from = 0n): bigint {
  if (part === "") return from;
  if (from < 0n) return outOfRange(from);
  const characters = codePoints(text);
  if (from >= BigInt(characters.length)) return -1n;
  const skipped = characters.slice(0, Number(from)).join("").length;
  const found = text.indexOf(part, skipped);
  return found < 0 ? -1n : BigInt(codePoints(text.slice(0, found)).length);
}

function lastIndexOf(text: string, part: string, from?: bigint): bigint {
  const characters = codePoints(text);
  if (part === "") return from ?? BigInt(characters.length);
  if (from !== undefined && from < 0n) return outOfRange(from);
  if (from === undefined ? text === "" : from >= BigInt(characters.length)) return -1n;
  const last = from ?? BigInt(characters.length - 1);
  const skipped = characters.slice(0, Number(last)).join("").length;
  const found = text.lastIndexOf(part, skipped);
  return found < 0 ? -1n : BigInt(codePoints(text.slice(0, found)).length);
}

function substring(text: string, start: bigint, end?: bigint): string {
  const characters = codePoints(text);
  const length = BigInt(characters.length);
  if (end !== undefined && start > end) {
    throw new CelError(`invalid substring range. start: ${start}, end: ${end}`);
  }
  if (start < 0n || start > length) return outOfRange(start);
  if (end !== undefined && (end < 0n || end > length)) return outOfRange(end);
  return characters.slice(Number(start), end === undefined ? undefined : Number(end)).join("");
}

/**
 * The empty string occurs before each character and at the end.
 *
 * @param count - Below 0: all of them.
 */
function replace(text: string, part: string, by: string, count = -1n): string {
  if (part === "") return replaceNothing(codePoints(text), by, count);
  const pieces = split(text, part, count < 0n ? -1n : count + 1n);
  return pieces.join(by);
}

function replaceNothing(characters: readonly string[], by: string, count: bigint): string {
  const places = count < 0n || count > BigInt(characters.length + 1) ? characters.length + 1 : Number(count);
  const spread = characters.map((it, at) => (at < places ? by + it : it)).join("");
  return places > characters.length ? spread + by : spread;
}

/** @param limit - How many parts at most; below 0: all of them. */
function split(text: string, separator: string, limit = -1n): string[] {
  if (limit === 0n) return [];
  const parts = separator === "" ? codePoints(text) : text.split(separator);
  if (limit < 0n || BigInt(parts.length) <= limit) return parts;
  const kept = Number(limit) - 1;
  return [...parts.slice(0, kept), parts.slice(kept).join(separator)];
}

function join(list: readonly CelValue[], separator = ""): string {
  const wrong = list.find((it) => typeof it !== "string");
  if (wrong !== undefined) throw new CelError(`join: invalid input: ${describe(wrong)}`);
  return (list as readonly string[]).join(separator);
}

const QUOTED: Readonly<Record<string, string>> = {
  "\u0007": "\\a",
  "\b": "\\b",
  "\f": "\\f",
  "\n": "\\n",
  "\r": "\\r",
  "\t": "\\t",
  "\v": "\\v",
  "\\": "\\\\",
  '"': '\\"',
};

function quote(text: string): string {
  const quoted = codePoints(text.toWellFormed()).map((it) => QUOTED[it] ?? it);
  return `"${quoted.join("")}"`;
}

const lower = (text: string): string => text.replaceAll(/[A-Z]+/g, (it) => it.toLowerCase());
const upper = (text: string): string => text.replaceAll(/[a-z]+/g, (it) => it.toUpperCase());
/** Of Unicode's white space, which JavaScript adds the byte order mark to. */
function trim(text: string): string {
  const inner = text.search(/[^\s\u0085]/);
  if (inner < 0) return trimmed(text);
  let end = text.length;
  while (/[\s\u0085]/.test(text.charAt(end - 1))) end -= 1;
  return trimmed(text.slice(0, inner)) + text.slice(inner, end) + trimmed(text.slice(end));
}

function trimmed(space: string): string {
  return space.replaceAll(/[^\uFEFF]/g, "");
}

export const STRINGS: readonly Declaration[] = [
  [
    "contains",
    [".contains_string(string, string) -> bool", (text: string, part: string) => text.includes(part)],
  ],
  [
    "endsWith",
    [".ends_with_string(string, string) -> bool", (text: string, part: string) => text.endsWith(part)],
  ],
  [
    "startsWith",
    [".starts_with_string(string, string) -> bool", (text: string, part: string) => text.startsWith(part)],
  ],
  [
    "matches",
    ["matches(string, string) -> bool", matchesPattern],
    [".matches_string(string, string) -> bool", matchesPattern],
  ],
  ["charAt", [".string_char_at_int(string, int) -> string", charAt]],
  [
    "indexOf",
    [".string_index_of_string(string, string) -> int", indexOf],
    [".string_index_of_string_int(string, string, int) -> int", indexOf],
  ],
  [
    "lastIndexOf",
    [".string_last_index_of_string(string, string) -> int", lastIndexOf],
    [".string_last_index_of_string_int(string, string, int) -> int", lastIndexOf],
  ],
  ["lowerAscii", [".string_lower_ascii(string) -> string", lower]],
  ["upperAscii", [".string_upper_ascii(string) -> string", upper]],
  [
    "replace",
    [".string_replace_string_string(string, string, string) -> string", replace],
    [".string_replace_string_string_int(string, string, string, int) -> string", replace],
  ],
  [
    "split",
    [".string_split_string(string, string) -> list(string)", split],
    [".string_split_string_int(string, string, int) -> list(string)", split],
  ],
  [
    "substring",
    [".string_substring_int(string, int) -> string", substring],
    [".string_substring_int_int(string, int, int) -> string", substring],
  ],
  ["trim", [".string_trim(string) -> string", trim]],
  [
    "join",
    [".list_join(list(string)) -> string", join],
    [".list_join_string(list(string), string) -> string", join],
  ],
  ["strings.quote", ["strings_quote(string) -> string", quote]],
  ["format", [".string_format(string, list(dyn)) -> string", formatString]],
];
