import type { Authorizer } from "#values/authorizer.ts";
import type { Attributes } from "#registry/admission.ts";
import type { ResourceDefinition } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import { Pending } from "#registry/pending.ts";
import { forbidden, notFound, StatusError } from "#status.ts";
import type { AdmissionPlugin } from "../chain.ts";
import { type CelInput, celObject, celRequest } from "../expressions.ts";
import { isNamespaceItself, isPolicy, type Match } from "../match.ts";
import { type Evaluation, evaluatePolicy } from "./evaluate.ts";
import { Candidates } from "./candidates.ts";
import { matchResources } from "./matching.ts";
import { collectParams, type ParamServices } from "./params.ts";
import type { BoundPolicies } from "./policies.ts";
import { compilePolicy, type Program } from "./program.ts";
import type { Binding, BoundPolicy, Policy, PolicySpec } from "./types.ts";

interface Refusal {
  readonly policy: Policy;
  readonly binding: Binding | undefined;
  readonly message: string;
  readonly reason?: string | undefined;
}

export interface PolicyServices extends ParamServices {
  readonly authorizer: Authorizer;
}

/** One request, and what the policies say of it. */
interface PolicyRequest {
  readonly attributes: Attributes;
  readonly refusals: Refusal[];
  /** The input of expressions, equal for all policies that match the request as the same resource. */
  readonly inputs: Map<ResourceDefinition, CelInput>;
}

/** One policy on one request. */
interface Run extends PolicyRequest, BoundPolicy {
  readonly match: Match;
  /** Values of audit annotations by key. */
  readonly annotations: Map<string, Set<string>>;
}

const CODES: Readonly<Record<string, number>> = {
  Forbidden: 403,
  Unauthorized: 401,
  RequestEntityTooLarge: 413,
  Invalid: 422,
};
/** Longer values of audit annotations are cut. Unit: characters. */
const MAX_ANNOTATION_LENGTH = 10 * 1024;

/** ValidatingAdmissionPolicy (KEP-3488): rules in CEL, evaluated here, in the turn of the write. */
export class ValidatingPolicies implements AdmissionPlugin {
  readonly #candidates: Candidates;
  readonly #services: PolicyServices;
  /** By the spec, which is never changed once it is stored. */
  readonly #programs = new WeakMap<PolicySpec, Program>();

  constructor(policies: BoundPolicies, services: PolicyServices) {
    this.#candidates = new Candidates(policies, services.catalog);
    this.#services = services;
  }

  validate(attributes: Attributes): void {
    if (isPolicy(attributes.kind)) return;
    const candidates = this.#candidates.of(attributes);
    if (candidates.length === 0) return;
    const refusals: Refusal[] = [];
    const request: PolicyRequest = { attributes, refusals, inputs: new Map() };
    for (const it of candidates) this.#consider(it, request);
    const [first] = refusals;
    if (first !== undefined) throw refusalOf(first, attributes);
  }

