import type { Authorizer } from "#values/authorizer.ts";
import type { Attributes } from "#registry/admission.ts";
import {
  BOOLEAN,
  Budget,
  type CelInput,
  celRequest,
  compileExpression,
  CONDITIONS_BUDGET,
  type Expression,
  REQUEST_SCOPE,
} from "./expressions.ts";
import type { Match } from "./match.ts";

/** `matchConditions`: every one of them has to hold (KEP-3716). */

export interface MatchCondition {
  readonly name: string;
  readonly expression: string;
}

export interface ConditionsResult {
  readonly isMet: boolean;
  /** The evaluation error; the failure policy then decides. */
  readonly problem?: string;
}

/** Whether all conditions are true; a false condition outweighs evaluation errors. */
export function evaluateConditions(conditions: readonly Expression[], input: CelInput): ConditionsResult {
  const problems: string[] = [];
  const budget = new Budget(CONDITIONS_BUDGET);
  for (const it of conditions) {
    try {
      if (it.evaluate(input, budget) === false) return { isMet: false };
    } catch (error) {
      problems.push((error as Error).message);
    }
  }
  if (problems.length === 0) return { isMet: true };
  return { isMet: false, problem: problems.length === 1 ? (problems[0] ?? "") : `[${problems.join(", ")}]` };
}

/** The conditions of webhooks. */
export class Conditions {
  /** By the list, which is never changed once it is stored. */
  readonly #authorizer: Authorizer;
  readonly #compiled = new WeakMap<readonly MatchCondition[], readonly Expression[]>();

  constructor(authorizer: Authorizer) {
    this.#authorizer = authorizer;
  }

  evaluate(
    conditions: readonly MatchCondition[],
    { attributes, match }: { readonly attributes: Attributes; readonly match: Match },
  ): ConditionsResult {
    return evaluateConditions(
      this.#expressionsOf(conditions),
      new Map(celRequest(attributes, match, this.#authorizer)),
    );
  }

  #expressionsOf(conditions: readonly MatchCondition[]): readonly Expression[] {
    let known = this.#compiled.get(conditions);
    if (known === undefined) {
      known = conditions.map((it) => compileExpression(it.expression, REQUEST_SCOPE, BOOLEAN));
      this.#compiled.set(conditions, known);
    }
    return known;
  }
}
