import type { Problem } from "./problems.ts";

export type TokenKind = "op" | "ident" | "int" | "uint" | "double" | "string" | "bytes" | "escaped" | "end";

export interface Token {
  readonly kind: TokenKind;
  /** As written; of the end, what problems call it. */
  readonly text: string;
  readonly at: number;
}

const STRING = String.raw`[rR](?:"""[^]*?"""|'''[^]*?'''|"[^"\n\r]*"|'[^'\n\r]*')|"""(?:ESC|[^\\])*?"""|'''(?:ESC|[^\\])*?'''|"(?:ESC|[^\\"\n\r])*"|'(?:ESC|[^\\'\n\r])*'`;
const ESCAPE = String.raw`\\(?:[abfnrtv"'\\?${"`"}]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})`;
const TEXT = STRING.replaceAll("ESC", ESCAPE);

/** An alternative comes before its prefixes, so that the longest match wins. */
const TOKEN = new RegExp(
  [
    String.raw`(?<space>[\t \r\n\f]+|//[^\n]*)`,
    String.raw`(?<double>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)`,
    String.raw`(?<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])`,
    String.raw`(?<int>0x[0-9a-fA-F]+|[0-9]+)`,
    `(?<bytes>[bB](?:${TEXT}))`,
    `(?<string>${TEXT})`,
    "(?<escaped>`[A-Za-z0-9_.\\-/ ]+`)",
    "(?<ident>[A-Za-z_][A-Za-z0-9_]*)",
    String.raw`(?<op>==|!=|<=|>=|&&|\|\||[[\]{}().,\-!?:+*/%<>])`,
  ].join("|"),
  "y",
);

const WORDS = new Set(["in", "true", "false", "null"]);

export interface Lexed {
  readonly tokens: readonly Token[];
  readonly problems: readonly Problem[];
}

/** The tokens of an expression; an invalid one is skipped and reported. */
export function lex(source: string): Lexed {
  const tokens: Token[] = [];
  const problems: Problem[] = [];
  let at = 0;
  while (at < source.length) {
    TOKEN.lastIndex = at;
    const found = TOKEN.exec(source);
    if (found === null) {
      const skipped = unrecognised(source, at);
      problems.push({ at, message: `Syntax error: token recognition error at: '${visible(skipped)}'` });
      at += skipped.length;
      continue;
    }
    const [text] = found;
    const kind = kindOf(found.groups ?? {}, text);
    if (kind !== undefined) tokens.push({ kind, text, at });
    at += text.length;
  }
  return { tokens: [...tokens, { kind: "end", text: "<EOF>", at: source.length }], problems };
}

function kindOf(groups: Readonly<Record<string, string | undefined>>, text: string): TokenKind | undefined {
  if (groups["space"] !== undefined) return undefined;
  if (WORDS.has(text)) return "op";
  const kinds: readonly TokenKind[] = ["double", "uint", "int", "bytes", "string", "escaped", "ident", "op"];
  return kinds.find((kind) => groups[kind] !== undefined);
}

/** A quoted text that does not end goes to the end of its line; of the rest, one character. */
function unrecognised(source: string, at: number): string {
  const rest = source.slice(at);
  const quoted = /^["'](?:\\.|[^\\"'\n\r])*/.exec(rest)?.[0];
  // A first character that could only begin an operator of two characters is reported together with the second.
  if (/^[=&|]/.test(rest)) return rest.slice(0, 2);
  return quoted ?? String.fromCodePoint(rest.codePointAt(0) ?? 0);
}

function visible(text: string): string {
  return text
    .replaceAll("\n", String.raw`\n`)
    .replaceAll("\t", String.raw`\t`)
    .replaceAll("\r", String.raw`\r`);
}

const ESCAPES: Readonly<Record<string, string>> = {
  a: "\u0007",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
};

interface Quoted {
  readonly body: string;
  readonly isRaw: boolean;
}

function unquote(token: string): Quoted {
  const isRaw = /^[rR]/.test(token);
  const quoted = isRaw ? token.slice(1) : token;
  const width = quoted.length >= 6 && /^("""|''')/.test(quoted) ? 3 : 1;
  return { body: quoted.slice(width, -width), isRaw };
}

const ESCAPED = /\\(?:([0-7]{3})|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))/gsu;

/** The value of a string literal; undefined if an escape is not a character. */
export function unescapeString(token: string): string | undefined {
  const { body, isRaw } = unquote(token);
  if (isRaw) return body;
  let isValid = true;
  const text = body.replaceAll(ESCAPED, (_, ...groups: (string | undefined)[]) => {
    const code = codeOf(groups);
    if (code === undefined) return ESCAPES[groups[4] ?? ""] ?? groups[4] ?? "";
    if (code > 0x10_ff_ff || (code >= 0xd8_00 && code <= 0xdf_ff)) isValid = false;
    return isValid ? String.fromCodePoint(code) : "";
  });
  return isValid ? text : undefined;
}

function codeOf([octal, hex, short, long]: readonly (string | undefined)[]): number | undefined {
  if (octal !== undefined) return Number.parseInt(octal, 8);
  const digits = hex ?? short ?? long;
  return digits === undefined ? undefined : Number.parseInt(digits, 16);
}

/** In bytes literals, octal and hexadecimal escapes are bytes; undefined if an escape is invalid. */
export function unescapeBytes(token: string): Uint8Array | undefined {
  const { body, isRaw } = unquote(token.slice(1));
  if (isRaw) return Buffer.from(body);
  const parts: Uint8Array[] = [];
  let end = 0;
  for (const found of body.matchAll(ESCAPED)) {
    const [text, octal, hex, short, long, other = ""] = found;
    if (short !== undefined || long !== undefined) return undefined;
    const code = codeOf([octal, hex]);
    parts.push(Buffer.from(body.slice(end, found.index)));
    parts.push(code === undefined ? Buffer.from(ESCAPES[other] ?? other) : Uint8Array.of(code));
    end = found.index + text.length;
  }
  return new Uint8Array(Buffer.concat([...parts, Buffer.from(body.slice(end))]));
}