  #consider({ policy, bindings }: BoundPolicy, request: PolicyRequest): void {
    const { attributes, refusals } = request;
    const { catalog } = this.#services;
    const fail = (error: unknown): void =>
      configurationFailed({ policy, binding: undefined }, error, refusals);
    const match = tried(
      () => matchResources(policy.spec.matchConstraints ?? {}, { attributes, catalog }),
      fail,
    );
    if (match === undefined) return;
    const annotations = new Map<string, Set<string>>();
    const run = { ...request, policy, bindings, match, annotations };
    for (const binding of bindings) this.#bind(run, binding);
    for (const [key, values] of annotations) {
      attributes.annotate(`${policy.metadata.name}/${key}`, [...values].join(", "));
    }
  }

  #bind(run: Run, binding: Binding): void {
    const { policy, attributes, refusals } = run;
    const { catalog } = this.#services;
    const { spec } = policy;
    const fail = (error: unknown): void => configurationFailed({ policy, binding }, error, refusals);
    const isMatched = tried(
      () => matchResources(binding.spec.matchResources ?? {}, { attributes, catalog }),
      fail,
    );
    if (isMatched === undefined) return;
    const of = { kind: spec.paramKind, ref: binding.spec.paramRef };
    const params = tried(() => collectParams(this.#services, of, attributes), fail) ?? [];
    for (const param of params) {
      const input = inputOf(run, this.#services.authorizer, param);
      report(run, binding, evaluatePolicy(this.#programOf(spec), spec, input));
    }
  }

  #programOf(spec: PolicySpec): Program {
    let program = this.#programs.get(spec);
    if (program === undefined) {
      program = compilePolicy(spec);
      this.#programs.set(spec, program);
    }
    return program;
  }
}

function inputOf(run: Run, authorizer: Authorizer, param: ApiObject | undefined): CelInput {
  const { attributes, match, inputs } = run;
  let shared = inputs.get(match.resource);
  if (shared === undefined) {
    shared = new Map([
      ...celRequest(attributes, match, authorizer),
      ["namespaceObject", celObject(namespaceOf(attributes))],
    ]);
    inputs.set(match.resource, shared);
  }
  return new Map([...shared, ["params", celObject(param)]]);
}

const NAMESPACE_FIELDS = new Set([
  "name",
  "generateName",
  "namespace",
  "labels",
  "annotations",
  "uid",
  "creationTimestamp",
  "deletionGracePeriodSeconds",
  "deletionTimestamp",
  "generation",
  "resourceVersion",
  "finalizers",
]);

/** The namespace of the object, without what policies are not shown of it. */
function namespaceOf(attributes: Attributes): ApiObject | undefined {
  const { namespace, reader } = attributes;
  if (namespace === "" || isNamespaceItself(attributes)) return undefined;
  const found = reader.get("", "namespaces", undefined, namespace);
  if (found === undefined) throw notFound({ group: "", plural: "namespaces" }, namespace);
  const metadata = Object.fromEntries(
    Object.entries(found.metadata).filter(([field]) => NAMESPACE_FIELDS.has(field)),
  );
  return { ...found, metadata: metadata as unknown as ApiObject["metadata"] };
}

/** Undefined, with the failure reported, when `work` fails by what is configured. */
function tried<T>(work: () => T, fail: (error: unknown) => void): T | undefined {
  try {
    return work();
  } catch (error) {
    if (error instanceof Pending) throw error;
    fail(error);
    return undefined;
  }
}

function configurationFailed(
  { policy, binding }: Pick<Refusal, "policy" | "binding">,
  error: unknown,
  refusals: Refusal[],
): void {
  if (policy.spec.failurePolicy === "Ignore") return;
  const what = binding === undefined ? "policy" : "binding";
  refusals.push({ policy, binding, message: `failed to configure ${what}: ${(error as Error).message}` });
}

/** Does with what a policy says what the binding wants done. */
function report(run: Run, binding: Binding, { denials, annotations, annotationProblems }: Evaluation): void {
  const { policy, attributes, refusals } = run;
  const { validationActions = [], policyName } = binding.spec;
  const [policyText, bindingText] = [policy.metadata.name, binding.metadata.name];
  for (const { index, message, reason } of denials) {
    for (const action of validationActions) {
      if (action === "Deny") refusals.push({ policy, binding, message, reason });
      else if (action === "Warn") {
        attributes.warn(
          `Validation failed for ValidatingAdmissionPolicy '${policyText}' with binding '${bindingText}': ${message}`,
        );
      } else {
        const failure = {
          message,
          policy: policyName,
          binding: bindingText,
          expressionIndex: index,
          validationActions,
        };
        attributes.annotate(
          "validation.policy.admission.k8s.io/validation_failure",
          JSON.stringify([failure]),
        );
      }
    }
  }
  for (const { key, value } of annotations) {
    const values = run.annotations.get(key) ?? new Set();
    run.annotations.set(key, values.add(value.slice(0, MAX_ANNOTATION_LENGTH)));
  }
  for (const message of annotationProblems) refusals.push({ policy, binding, message });
}

function refusalOf(
  { policy, binding, message, reason = "Invalid" }: Refusal,
  attributes: Attributes,
): StatusError {
  const { definition, name, object } = attributes;
  const by = binding === undefined ? "" : ` with binding '${binding.metadata.name}'`;
  const text = `ValidatingAdmissionPolicy '${policy.metadata.name}'${by} denied request: ${message}`;
  const { status } = forbidden(definition, name === "" ? (object?.metadata.generateName ?? "") : name, text);
  const details = { ...status.details, causes: [{ message: text }] };
  return new StatusError({ ...status, reason, code: CODES[reason] ?? 422, details });
}
