import { compilePattern } from "#schema/patterns.ts";
import { formatProblem, interpolate } from "../library/string-format.ts";
import { parseDuration, parseTimestamp } from "../library/time-text.ts";
import { MAX_SECONDS, MIN_SECONDS } from "../library/operators.ts";
import type { Call, Expr, ListExpr, MapExpr } from "../syntax/ast.ts";
import type { Problem } from "../syntax/problems.ts";
import { type CelType, DYN, formatType, isSameType, unwrapOptional } from "../type.ts";
import { CelError, type CelValue } from "../value.ts";
import type { Checked } from "./checker.ts";

/**
 * What is wrong with values that the text of an expression gives: patterns, durations, times, formats, and lists and maps
 * of several types. Source: k8s.io/apiserver, pkg/cel/environment/base.go, its validators of 1.29.
 */
export function checkLiterals({ expr, types }: Checked): Problem[] {
  const problems: Problem[] = [];
  const report = ({ at }: Expr, message: string): void => void problems.push({ at, message });
  const typeOf = (it: Expr): CelType => types.get(it) ?? DYN;
  visit(expr, false, (node, isFormatted) => {
    if (node.kind === "call") checkCall(node, report, typeOf);
    else if (node.kind === "list" && !isFormatted) checkList(node, report, typeOf);
    else if (node.kind === "map" && !isFormatted) checkMap(node, report, typeOf);
  });
  return problems;
}

type Report = (at: Expr, message: string) => void;
type TypeOf = (expr: Expr) => CelType;

/** @param isFormatted - Whether it is inside of a call of `format`, which takes lists of several types. */
function visit(expr: Expr, isFormatted: boolean, look: (expr: Expr, isFormatted: boolean) => void): void {
  look(expr, isFormatted);
  const inside = isFormatted || (expr.kind === "call" && expr.name === "format");
  for (const part of partsOf(expr)) visit(part, inside, look);
}

/** The expressions that an expression is made of. */
export function partsOf(expr: Expr): readonly Expr[] {
  switch (expr.kind) {
    case "select":
      return [expr.operand];
    case "call":
      return expr.target === undefined ? expr.args : [expr.target, ...expr.args];
    case "list":
      return expr.items.map(({ value }) => value);
    case "map":
      return expr.entries.flatMap(({ key, value }) => [key, value]);
    case "comprehension":
      return [expr.range, expr.accuInit, expr.condition, expr.step, expr.result];
    default:
      return [];
  }
}

function checkList({ items }: ListExpr, report: Report, typeOf: TypeOf): void {
  let first: CelType | undefined;
  for (const { value, isOptional } of items) {
    const type = isOptional ? unwrapOptional(typeOf(value)) : typeOf(value);
    if (first === undefined) first = type;
    else if (!isSameType(first, type)) {
      mismatch(report, value, first, type);
      return;
    }
  }
}

function checkMap({ entries }: MapExpr, report: Report, typeOf: TypeOf): void {
  const [first, ...others] = entries.map(({ key, value, isOptional }) => ({
    key,
    value,
    keyType: typeOf(key),
    valueType: isOptional ? unwrapOptional(typeOf(value)) : typeOf(value),
  }));
  if (first === undefined) return;
  for (const it of others) {
    if (!isSameType(first.keyType, it.keyType)) mismatch(report, it.key, first.keyType, it.keyType);
    if (!isSameType(first.valueType, it.valueType)) mismatch(report, it.value, first.valueType, it.valueType);
  }
}

function mismatch(report: Report, at: Expr, expected: CelType, found: CelType): void {
  report(at, `expected type '${formatType(expected)}' but found '${formatType(found)}'`);
}

const VALIDATED: ReadonlyMap<string, (value: CelValue) => boolean> = new Map([
  ["duration", (value) => typeof value === "string" && parseDuration(value) !== undefined],
  ["timestamp", isTimestamp],
  ["matches", (value) => typeof value !== "string" || !(compilePattern(value) instanceof Error)],
]);

function isTimestamp(value: CelValue): boolean {
  if (typeof value === "bigint") return value >= MIN_SECONDS && value <= MAX_SECONDS;
  try {
    return typeof value === "string" && parseTimestamp(value) !== undefined;
  } catch (error) {
    if (error instanceof CelError) return false;
    throw error;
  }
}

function checkCall(call: Call, report: Report, typeOf: TypeOf): void {
  const [first] = call.args;
  const isValid = VALIDATED.get(call.name);
  if (first?.kind === "literal" && isValid?.(first.value) === false)
    report(first, `invalid ${call.name} argument`);
  const { target } = call;
  if (call.name !== "format" || first?.kind !== "list") return;
  if (target?.kind === "literal" && typeof target.value === "string") {
    checkFormat(call, { text: target.value, args: first.items.map(({ value }) => value) }, report, typeOf);
  }
}

function checkFormat(
  call: Call,
  { text, args }: { readonly text: string; readonly args: readonly Expr[] },
  report: Report,
  typeOf: TypeOf,
): void {
  let asked = 0;
  let wrong: Expr = call;
  try {
    interpolate(text, (clause, at) => {
      const arg = args[at];
      if (arg === undefined) throw new CelError(`index ${at} out of range`);
      asked++;
      const { letter } = clause();
      const problem = formatProblem(letter, typeOf(arg));
      if (problem === undefined) return "";
      wrong = arg;
      throw new CelError(problem);
    });
  } catch (error) {
    if (!(error instanceof CelError)) throw error;
    report(wrong, error.message);
    return;
  }
  if (args.length > asked) {
    report(call, `too many arguments supplied to string.format (expected ${asked}, got ${args.length})`);
  }
}
