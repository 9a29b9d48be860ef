import { isInt64, isRounded, parseExact } from "@fairlead/base/exact-json.ts";
import { MAX_NESTING } from "@fairlead/base/json.ts";
import { finish, type Steps } from "@fairlead/base/turn.ts";
import { badRequest } from "#status.ts";
import { fieldPath, FoundPaths } from "@fairlead/base/found-paths.ts";

export interface Parsed {
  readonly value: unknown;
  /** Paths of duplicate keys in an object ("spec.ports[0].name"), up to the reported maximum; the last value counts. */
  readonly duplicates: readonly string[];
}

/**
 * Parses the JSON text of a request.
 *
 * Integers of 64 bits that a number would round (from 2^53 on) are bigints; larger ones are rejected, because a rounded value
 * would be stored as if it were intended. So is the key `__proto__`, which no Kubernetes type has. The text is scanned once in
 * addition to `JSON.parse`; paths of duplicate keys are computed only if the number of keys shows that there are duplicates.
 *
 * @throws {StatusError} 400 for malformed text, nesting beyond 512, integers that would be rounded and `__proto__`.
 */
export function parseJson(text: string): Parsed {
  return finish(parseJsonSteps(text));
}

export function* parseJsonSteps(text: string): Steps<Parsed> {
  const scan = scanText(text);
  yield;
  const value = parseNative(text);
  yield;
  const hasDuplicates = countKeys(value) !== scan.keys;
  yield;
  return { value, duplicates: hasDuplicates ? findDuplicates(text) : [] };
}

function parseNative(text: string): unknown {
  try {
    return parseExact(text);
  } catch (error) {
    throw badRequest(`json parse error: ${(error as Error).message}`);
  }
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
const OPEN_BRACKET = 0x5b;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACKET = 0x5d;
const CLOSE_BRACE = 0x7d;
const NINE = 0x39;
const ZERO = 0x30;

/** Index of the quote that ends the string which begins at `start`. */
export function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let slashes = 0;
    while (text.charCodeAt(end - 1 - slashes) === BACKSLASH) slashes++;
    if (slashes % 2 === 0) return end;
  }
  return text.length;
}

/** Counts keys, and refuses depth and integers, before anything recursive sees the text. */
function scanText(text: string): { keys: number } {
  let keys = 0;
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    else if (code === COLON) keys++;
    else if (code === OPEN_BRACE || code === OPEN_BRACKET) {
      if (++depth > MAX_NESTING) throw badRequest(`json parse error: exceeded max depth of ${MAX_NESTING}`);
    } else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) depth--;
    else if (code >= ZERO && code <= NINE) at = endOfNumber(text, at);
  }
  return { keys };
}

const NUMBER = /[-+.eE0-9]*/y;

function endOfNumber(text: string, start: number): number {
  NUMBER.lastIndex = start;
  const digits = NUMBER.exec(text)?.[0] ?? "";
  const signed = text.charAt(start - 1) === "-" ? `-${digits}` : digits;
  if (isRounded(signed) && !isInt64(signed)) {
    throw badRequest(`json parse error: integer ${digits.slice(0, 40)} would be rounded`);
  }
  return start + Math.max(digits.length, 1) - 1;
}

function countKeys(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  let count = 0;
  if (Array.isArray(value)) {
    for (const item of value) count += countKeys(item);
    return count;
  }
  if (Object.hasOwn(value, "__proto__"))
    throw badRequest("json parse error: __proto__ is not taken as a key");
  for (const field of Object.values(value) as unknown[]) {
    count += typeof field === "object" ? 1 + countKeys(field) : 1;
  }
  return count;
}

interface Frame {
  readonly keys: Set<string> | undefined;
  path: string;
  readonly base: string;
  index: number;
}

/** Walks text that is known to be well-formed. */
function findDuplicates(text: string): readonly string[] {
  const found = new FoundPaths();
  const frames: Frame[] = [];
  let lastString = "";
  for (let at = 0; at < text.length; at++) {
    const char = text.charAt(at);
    const frame = frames.at(-1);
    if (char === '"') {
      const end = endOfString(text, at);
      lastString = text.slice(at, end + 1);
      at = end;
    } else if (char === "{" || char === "[") frames.push(open(char, frame));
    else if (char === "}" || char === "]") frames.pop();
    else if (char === ":") enterKey(frame, JSON.parse(lastString) as string, found);
    else if (char === "," && frame !== undefined && frame.keys === undefined) nextItem(frame);
  }
  return found.all;
}

function open(char: string, around: Frame | undefined): Frame {
  const base = around?.path ?? "";
  if (char === "{") return { keys: new Set(), base, path: base, index: 0 };
  return { keys: undefined, base, path: `${base}[0]`, index: 0 };
}

function enterKey(frame: Frame | undefined, key: string, found: FoundPaths): void {
  if (frame?.keys === undefined) return;
  frame.path = fieldPath(frame.base, key);
  if (frame.keys.has(key)) found.add(() => frame.path);
  frame.keys.add(key);
}

function nextItem(frame: Frame): void {
  frame.index++;
  frame.path = `${frame.base}[${frame.index}]`;
}
