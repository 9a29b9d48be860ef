import { codePoints, Uint } from "../value.ts";
import { call, type Expr, ident, literal, type MapExpr } from "./ast.ts";
import { lex, type Token, unescapeBytes, unescapeString } from "./lexer.ts";
import { expandMacro, MacroError } from "./macros.ts";
import { CompileError, type Problem } from "./problems.ts";

/** Expressions inside each other, and steps of one chain. */
const MAX_DEPTH = 250;
/** Unit: code points. */
const MAX_SIZE = 100_000;

const RESERVED = new Set(
  "as break const continue else false for function if import in let loop package namespace null return true var void while".split(
    " ",
  ),
);

/** The tokens that can begin an expression, in the order of error messages; some only at certain places. */
const BEGINNINGS =
  "[ ] { } ( ) . , - ! ? true false null NUM_FLOAT NUM_INT NUM_UINT STRING BYTES IDENTIFIER".split(" ");
const SOMEWHERE = new Set(["]", "}", ")", ",", "?"]);

function beginnings(also: readonly string[]): string {
  const shown = BEGINNINGS.filter((it) => !SOMEWHERE.has(it) || also.includes(it));
  return `{${shown.map((it) => (/^[A-Z]/.test(it) ? it : `'${it}'`)).join(", ")}}`;
}

const BINARY: readonly ReadonlySet<string>[] = [
  new Set(["<", "<=", ">=", ">", "==", "!=", "in"]),
  new Set(["+", "-"]),
  new Set(["*", "/", "%"]),
];

/**
 * The tree of an expression, with macros expanded.
 *
 * @throws {CompileError} if it is malformed.
 */
export function parse(source: string): Expr {
  const size = codePoints(source).length;
  if (size > MAX_SIZE) {
    const message = `expression code point size exceeds limit: size: ${size}, limit ${MAX_SIZE}`;
    throw new CompileError(source, [{ at: undefined, message }]);
  }
  return new Parser(source).parse();
}

class Stop extends Error {}

class Parser {
  readonly #source: string;
  readonly #tokens: readonly Token[];
  readonly #problems: Problem[];
  #next = 0;
  #depth = 0;
  /** Tokens that are accepted at this position in addition to expressions. */
  #also: readonly string[] = [];

  constructor(source: string) {
    this.#source = source;
    const { tokens, problems } = lex(source);
    this.#tokens = tokens;
    this.#problems = [...problems];
  }

  parse(): Expr {
    let expr: Expr | undefined;
    try {
      expr = this.#expr();
      if (this.#peek().kind !== "end") this.#trailing();
    } catch (error) {
      if (!(error instanceof Stop)) throw error;
    }
    if (expr === undefined || this.#problems.length > 0) throw new CompileError(this.#source, this.#problems);
    return expr;
  }

  #peek(): Token {
    return this.#tokens[this.#next] ?? { kind: "end", text: "<EOF>", at: this.#source.length };
  }

  #take(): Token {
    const token = this.#peek();
    this.#next++;
    return token;
  }

