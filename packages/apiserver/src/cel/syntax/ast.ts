import type { CelValue } from "../value.ts";

/** An expression with expanded macros. `at` is the offset in the source. Unit: UTF-16 code units. */
export type Expr = Literal | Ident | Select | Call | ListExpr | MapExpr | StructExpr | Comprehension;

export interface Literal {
  readonly kind: "literal";
  readonly at: number;
  readonly value: CelValue;
}

export interface Ident {
  readonly kind: "ident";
  readonly at: number;
  readonly name: string;
}

export interface Select {
  readonly kind: "select";
  readonly at: number;
  readonly operand: Expr;
  readonly field: string;
  /** `has(operand.field)`. */
  readonly isTest: boolean;
}

export interface Call {
  readonly kind: "call";
  readonly at: number;
  readonly name: string;
  readonly target: Expr | undefined;
  readonly args: readonly Expr[];
}

export interface ListExpr {
  readonly kind: "list";
  readonly at: number;
  readonly items: readonly { readonly value: Expr; readonly isOptional: boolean }[];
}

export interface MapExpr {
  readonly kind: "map";
  readonly at: number;
  readonly entries: readonly { readonly key: Expr; readonly value: Expr; readonly isOptional: boolean }[];
}

export interface StructExpr {
  readonly kind: "struct";
  readonly at: number;
  readonly name: string;
  readonly fields: readonly { readonly at: number; readonly name: string; readonly value: Expr }[];
}

/** A fold over a list, or over the keys of a map. */
export interface Comprehension {
  readonly kind: "comprehension";
  readonly at: number;
  readonly range: Expr;
  readonly iterVar: string;
  /** With it, `iterVar` is the index or the key, and this is the item or the value. */
  readonly iterVar2: string | undefined;
  readonly accuVar: string;
  readonly accuInit: Expr;
  readonly condition: Expr;
  readonly step: Expr;
  readonly result: Expr;
}

/** Where results gather; no text can name it. */
export const ACCUMULATOR = "@result";

export function literal(at: number, value: CelValue): Literal {
  return { kind: "literal", at, value };
}

export function ident(at: number, name: string): Ident {
  return { kind: "ident", at, name };
}

export function call(at: number, name: string, ...args: readonly Expr[]): Call {
  return { kind: "call", at, name, target: undefined, args };
}

export function list(at: number, ...items: readonly Expr[]): ListExpr {
  return { kind: "list", at, items: items.map((value) => ({ value, isOptional: false })) };
}

/** `a.b.c` as one name; undefined where it is more than that. */
export function qualifiedName(expr: Expr): string | undefined {
  if (expr.kind === "ident") return expr.name;
  if (expr.kind !== "select" || expr.isTest) return undefined;
  const operand = qualifiedName(expr.operand);
  return operand === undefined ? undefined : `${operand}.${expr.field}`;
}
