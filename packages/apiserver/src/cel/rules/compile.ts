import { estimateCost } from "../cost/estimate.ts";
import { compileExpression, type Program, ReturnTypeError } from "../environment.ts";
import { ProgramError } from "../eval/program.ts";
import type { DeclaredType } from "../schema/declared-type.ts";
import { CompileError } from "../syntax/problems.ts";
import { BOOL, type CelType, optionalOf, STRING } from "../type.ts";
import type { ValidationRule } from "#schema/types.ts";
import { partsOf } from "../check/literals.ts";
import type { Expr } from "../syntax/ast.ts";

/** An expression of a rule: what runs it, or why nothing does. */
export type Compiled =
  | { readonly program: Program; readonly maxCost: number }
  | { readonly program: undefined; readonly problem: string };

export interface CompiledRule {
  readonly rule: ValidationRule;
  readonly condition: Compiled;
  readonly message: Compiled | undefined;
  readonly usesOldSelf: boolean;
}

export function compileRule(rule: ValidationRule, declared: DeclaredType): CompiledRule {
  const old = rule.optionalOldSelf === true ? optionalOf(declared.type) : declared.type;
  const variables = new Map([
    ["self", declared.type],
    ["oldSelf", old],
  ]);
  const condition = compile(rule.rule, { variables, declared, returns: BOOL, name: "" });
  const { messageExpression } = rule;
  const message =
    messageExpression === undefined || messageExpression === "" || condition.program === undefined
      ? undefined
      : compile(messageExpression, { variables, declared, returns: STRING, name: "messageExpression" });
  return {
    rule,
    condition,
    message,
    usesOldSelf: condition.program !== undefined && names(condition.program.checked.expr),
  };
}

interface Options {
  readonly variables: ReadonlyMap<string, CelType>;
  readonly declared: DeclaredType;
  readonly returns: CelType;
  /** The name in error messages; empty for a rule itself. */
  readonly name: string;
}

function compile(expression: string, { variables, declared, returns, name }: Options): Compiled {
  try {
    const program = compileExpression(expression, { variables, returns: [returns] });
    return { program, maxCost: estimateCost(program.checked, declared).max };
  } catch (error) {
    return { program: undefined, problem: problemOf(error, name, returns) };
  }
}

function problemOf(error: unknown, name: string, returns: CelType): string {
  if (error instanceof ReturnTypeError) {
    return `${name === "" ? "cel expression" : name} must evaluate to a ${returns.name}`;
  }
  const prefix = name === "" ? "" : `${name} `;
  if (error instanceof CompileError) return `${prefix}compilation failed: ${error.message}`;
  if (error instanceof ProgramError) {
    return `${name === "" ? "program" : name} instantiation failed: ${error.message}`;
  }
  throw error;
}

/** Whether an expression looks at what was before. */
function names(expr: Expr): boolean {
  if (expr.kind === "ident") return expr.name === "oldSelf";
  return partsOf(expr).some(names);
}