  #is(text: string): boolean {
    const token = this.#peek();
    return token.kind === "op" && token.text === text;
  }

  #takeIf(text: string): Token | undefined {
    return this.#is(text) ? this.#take() : undefined;
  }

  /** One token too many, or one too few, is reported and the rest read all the same. */
  #expect(text: string): Token {
    const found = this.#takeIf(text);
    if (found !== undefined) return found;
    const { text: wrong, at } = this.#peek();
    if (this.#tokens[this.#next + 1]?.text === text) {
      this.#report(at, `Syntax error: extraneous input '${wrong}' expecting '${text}'`);
      this.#take();
      return this.#take();
    }
    this.#report(at, `Syntax error: missing '${text}' at '${wrong}'`);
    return { kind: "op", text, at };
  }

  #close(text: "]" | "}"): void {
    if (this.#takeIf(text) === undefined) this.#unexpected(`{'${text}', ','}`);
  }

  #trailing(): never {
    const isLast = this.#tokens[this.#next + 1]?.kind === "end";
    return this.#unexpected("<EOF>", isLast ? "extraneous" : "mismatched");
  }

  #unexpected(expected: string, how: "mismatched" | "extraneous" = "mismatched"): never {
    const { text, at } = this.#peek();
    return this.#stop(at, `Syntax error: ${how} input '${text}' expecting ${expected}`);
  }

  /** Nothing begins here. Where something does behind the next token, that one is left out. */
  #noBeginning(): Expr {
    const { text, at, kind } = this.#peek();
    const after = this.#tokens[this.#next + 1];
    const isAfterNot = kind === "end" && this.#tokens[this.#next - 1]?.text === "!";
    const expected = beginnings(this.#also);
    if (isAfterNot) return this.#unexpected(expected, "extraneous");
    if (kind === "end" || after === undefined || !canBegin(after)) return this.#unexpected(expected);
    this.#report(at, `Syntax error: extraneous input '${text}' expecting ${expected}`);
    this.#take();
    return this.#primary();
  }

  #stop(at: number | undefined, message: string): never {
    this.#problems.push({ at, message });
    throw new Stop();
  }

  /** A problem after which the rest can still be read. */
  #report(at: number, message: string): Expr {
    this.#problems.push({ at, message });
    return literal(at, null);
  }

  #deeper<T>(read: () => T): T {
    this.#checkDepth(++this.#depth);
    const result = read();
    this.#depth--;
    return result;
  }

  #checkDepth(depth: number): void {
    if (depth > MAX_DEPTH) this.#stop(undefined, `expression recursion limit exceeded: ${MAX_DEPTH}`);
  }

  #exprOr(also: readonly string[]): Expr {
    this.#also = also;
    return this.#expr();
  }

  #expr(): Expr {
    return this.#deeper(() => {
      const condition = this.#logical("||");
      const question = this.#takeIf("?");
      if (question === undefined) return condition;
      const whenTrue = this.#logical("||");
      if (this.#takeIf(":") === undefined) this.#unexpected("':'");
      return call(question.at, "_?_:_", condition, whenTrue, this.#expr());
    });
  }

  /** Chains are made into trees as flat as they can be. */
  #logical(operator: "||" | "&&"): Expr {
    const operand = (): Expr => (operator === "||" ? this.#logical("&&") : this.#binary(0));
    const terms = [operand()];
    const at: number[] = [];
    for (let token = this.#takeIf(operator); token !== undefined; token = this.#takeIf(operator)) {
      at.push(token.at);
      terms.push(operand());
    }
    return balance(`_${operator}_`, terms, at);
  }

  #binary(level: number): Expr {
    const operators = BINARY[level];
    if (operators === undefined) return this.#unary();
    let left = this.#binary(level + 1);
    let links = this.#depth;
    while (this.#peek().kind === "op" && operators.has(this.#peek().text)) {
      const { text, at } = this.#take();
      this.#checkDepth(++links);
      left = call(at, text === "in" ? "@in" : `_${text}_`, left, this.#binary(level + 1));
    }
    return left;
  }

  #unary(): Expr {
    const first = this.#peek();
    if (first.kind !== "op" || (first.text !== "!" && first.text !== "-"))
      return this.#member(this.#primary());
    if (first.text === "-" && this.#isNumberNext()) return this.#member(this.#primary());
    let count = 0;
    while (this.#takeIf(first.text) !== undefined) count++;
    // A sign directly before a number is part of the literal; repeated or separated signs are operators.
    const operand = this.#member(this.#primary());
    return count % 2 === 0 ? operand : call(first.at, first.text === "!" ? "!_" : "-_", operand);
  }

  #isNumberNext(): boolean {
    const kind = this.#tokens[this.#next + 1]?.kind;
    return kind === "int" || kind === "double";
  }

  #member(start: Expr): Expr {
    let expr = start;
    let links = this.#depth;
    for (;;) {
      const token = this.#takeIf(".") ?? this.#takeIf("[");
      if (token === undefined) return expr;
      this.#checkDepth(++links);
      expr = token.text === "." ? this.#afterDot(expr, token) : this.#index(expr, token);
    }
  }

  #index(target: Expr, { at }: Token): Expr {
    const isOptional = this.#takeIf("?") !== undefined;
    const index = this.#exprOr(isOptional ? [] : ["?"]);
    this.#expect("]");
    return call(at, isOptional ? "_[?_]" : "_[_]", target, index);
  }

  #afterDot(target: Expr, { at }: Token): Expr {
    const isOptional = this.#takeIf("?") !== undefined;
    const name = this.#fieldName(isOptional);
    if (isOptional) return call(at, "_?._", target, literal(name.at, name.text));
    const open = this.#takeIf("(");
    if (open === undefined) return { kind: "select", at, operand: target, field: name.text, isTest: false };
    const args = this.#args();
    return this.#callOrMacro({ at: open.at, name: name.text, target, args });
  }

  #fieldName(isOptional: boolean): Token {
    const name = this.#peek();
    if (name.kind === "escaped") this.#report(name.at, "unsupported syntax: '`'");
    else if (name.kind !== "ident") {
      if (isOptional) this.#unexpected("{IDENTIFIER, ESC_IDENTIFIER}");
      const input = name.kind === "end" ? "." : `.${name.text}`;
      this.#stop(name.at, `Syntax error: no viable alternative at input '${input}'`);
    }
    return this.#take();
  }

  #args(): Expr[] {
    const args: Expr[] = [];
    if (this.#takeIf(")") !== undefined) return args;
    do args.push(this.#exprOr(args.length === 0 ? [")"] : []));
    while (this.#takeIf(",") !== undefined);
    this.#expect(")");
    return args;
  }

  #callOrMacro(made: { at: number; name: string; target: Expr | undefined; args: readonly Expr[] }): Expr {
    try {
      return expandMacro(made) ?? { kind: "call", ...made };
    } catch (error) {
      if (error instanceof MacroError) return this.#report(error.at, error.message);
      throw error;
    }
  }

  #primary(): Expr {
    const token = this.#peek();
    if (!canBegin(token)) return this.#noBeginning();
    this.#also = [];
    if (token.kind === "op") return this.#operatorPrimary(token);
    if (token.kind === "ident") return this.#named("");
    this.#take();
    return this.#literal(token, "");
  }

  #operatorPrimary(token: Token): Expr {
    switch (token.text) {
      case "(":
        return this.#nested();
      case "[":
        return this.#list();
      case "{":
        return this.#map();
      case ".":
        this.#take();
        return this.#named(".");
      case "-":
        if (!this.#isNumberNext()) return this.#unary();
        this.#take();
        return this.#literal(this.#take(), "-", token.at);
      case "!":
        return this.#unary();
      default:
        return this.#word(token);
    }
  }

  #word({ text, at }: Token): Expr {
    this.#take();
    return literal(at, text === "null" ? null : text === "true");
  }

  #nested(): Expr {
    this.#take();
    const expr = this.#expr();
    this.#expect(")");
    return expr;
  }

  #named(dot: "" | "."): Expr {
    const token = this.#peek();
    if (token.kind !== "ident") this.#unexpected("IDENTIFIER");
    this.#take();
    const { text, at } = token;
    const open = this.#takeIf("(");
    const args = open === undefined ? [] : this.#args();
    if (RESERVED.has(text)) return this.#report(at, `reserved identifier: ${text}`);
    const name = `${dot}${text}`;
    if (open !== undefined) return this.#callOrMacro({ at: open.at, name, target: undefined, args });
    return this.#message(name, at) ?? ident(at, name);
  }

  /** `a.b.C{field: value}`; undefined where the name is no more than a name. */
  #message(name: string, start: number): Expr | undefined {
    const { ahead, full } = this.#qualified(name);
    const brace = this.#tokens[ahead];
    if (brace?.kind !== "op" || brace.text !== "{") return undefined;
    this.#next = ahead + 1;
    const fields: { at: number; name: string; value: Expr }[] = [];
    while (!this.#is("}")) {
      const field = this.#peek();
      if (field.kind !== "ident") this.#unexpected("{'}', ',', '?', IDENTIFIER}");
      this.#take();
      const { at } = this.#expect(":");
      fields.push({ at, name: field.text, value: this.#expr() });
      if (this.#takeIf(",") === undefined) break;
    }
    this.#expect("}");
    return { kind: "struct", at: Math.max(start, brace.at), name: full, fields };
  }

  /** A name with the parts behind it, and the token after them. */
  #qualified(name: string): { readonly ahead: number; readonly full: string } {
    let ahead = this.#next;
    let full = name;
    while (this.#tokens[ahead]?.text === ".") {
      const part = this.#tokens[ahead + 1];
      if (part?.kind !== "ident") break;
      full += `.${part.text}`;
      ahead += 2;
    }
    return { ahead, full };
  }

  #list(): Expr {
    const { at } = this.#take();
    const items: { value: Expr; isOptional: boolean }[] = [];
    if (this.#takeIf(",") === undefined) {
      while (!this.#is("]")) {
        const isOptional = this.#takeIf("?") !== undefined;
        items.push({ value: this.#exprOr(isOptional ? [] : ["]", ",", "?"]), isOptional });
        if (this.#takeIf(",") === undefined) break;
      }
    }
    this.#close("]");
    return { kind: "list", at, items };
  }

  #map(): Expr {
    const { at } = this.#take();
    const entries: MapExpr["entries"][number][] = [];
    if (this.#takeIf(",") === undefined) {
      while (!this.#is("}")) {
        const isOptional = this.#takeIf("?") !== undefined;
        const key = this.#exprOr(isOptional ? [] : ["}", ",", "?"]);
        this.#expect(":");
        entries.push({ key, value: this.#expr(), isOptional });
        if (this.#takeIf(",") === undefined) break;
      }
    }
    this.#close("}");
    return { kind: "map", at, entries };
  }

  #literal({ kind, text, at }: Token, sign: "" | "-", start: number = at): Expr {
    switch (kind) {
      case "int":
        return this.#integer(sign, text, start);
      case "uint": {
        const value = BigInt(text.slice(0, -1));
        return value < 1n << 64n ? literal(at, new Uint(value)) : this.#report(at, "invalid uint literal");
      }
      case "double": {
        const value = Number(sign + text);
        return Number.isFinite(value) ? literal(start, value) : this.#report(start, "invalid double literal");
      }
      case "bytes": {
        const bytes = unescapeBytes(text);
        return bytes === undefined ? this.#report(at, "invalid bytes literal") : literal(at, bytes);
      }
      default: {
        const value = unescapeString(text);
        return value === undefined ? this.#report(at, "invalid unicode code point") : literal(at, value);
      }
    }
  }

  #integer(sign: "" | "-", text: string, at: number): Expr {
    const value = sign === "-" ? -BigInt(text) : BigInt(text);
    return BigInt.asIntN(64, value) === value ? literal(at, value) : this.#report(at, "invalid int literal");
  }
}

const FIRST = new Set(["[", "{", "(", ".", "-", "!", "true", "false", "null"]);

function canBegin({ kind, text }: Token): boolean {
  if (kind === "op") return FIRST.has(text);
  return kind !== "end" && kind !== "escaped";
}

function balance(name: string, terms: readonly Expr[], at: readonly number[]): Expr {
  const build = (from: number, to: number): Expr => {
    const middle = Math.floor((from + to + 1) / 2);
    const left = middle === from ? termAt(terms, middle) : build(from, middle - 1);
    const right = middle === to ? termAt(terms, middle + 1) : build(middle + 1, to);
    return call(at[middle] ?? 0, name, left, right);
  };
  return at.length === 0 ? termAt(terms, 0) : build(0, at.length - 1);
}

function termAt(terms: readonly Expr[], at: number): Expr {
  const term = terms[at];
  if (term === undefined) throw new RangeError("a chain has one term more than operators");
  return term;
}
