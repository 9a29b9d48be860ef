import { type CelType, DYN, structOf } from "#cel/type.ts";
import { LazyFields } from "#cel/value.ts";
import {
  BOOLEAN,
  type Budget,
  type CelInput,
  compileExpression,
  type Expression,
  NAMESPACE_TYPE,
  REQUEST_SCOPE,
  type Scope,
  TEXT,
  TEXT_OR_NULL,
} from "../expressions.ts";
import type { PolicySpec } from "./types.ts";

/** A policy's expressions, ready to be evaluated. Source: apiserver, pkg/admission/plugin/policy/validating. */
export interface Program {
  readonly variables: readonly NamedExpression[];
  readonly conditions: readonly Expression[];
  readonly validations: readonly {
    readonly condition: Expression;
    readonly message: Expression | undefined;
  }[];
  readonly annotations: readonly { readonly key: string; readonly value: Expression }[];
}

interface NamedExpression {
  readonly name: string;
  readonly expression: Expression;
}

const VARIABLES = structOf("kubernetes.variables");

/** The variables of match conditions of a policy. */
export function conditionScope({ paramKind }: Pick<PolicySpec, "paramKind">): Scope {
  const params: [string, CelType][] = paramKind === undefined ? [] : [["params", DYN]];
  return new Map([...REQUEST_SCOPE, ...params]);
}

/** The variables of the other expressions of a policy, given the types of its own variables. */
export function policyScope(
  spec: Pick<PolicySpec, "paramKind">,
  variables: ReadonlyMap<string, CelType>,
): Scope {
  const declared = structOf("kubernetes.variables", variables);
  return new Map([...conditionScope(spec), ["namespaceObject", NAMESPACE_TYPE], ["variables", declared]]);
}

/** @throws {CompileError} for an expression that does not compile; validation rejects those before they are stored. */
export function compilePolicy(spec: PolicySpec): Program {
  const types = new Map<string, CelType>();
  const variables = (spec.variables ?? []).map(({ name, expression: text }): NamedExpression => {
    // Each may name those before it.
    const expression = compileExpression(text, policyScope(spec, new Map(types)));
    types.set(name, expression.type);
    return { name, expression };
  });
  const scope = policyScope(spec, types);
  return {
    variables,
    conditions: (spec.matchConditions ?? []).map((it) =>
      compileExpression(it.expression, conditionScope(spec), BOOLEAN),
    ),
    validations: (spec.validations ?? []).map((it) => ({
      condition: compileExpression(it.expression, scope, BOOLEAN),
      message:
        it.messageExpression === undefined ? undefined : compileExpression(it.messageExpression, scope, TEXT),
    })),
    annotations: (spec.auditAnnotations ?? []).map((it) => ({
      key: it.key,
      value: compileExpression(it.valueExpression, scope, TEXT_OR_NULL),
    })),
  };
}

/** The input with `variables`, each of which is evaluated when it is first asked for, and once. */
export function withVariables({ variables }: Program, input: CelInput, budget: Budget): CelInput {
  if (variables.length === 0) return input;
  const whole = new Map(input);
  const byName = new Map(variables.map((it) => [it.name, it.expression]));
  whole.set("variables", new LazyFields(VARIABLES, (name) => byName.get(name)?.evaluate(whole, budget)));
  return whole;
}
