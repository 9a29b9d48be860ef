import { check, type Checked } from "./check/checker.ts";
import { checkLiterals } from "./check/literals.ts";
import { Frame, type Evaluate, type Variables } from "./eval/frame.ts";
import { compileProgram } from "./eval/program.ts";
import { standardFunctions, standardTypes } from "./library/library.ts";
import { parse } from "./syntax/parser.ts";
import { CompileError } from "./syntax/problems.ts";
import { type CelType, formatType, isSameType } from "./type.ts";
import { CelError, type CelValue, CostExceeded } from "./value.ts";

/**
 * The Common Expression Language as Kubernetes 1.36 has it.
 *
 * @example
 * const program = compileExpression("object.spec.replicas <= 5", { variables: new Map([["object", DYN]]), returns: [BOOL] });
 * program.evaluate(new Map([["object", toCel({ spec: { replicas: 3 } })]])); // { value: true, cost: … }
 */

/** Most that one expression may cost when it is evaluated: about 0.1 s. Source: k8s.io/apiserver, pkg/apis/cel. */
export const PER_CALL_LIMIT = 1_000_000;
/** Most that all expressions for one object may cost together: about 1 s. */
export const PER_OBJECT_LIMIT = 10_000_000;

export interface CompileOptions {
  /** The variables of the expression, and their types. */
  readonly variables: ReadonlyMap<string, CelType>;
  /** The result types that are allowed; any if empty. */
  readonly returns?: readonly CelType[];
}

export interface Evaluation {
  readonly value: CelValue;
  readonly cost: number;
}

export interface Program {
  readonly expression: string;
  readonly type: CelType;
  readonly checked: Checked;
  /**
   * @throws {CelError} where the expression has no value.
   * @throws {CostExceeded} where that takes more than `limit`.
   */
  evaluate(variables: Variables, limit?: number): Evaluation;
  /** As `evaluate`, with what was thrown in place of the value. */
  attempt(variables: Variables, limit?: number): Attempt;
}

export interface Attempt {
  readonly outcome: CelValue | CelError | CostExceeded;
  readonly cost: number;
}

/**
 * @throws {CompileError} if the expression is invalid or has another result type.
 * @throws {ProgramError} if it can never have a value.
 */
export function compileExpression(expression: string, options: CompileOptions): Program {
  const checked = checkExpression(expression, options.variables);
  const type = checked.types.get(checked.expr);
  if (type === undefined) throw new CompileError(expression, []);
  const { returns } = options;
  if (returns !== undefined && !returns.some((it) => isSameType(it, type)))
    throw new ReturnTypeError(returns);
  return new CompiledProgram(expression, type, checked);
}

class CompiledProgram implements Program {
  readonly expression: string;
  readonly type: CelType;
  readonly checked: Checked;
  readonly #run: Evaluate;

  constructor(expression: string, type: CelType, checked: Checked) {
    this.expression = expression;
    this.type = type;
    this.checked = checked;
    this.#run = compileProgram(checked);
  }

  evaluate(variables: Variables, limit = PER_CALL_LIMIT): Evaluation {
    const { outcome, cost } = this.attempt(variables, limit);
    if (outcome instanceof Error) throw outcome;
    return { value: outcome, cost };
  }

  attempt(variables: Variables, limit = PER_CALL_LIMIT): Attempt {
    const frame = new Frame(variables, limit);
    try {
      const outcome = this.#run(frame);
      return { outcome, cost: frame.cost };
    } catch (error) {
      if (error instanceof CelError || error instanceof CostExceeded)
        return { outcome: error, cost: frame.cost };
      throw error;
    }
  }
}

/** An expression that comes to something else than it should. */
export class ReturnTypeError extends CompileError {
  constructor(returns: readonly CelType[]) {
    super("", []);
    const names = returns.map(formatType);
    this.message =
      names.length === 1
        ? `must evaluate to ${names.join("")}`
        : `must evaluate to one of [${names.join(" ")}]`;
  }
}

function checkExpression(expression: string, variables: ReadonlyMap<string, CelType>): Checked {
  const checked = check(parse(expression), {
    functions: standardFunctions(),
    variables: new Map([...standardTypes(), ...variables]),
  });
  const problems = checked.problems.length > 0 ? checked.problems : checkLiterals(checked);
  if (problems.length > 0) throw new CompileError(expression, problems);
  return checked;
}
