import { isObject } from "#base/json.ts";

const TOKENS = /"(?:[^"\\]|\\.)*"|[{}[\]:,]|[^\s{}[\]:,"]+/g;

/**
 * The value of well-formed JSON text in which keys stand twice, as Go reads it into a type: an object that comes again adds to
 * what was there, anything else takes its place.
 */
export function parseMerged(text: string): unknown {
  const tokens = text.match(TOKENS) ?? [];
  let at = 0;
  const value = (): unknown => {
    const token = tokens[at++] ?? "";
    if (token === "{") return object();
    return token === "[" ? list() : (JSON.parse(token) as unknown);
  };
  const object = (): Record<string, unknown> => {
    const read: Record<string, unknown> = {};
    for (; tokens[at] !== "}"; at += tokens[at] === "," ? 1 : 0) {
      const key = JSON.parse(tokens[at] ?? "") as string;
      at += 2;
      read[key] = merged(read[key], value());
    }
    at++;
    return read;
  };
  const list = (): unknown[] => {
    const read: unknown[] = [];
    for (; tokens[at] !== "]"; at += tokens[at] === "," ? 1 : 0) read.push(value());
    at++;
    return read;
  };
  return value();
}

function merged(before: unknown, after: unknown): unknown {
  if (!isObject(before) || !isObject(after)) return after;
  const both = { ...before };
  for (const [key, value] of Object.entries(after)) both[key] = merged(before[key], value);
  return both;
}
