import { compareText } from "../eval/equality.ts";
import { formatDouble, formatDuration, formatTimestamp, toFixed } from "../eval/text.ts";
import type { CelType } from "../type.ts";
import {
  codePoints,
  CelError,
  CelMap,
  type CelValue,
  Duration,
  isList,
  Timestamp,
  typeOf,
  TypeValue,
  Uint,
} from "../value.ts";

/** `"%d of %s".format([1, "x"])`. Source: cel-go, extension strings, version 2. */

const DEFAULT_PRECISION = 6;
/** More digits than a double has; a bound on what text from outside can ask for. */
const MAX_PRECISION = 1000;

export function formatString(text: string, args: readonly CelValue[]): string {
  return interpolate(text, (clause, at) => {
    const arg = args[at];
    if (arg === undefined) throw new CelError(`index ${at} out of range`);
    return formatArg(arg, clause());
  });
}

/** @param insert - Receives the clause and its index; reading a malformed clause throws. */
export function interpolate(text: string, insert: (clause: () => Clause, at: number) => string): string {
  let next = 0;
  let result = "";
  for (let at = 0; at < text.length;) {
    if (text[at] !== "%") {
      result += text[at++] ?? "";
    } else if (text[at + 1] === "%") {
      result += "%";
      at += 2;
    } else {
      let length = 0;
      const rest = text.slice(at + 1);
      result += insert(() => {
        if (rest === "") throw new CelError("unexpected end of string");
        const clause = parseClause(rest);
        ({ length } = clause);
        return clause;
      }, next++);
      at += 1 + length;
    }
  }
  return result;
}

export interface Clause {
  readonly letter: string;
  readonly precision: number;
  readonly length: number;
}

function parseClause(text: string): Clause {
  const fail = (why: string): never => {
    throw new CelError(`could not parse formatting clause: ${why}`);
  };
  const [found = "", digits] = /^(?:\.(\d*))?/.exec(text) ?? [];
  if (digits !== undefined && found.length >= text.length) {
    fail("error while parsing precision: could not find end of precision specifier");
  }
  if (digits === "" || Number(digits) > Number.MAX_SAFE_INTEGER) {
    const why = digits === "" ? "invalid syntax" : "value out of range";
    fail(
      `error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing "${digits ?? ""}": ${why}`,
    );
  }
  const letter = text.charAt(found.length);
  if (!"sdfebxXo".includes(letter)) fail(`unrecognized formatting clause "${letter}"`);
  const precision = digits === undefined ? DEFAULT_PRECISION : Math.min(Number(digits), MAX_PRECISION);
  return { letter, precision, length: found.length + 1 };
}

type Format = (arg: CelValue, precision: number) => string | undefined;

interface Rule {
  readonly format: Format;
  readonly what: string;
}

const RULES: Readonly<Record<string, Rule>> = {
  s: {
    format: (arg) => formatAny(arg),
    what: "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps",
  },
  d: { format: formatDecimal, what: "decimal clause can only be used on integers" },
  f: {
    format: (arg, precision) => formatNumber(arg, (it) => grouped(toFixed(it, precision))),
    what: "fixed-point clause can only be used on doubles",
  },
  e: {
    // Upstream uses the precision as the width.
    format: (arg, precision) => formatNumber(arg, scientific)?.padStart(precision),
    what: "scientific clause can only be used on doubles",
  },
  b: { format: formatBinary, what: "only integers and bools can be formatted as binary" },
  x: { format: formatHex, what: "only integers, byte buffers, and strings can be formatted as hex" },
  X: {
    format: (arg) => formatHex(arg)?.toUpperCase(),
    what: "only integers, byte buffers, and strings can be formatted as hex",
  },
  o: { format: (arg) => integer(arg)?.toString(8), what: "octal clause can only be used on integers" },
};

const ANY = [
  "list",
  "map",
  "int",
  "uint",
  "double",
  "bool",
  "string",
  "timestamp",
  "bytes",
  "duration",
  "type",
  "null_type",
];
const TAKEN: Readonly<Record<string, readonly string[]>> = {
  s: ANY,
  d: ["int", "uint"],
  f: ["double", "string"],
  e: ["double", "string"],
  b: ["int", "uint", "bool"],
  x: ["int", "uint", "string", "bytes"],
  X: ["int", "uint", "string", "bytes"],
  o: ["int", "uint"],
};

/** Why a clause does not take values of a type; undefined where it does, or where nothing is known of the type. */
export function formatProblem(letter: string, type: CelType): string | undefined {
  if (type.kind === "dyn" || TAKEN[letter]?.includes(type.kind) === true) return undefined;
  return `error during formatting: ${RULES[letter]?.what ?? ""}, was given ${type.name}`;
}

