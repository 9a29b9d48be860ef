import { checkExpression } from "../schema/cel/check.ts";
import { makeEnvironment, withOwnFunctions } from "../schema/cel/environment.ts";
import { toCel } from "../schema/cel/values.ts";
import type { Attributes } from "../registry/admission.ts";
import type { ApiObject } from "../registry/types.ts";
import { convertObject, type Match } from "./match.ts";
import { reviewRequest } from "./webhook/review.ts";

/** CEL as admission uses it. Source: k8s.io/apiserver, pkg/admission/plugin/cel. */

export interface Expression {
  readonly text: string;
  /** @throws {Error} when it has no value. */
  evaluate(input: CelInput): unknown;
}

/** Values of the variables by their names. */
export type CelInput = Readonly<Record<string, unknown>>;

export interface CompileOptions {
  readonly variables: readonly string[];
  /** What it may come to. */
  readonly types: readonly string[];
}

/** What every expression of admission may name. */
export const REQUEST_VARIABLES = ["object", "oldObject", "request"];

/** @throws {Error} when it is malformed, of another type, or names what does not exist. */
export function compileExpression(text: string, { variables, types }: CompileOptions): Expression {
  const parsed = makeEnvironment(variables).parse(withOwnFunctions(text));
  const [problem] = checkExpression(parsed.ast, new Map(variables.map((it) => [it, undefined]))).problems;
  if (problem !== undefined) throw new Error(problem);
  const checked = parsed.check();
  if (!checked.valid) throw new Error(firstLine(checked.error?.message ?? "invalid expression"));
  const type = checked.type ?? "dyn";
  if (type !== "dyn" && !types.includes(type)) throw new Error(`must evaluate to ${types.join(" or ")}`);
  return {
    text,
    evaluate(input) {
      try {
        return parsed(input) as unknown;
      } catch (error) {
        throw new Error(`expression '${text}' resulted in error: ${firstLine((error as Error).message)}`, {
          cause: error,
        });
      }
    },
  };
}

function firstLine(text: string): string {
  return text.split("\n", 1)[0] ?? text;
}

/** An object as expressions see it: without a type, its numbers as they are written. */
export function celObject(object: unknown): unknown {
  return object === undefined ? null : toCel(object, undefined);
}

/** The variables that every expression of admission may name. */
export function celRequest(attributes: Attributes, match: Match): CelInput {
  const { object, oldObject, ...request } = celReview(attributes, match);
  return { object, oldObject, request: celObject(request) };
}

function celReview(attributes: Attributes, match: Match): Record<string, unknown> {
  const { definition, object, old } = attributes;
  const versioned = (it: ApiObject | undefined): unknown =>
    celObject(it === undefined ? undefined : convertObject(it, definition, match.resource));
  return { ...reviewRequest(attributes, match), object: versioned(object), oldObject: versioned(old) };
}
