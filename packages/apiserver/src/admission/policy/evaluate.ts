import type { CelValue } from "#cel/value.ts";
import { evaluateConditions } from "../conditions.ts";
import { Budget, type CelInput, type Expression, POLICY_BUDGET } from "../expressions.ts";
import { type Program, withVariables } from "./program.ts";
import type { PolicySpec, Validation } from "./types.ts";

/** A validation that is false, or that failed to evaluate. */
export interface Denial {
  readonly index: number;
  readonly message: string;
  readonly reason: string | undefined;
}

export interface Evaluation {
  readonly denials: readonly Denial[];
  readonly annotations: readonly { readonly key: string; readonly value: string }[];
  /** Annotations that have no value: each denies, whatever the binding's actions are. */
  readonly annotationProblems: readonly string[];
}

const NOTHING: Evaluation = { denials: [], annotations: [], annotationProblems: [] };
/** Longer messages, and those of several lines, give way to the fixed one. Unit: bytes. */
const MAX_MESSAGE_BYTES = 5 * 1024;

/** The result of a policy for one request with one parameter. */
export function evaluatePolicy(program: Program, spec: PolicySpec, request: CelInput): Evaluation {
  const isIgnored = spec.failurePolicy === "Ignore";
  const { isMet, problem } = evaluateConditions(program.conditions, request);
  if (problem !== undefined) {
    return isIgnored ? NOTHING : { ...NOTHING, denials: [{ index: 0, message: problem, reason: undefined }] };
  }
  if (!isMet) return NOTHING;
  const budget = new Budget(POLICY_BUDGET);
  const input = withVariables(program, request, budget);
  const denials: Denial[] = [];
  for (const [index, { condition, message }] of program.validations.entries()) {
    const validation = spec.validations?.[index];
    if (validation === undefined) continue;
    const result = attempt(condition, input, budget);
    if ("error" in result) {
      if (!isIgnored) denials.push({ index, message: result.error, reason: undefined });
    } else if (result.value !== true) {
      denials.push({
        index,
        message: messageOf(validation, message === undefined ? undefined : attempt(message, input, budget)),
        reason: validation.reason,
      });
    }
  }
  return { denials, ...evaluateAnnotations(program, request, isIgnored) };
}

type Result = { readonly value: CelValue } | { readonly error: string };

function attempt(expression: Expression, input: CelInput, budget: Budget): Result {
  try {
    return { value: expression.evaluate(input, budget) };
  } catch (error) {
    return { error: (error as Error).message };
  }
}

/** Of the expression, else the fixed one, else one that names the expression. */
function messageOf(validation: Validation, made: Result | undefined): string {
  if (made !== undefined && "value" in made && typeof made.value === "string") {
    const text = made.value.trim();
    if (text !== "" && !text.includes("\n") && Buffer.byteLength(text) <= MAX_MESSAGE_BYTES) return text;
  }
  const fixed = (validation.message ?? "").trim();
  return fixed === "" ? `failed expression: ${validation.expression.trim()}` : fixed;
}

function evaluateAnnotations(
  program: Program,
  request: CelInput,
  isIgnored: boolean,
): Pick<Evaluation, "annotations" | "annotationProblems"> {
  if (program.annotations.length === 0) return { annotations: [], annotationProblems: [] };
  // Annotations have a budget of their own.
  const budget = new Budget(POLICY_BUDGET);
  const input = withVariables(program, request, budget);
  const found: { key: string; value: string }[] = [];
  const problems: string[] = [];
  for (const { key, value: expression } of program.annotations) {
    const result = attempt(expression, input, budget);
    if ("error" in result) {
      if (!isIgnored) problems.push(result.error);
    } else if (typeof result.value === "string") {
      const value = result.value.trim();
      if (value !== "") found.push({ key, value });
    }
  }
  return { annotations: found, annotationProblems: problems };
}
