import type { LabelSelector } from "@fairlead/kube/api/meta/types.ts";
import type { ApiObject } from "#values/object.ts";
import type { MatchCondition } from "../conditions.ts";
import type { Rule, Selectors } from "../match.ts";

/** `admissionregistration.k8s.io/v1` policies, as they look once validation has passed them. */

export interface MatchResources extends Selectors {
  readonly resourceRules?: readonly Rule[];
  readonly excludeResourceRules?: readonly Rule[];
  readonly matchPolicy?: "Exact" | "Equivalent";
}

export interface Variable {
  readonly name: string;
  readonly expression: string;
}

export interface Validation {
  readonly expression: string;
  readonly message?: string;
  readonly messageExpression?: string;
  readonly reason?: string;
}

export interface AuditAnnotation {
  readonly key: string;
  readonly valueExpression: string;
}

export interface ParamKind {
  readonly apiVersion: string;
  readonly kind: string;
}

export interface PolicySpec {
  readonly paramKind?: ParamKind;
  readonly matchConstraints?: MatchResources;
  readonly matchConditions?: readonly MatchCondition[];
  readonly variables?: readonly Variable[];
  readonly validations?: readonly Validation[];
  readonly auditAnnotations?: readonly AuditAnnotation[];
  readonly failurePolicy?: "Fail" | "Ignore";
}

export interface Policy extends ApiObject {
  readonly spec: PolicySpec;
}

export interface ParamRef {
  readonly name?: string;
  readonly namespace?: string;
  readonly selector?: LabelSelector;
  readonly parameterNotFoundAction?: "Allow" | "Deny";
}

export interface BindingSpec {
  readonly policyName: string;
  readonly paramRef?: ParamRef;
  readonly matchResources?: MatchResources;
  readonly validationActions?: readonly ("Deny" | "Warn" | "Audit")[];
}

export interface Binding extends ApiObject {
  readonly spec: BindingSpec;
}

/** A policy with those of its bindings that there are. */
export interface BoundPolicy {
  readonly policy: Policy;
  readonly bindings: readonly Binding[];
}
