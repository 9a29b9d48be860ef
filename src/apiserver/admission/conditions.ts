import type { Attributes } from "../registry/admission.ts";
import {
  type CelInput,
  celRequest,
  compileExpression,
  type Expression,
  REQUEST_VARIABLES,
} from "./expressions.ts";
import type { Match } from "./match.ts";

/** `matchConditions`: every one of them has to hold (KEP-3716). */

export interface MatchCondition {
  readonly name: string;
  readonly expression: string;
}

export interface ConditionsResult {
  readonly isMet: boolean;
  /** Why it cannot be told; the failure policy decides then. */
  readonly problem?: string;
}

export class Conditions {
  /** By the list, which is never changed once it is stored. */
  readonly #compiled = new WeakMap<readonly MatchCondition[], readonly Expression[]>();

  evaluate(
    conditions: readonly MatchCondition[],
    { attributes, match, params }: { attributes: Attributes; match: Match; params?: CelInput },
  ): ConditionsResult {
    const problems: string[] = [];
    const input = { ...celRequest(attributes, match), ...params };
    for (const expression of this.#expressionsOf(conditions, Object.keys(params ?? {}))) {
      try {
        if (expression.evaluate(input) === false) return { isMet: false };
      } catch (error) {
        problems.push((error as Error).message);
      }
    }
    if (problems.length === 0) return { isMet: true };
    return {
      isMet: false,
      problem: problems.length === 1 ? (problems[0] ?? "") : `[${problems.join(", ")}]`,
    };
  }

  #expressionsOf(conditions: readonly MatchCondition[], more: readonly string[]): readonly Expression[] {
    let known = this.#compiled.get(conditions);
    if (known === undefined) {
      const variables = [...REQUEST_VARIABLES, ...more];
      known = conditions.map((it) => compileExpression(it.expression, { variables, types: ["bool"] }));
      this.#compiled.set(conditions, known);
    }
    return known;
  }
}