function formatArg(arg: CelValue, { letter, precision }: Clause): string {
  const rule = RULES[letter];
  const text = rule?.format(arg, precision);
  if (text !== undefined) return text;
  throw new CelError(`error during formatting: ${rule?.what ?? ""}, was given ${typeOf(arg).name}`);
}

function integer(arg: CelValue): bigint | undefined {
  if (arg instanceof Uint) return arg.value;
  return typeof arg === "bigint" ? arg : undefined;
}

function formatDecimal(arg: CelValue): string | undefined {
  return integer(arg)?.toString();
}

function formatBinary(arg: CelValue): string | undefined {
  if (typeof arg === "boolean") return arg ? "1" : "0";
  return integer(arg)?.toString(2);
}

function formatHex(arg: CelValue): string | undefined {
  if (typeof arg === "string" || arg instanceof Uint8Array) return Buffer.from(arg as string).toString("hex");
  return integer(arg)?.toString(16);
}

const NAMED = new Map([
  ["NaN", Number.NaN],
  ["Infinity", Infinity],
  ["-Infinity", -Infinity],
]);

/** Thousands apart, as in English. */
function grouped(text: string): string {
  const [whole = "", ...fraction] = text.split(".");
  const digits = whole.replace("-", "");
  const groups = digits.slice(digits.length % 3).match(/.{3}/g) ?? [];
  const first = digits.slice(0, digits.length % 3);
  const apart = [...(first === "" ? [] : [first]), ...groups].join(",");
  return [whole.startsWith("-") ? `-${apart}` : apart, ...fraction].join(".");
}

const SUPERSCRIPT = "⁰¹²³⁴⁵⁶⁷⁸⁹";

function scientific(value: number): string {
  const [mantissa = "", exponent = ""] = value.toExponential(DEFAULT_PRECISION).split("e");
  const digits = codePoints(exponent.slice(1).padStart(2, "0")).map((it) => SUPERSCRIPT.charAt(Number(it)));
  return `${mantissa}×10${exponent.startsWith("-") ? "⁻" : ""}${digits.join("")}`;
}

function formatNumber(arg: CelValue, format: (value: number) => string): string | undefined {
  const value = typeof arg === "string" ? NAMED.get(arg) : arg;
  if (typeof value !== "number") return undefined;
  if (Number.isFinite(value)) return format(value);
  return Number.isNaN(value) ? "NaN" : value > 0 ? "∞" : "-∞";
}

/** Of the clause `%s`. */
function formatAny(arg: CelValue): string | undefined {
  if (typeof arg === "string") return arg;
  if (typeof arg === "number") return formatDouble(arg);
  if (arg instanceof Duration) return formatDuration(arg);
  if (arg instanceof Timestamp) return formatTimestamp(arg);
  return formatNested(arg);
}

/** As it is written in the language. */
function formatInside(arg: CelValue): string {
  if (typeof arg === "string") return JSON.stringify(arg);
  if (arg instanceof Uint8Array) return `b${JSON.stringify(formatNested(arg))}`;
  if (typeof arg === "number")
    return Number.isFinite(arg) ? toFixed(arg, DEFAULT_PRECISION) : `"${formatDouble(arg)}"`;
  if (arg instanceof Duration) return `duration("${formatDuration(arg)}")`;
  if (arg instanceof Timestamp) return `timestamp("${formatTimestamp(arg)}")`;
  const text = formatNested(arg);
  if (text === undefined) {
    throw new CelError(`error during formatting: no formatting function for ${typeOf(arg).name}`);
  }
  return text;
}

function formatNested(arg: CelValue): string | undefined {
  if (arg === null || typeof arg === "boolean") return String(arg);
  if (arg instanceof TypeValue) return arg.type.name;
  if (arg instanceof Uint8Array) return Buffer.from(arg).toString("utf8");
  if (isList(arg)) return `[${arg.map(formatInside).join(", ")}]`;
  if (arg instanceof CelMap) return formatMap(arg);
  return formatDecimal(arg);
}

function formatMap(map: CelMap): string {
  const entries = [...map.entries()].map(([key, value]) => {
    if (typeof key === "number") {
      throw new CelError("error during formatting: no formatting function for map key of type double");
    }
    return { key: formatInside(key), value: formatInside(value) };
  });
  const sorted = entries.toSorted((a, b) => compareText(a.key, b.key));
  return `{${sorted.map(({ key, value }) => `${key}:${value}`).join(", ")}}`;
}
