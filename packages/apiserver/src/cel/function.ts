import {
  BOOL,
  BYTES,
  type CelType,
  DOUBLE,
  DURATION,
  DYN,
  INT,
  listOf,
  mapOf,
  opaque,
  paramType,
  STRING,
  structOf,
  TIMESTAMP,
  TYPE,
  typeOfType,
  UINT,
} from "./type.ts";
import type { CelValue } from "./value.ts";

/** The implementation of a function. It is called with arguments of the types that its overload declares. */
export type Implementation = (...args: never[]) => CelValue;

export interface Overload {
  readonly id: string;
  readonly isMember: boolean;
  /** A member's target is the first. */
  readonly args: readonly CelType[];
  readonly result: CelType;
  readonly params: readonly string[];
  readonly run: Implementation;
}

/** Overloads by the name of their function, in the order in which they are tried. */
export type Functions = ReadonlyMap<string, readonly Overload[]>;

/** The name of a function, and of each overload its signature (`.id(args) -> result` for a member) and what it does. */
export type Declaration = readonly [name: string, ...overloads: (readonly [string, Implementation])[]];

export function declareFunctions(...libraries: readonly (readonly Declaration[])[]): Functions {
  const functions = new Map<string, Overload[]>();
  for (const [name, ...overloads] of libraries.flat()) {
    const known = functions.get(name) ?? [];
    functions.set(name, [...known, ...overloads.map(([signature, run]) => declareOverload(signature, run))]);
  }
  return functions;
}

const SIGNATURE = /^(?<dot>\.?)(?<id>[^(]+)\((?<args>.*)\) -> (?<result>.+)$/;

function declareOverload(signature: string, run: Implementation): Overload {
  const { dot = "", id = "", args = "", result = "" } = SIGNATURE.exec(signature)?.groups ?? {};
  const params = new Set([...signature.matchAll(/\b[A-Z]\b/g)].map(([name]) => name));
  return {
    id,
    isMember: dot === ".",
    args: splitTypes(args).map(parseType),
    result: parseType(result),
    params: [...params],
    run,
  };
}

function splitTypes(text: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let part = "";
  for (const character of text) {
    if (character === "(") depth++;
    if (character === ")") depth--;
    if (character === "," && depth === 0) {
      parts.push(part.trim());
      part = "";
    } else part += character;
  }
  return part.trim() === "" ? parts : [...parts, part.trim()];
}

const NAMED: ReadonlyMap<string, CelType> = new Map(
  Object.entries({
    bool: BOOL,
    int: INT,
    uint: UINT,
    double: DOUBLE,
    string: STRING,
    bytes: BYTES,
    duration: DURATION,
    timestamp: TIMESTAMP,
    dyn: DYN,
    type: TYPE,
  }),
);

/** A type as signatures write it; one capital letter is a parameter. */
function parseType(text: string): CelType {
  const known = NAMED.get(text);
  if (known !== undefined) return known;
  const open = text.indexOf("(");
  if (open < 0) {
    if (/^[A-Z]$/.test(text)) return paramType(text);
    return text.startsWith("net.") ? opaque(text) : structOf(text);
  }
  const params = splitTypes(text.slice(open + 1, -1)).map(parseType);
  const [first = DYN, second = DYN] = params;
  switch (text.slice(0, open)) {
    case "list":
      return listOf(first);
    case "map":
      return mapOf(first, second);
    case "type":
      return typeOfType(first);
    default:
      return opaque(text.slice(0, open), params);
  }
}
