import { compileExpression as compileCel, PER_CALL_LIMIT, type Program } from "#cel/environment.ts";
import { toCel } from "#cel/json.ts";
import type { Authorizer } from "#values/authorizer.ts";
import { AUTHORIZER, AuthorizerValue, RESOURCE_CHECK, ResourceCheck } from "#cel/library/authorizer.ts";
import {
  BOOL,
  type CelType,
  DYN,
  formatType,
  INT,
  isSameType,
  listOf,
  mapOf,
  NULL,
  STRING,
  structOf,
  TIMESTAMP,
} from "#cel/type.ts";
import { CelError, type CelValue, CostExceeded } from "#cel/value.ts";
import type { Attributes } from "#registry/admission.ts";
import type { ApiObject } from "#values/object.ts";
import { convertObject, type Match } from "./match.ts";
import { reviewRequest } from "./webhook/review.ts";

/** CEL as admission uses it. Source: k8s.io/apiserver, pkg/admission/plugin/cel. */

export interface Expression {
  readonly text: string;
  readonly type: CelType;
  /** @throws {CelError} when it has no value; {BudgetExceeded} when it costs more than the budget has left. */
  evaluate(input: CelInput, budget: Budget): CelValue;
}

/** Values of the variables by their names. */
export type CelInput = ReadonlyMap<string, CelValue>;
export type Scope = ReadonlyMap<string, CelType>;

/** The cost limit of all expressions of one policy, or of one list of conditions. */
export class Budget {
  #left: number;
  constructor(limit: number) {
    this.#left = limit;
  }

  get left(): number {
    return this.#left;
  }

  /** @throws {BudgetExceeded} from when more was spent than there was. */
  spend(cost: number): void {
    this.#left -= cost;
    if (this.#left < 0) throw new BudgetExceeded();
  }
}

class BudgetExceeded extends Error {
  constructor() {
    super("validation failed due to running out of cost budget, no further validation rules will be run");
  }
}

/** Source: apiserver, pkg/apis/cel. */
export const POLICY_BUDGET = 10_000_000;
export const CONDITIONS_BUDGET = 2_500_000;

const object = (name: string, fields: Readonly<Record<string, CelType>>): CelType =>
  structOf(name, new Map(Object.entries(fields)));

const KIND = object("kubernetes.GroupVersionKind", { group: STRING, version: STRING, kind: STRING });
const RESOURCE = object("kubernetes.GroupVersionResource", {
  group: STRING,
  version: STRING,
  resource: STRING,
});
const USER = object("kubernetes.UserInfo", {
  username: STRING,
  uid: STRING,
  groups: listOf(STRING),
  extra: mapOf(STRING, listOf(STRING)),
});
const REQUEST = object("kubernetes.AdmissionRequest", {
  kind: KIND,
  resource: RESOURCE,
  subResource: STRING,
  requestKind: KIND,
  requestResource: RESOURCE,
  requestSubResource: STRING,
  name: STRING,
  namespace: STRING,
  operation: STRING,
  userInfo: USER,
  dryRun: BOOL,
  options: DYN,
});

const TEXTS = mapOf(STRING, STRING);
export const NAMESPACE_TYPE: CelType = object("kubernetes.Namespace", {
  metadata: object("kubernetes.NamespaceMetadata", {
    name: STRING,
    generateName: STRING,
    namespace: STRING,
    labels: TEXTS,
    annotations: TEXTS,
    UID: STRING,
    creationTimestamp: TIMESTAMP,
    deletionGracePeriodSeconds: INT,
    deletionTimestamp: TIMESTAMP,
    generation: INT,
    resourceVersion: STRING,
    finalizers: listOf(STRING),
  }),
  spec: object("kubernetes.NamespaceSpec", { finalizers: listOf(STRING) }),
  status: object("kubernetes.NamespaceStatus", { phase: STRING }),
});

/** The variables of every admission expression. */
export const REQUEST_SCOPE: Scope = new Map([
  ["object", DYN],
  ["oldObject", DYN],
  ["request", REQUEST],
  ["authorizer", AUTHORIZER],
  ["authorizer.requestResource", RESOURCE_CHECK],
]);

export const BOOLEAN: readonly CelType[] = [BOOL];
export const TEXT: readonly CelType[] = [STRING];
export const TEXT_OR_NULL: readonly CelType[] = [STRING, NULL];

/** @throws {Error} when it is malformed, of another type, or names what does not exist. */
export function compileExpression(text: string, scope: Scope, returns?: readonly CelType[]): Expression {
  const program = compileCel(text, { variables: scope });
  checkType(program.type, returns);
  return {
    text,
    type: program.type,
    evaluate: (input, budget) => evaluate(program, text, { input, budget }),
  };
}

function checkType(type: CelType, returns: readonly CelType[] | undefined): void {
  if (returns === undefined || returns.some((it) => isSameType(it, type))) return;
  const names = returns.map(nameOf);
  const wanted = names.length === 1 ? names.join("") : `one of [${names.join(" ")}]`;
  throw new Error(`must evaluate to ${wanted} but got ${nameOf(type)}`);
}

function nameOf(type: CelType): string {
  return type.kind === "null_type" ? type.kind : formatType(type);
}

function evaluate(
  program: Program,
  text: string,
  { input, budget }: { readonly input: CelInput; readonly budget: Budget },
): CelValue {
  // Nothing is evaluated once the budget has run out.
  budget.spend(0);
  const { outcome, cost } = program.attempt(input, PER_CALL_LIMIT);
  // What comes to nothing is charged too.
  budget.spend(outcome instanceof CostExceeded ? PER_CALL_LIMIT : cost);
  if (!(outcome instanceof Error)) return outcome;
  throw new CelError(`expression '${text}' resulted in error: ${outcome.message}`);
}

/** An object as expressions see it: without a type, its numbers as they are written. */
export function celObject(value: unknown): CelValue {
  return toCel(value);
}

/** The authorizer check for the resource of the request. */
function requestCheck(
  { user, subresource, namespace, name }: Attributes,
  { resource: { group, plural } }: Match,
  authorizer: Authorizer,
): CelValue {
  const resource = { group, resource: plural, subresource, namespace, name };
  return new ResourceCheck(new AuthorizerValue(user, authorizer), resource);
}

/** The values of what every expression of admission may name. */
export function celRequest(
  attributes: Attributes,
  match: Match,
  authorizer: Authorizer,
): [string, CelValue][] {
  const { definition, object: made, old } = attributes;
  const versioned = (it: ApiObject | undefined): CelValue =>
    it === undefined ? null : celObject(convertObject(it, definition, match.resource));
  const { object: _object, oldObject: _oldObject, ...request } = reviewRequest(attributes, match);
  return [
    ["object", versioned(made)],
    ["oldObject", versioned(old)],
    ["request", celObject(request)],
    ["authorizer", new AuthorizerValue(attributes.user, authorizer)],
    ["authorizer.requestResource", requestCheck(attributes, match, authorizer)],
  ];
}
