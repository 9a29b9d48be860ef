import { resource } from "../../meta/resource.ts";
import type { KubeObject } from "../../meta/types.ts";

export type Operation = "CREATE" | "UPDATE" | "DELETE";

export interface RuleWithOperations {
  apiGroups: readonly string[];
  apiVersions: readonly string[];
  resources: readonly string[];
  operations: readonly Operation[];
  scope?: "Cluster" | "Namespaced" | "*";
}

/** A CEL expression by a name of its own. */
export interface NamedExpression {
  name: string;
  expression: string;
}

export interface Validation {
  expression: string;
  message?: string;
  messageExpression?: string;
  reason?: "Forbidden" | "Invalid";
}

export interface ValidatingAdmissionPolicy extends KubeObject {
  spec: {
    failurePolicy: "Fail" | "Ignore";
    matchConstraints: { resourceRules: readonly RuleWithOperations[] };
    matchConditions?: readonly NamedExpression[];
    variables?: readonly NamedExpression[];
    validations: readonly Validation[];
  };
}

export interface ValidatingAdmissionPolicyBinding extends KubeObject {
  spec: { policyName: string; validationActions: readonly ("Deny" | "Warn" | "Audit")[] };
}

export const VALIDATING_ADMISSION_POLICIES = resource<ValidatingAdmissionPolicy>(
  "admissionregistration.k8s.io/v1",
  "ValidatingAdmissionPolicy",
  "validatingadmissionpolicies",
  "Cluster",
);
export const VALIDATING_ADMISSION_POLICY_BINDINGS = resource<ValidatingAdmissionPolicyBinding>(
  "admissionregistration.k8s.io/v1",
  "ValidatingAdmissionPolicyBinding",
  "validatingadmissionpolicybindings",
  "Cluster",
);

export interface ValidatingWebhook {
  name: string;
  rules?: readonly RuleWithOperations[];
  clientConfig: {
    /** Of the Service. */
    service?: { namespace: string; name: string; path?: string; port?: number };
    url?: string;
    /** PEM, in base64. */
    caBundle?: string;
  };
  failurePolicy?: "Fail" | "Ignore";
  sideEffects: "None" | "NoneOnDryRun";
  admissionReviewVersions: readonly string[];
  /** Unit: seconds. */
  timeoutSeconds?: number;
  matchConditions?: readonly NamedExpression[];
}

export interface ValidatingWebhookConfiguration extends KubeObject {
  webhooks?: ValidatingWebhook[];
}

export const VALIDATING_WEBHOOK_CONFIGURATIONS = resource<ValidatingWebhookConfiguration>(
  "admissionregistration.k8s.io/v1",
  "ValidatingWebhookConfiguration",
  "validatingwebhookconfigurations",
  "Cluster",
);
