import {
  admissionPolicyBindingColumns,
  admissionPolicyColumns,
  webhookColumns,
} from "#builtin/columns/other.ts";
import { define } from "#builtin/define.ts";
import type { ResourceDefinition } from "#registry/types.ts";
import { policyBindingStrategy, policyStrategy, webhookStrategy } from "./strategy.ts";

/** The kinds of `admissionregistration.k8s.io`. */
export function admissionResources(): readonly ResourceDefinition[] {
  return [
    define("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", {
      plural: "mutatingwebhookconfigurations",
      clusterScoped: true,
      categories: ["api-extensions"],
      columns: webhookColumns,
      strategy: webhookStrategy,
    }),
    define("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", {
      plural: "validatingwebhookconfigurations",
      clusterScoped: true,
      categories: ["api-extensions"],
      columns: webhookColumns,
      strategy: webhookStrategy,
    }),
    define("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", {
      plural: "validatingadmissionpolicies",
      clusterScoped: true,
      categories: ["api-extensions"],
      columns: admissionPolicyColumns,
      hasStatus: true,
      strategy: policyStrategy,
    }),
    define("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", {
      plural: "validatingadmissionpolicybindings",
      clusterScoped: true,
      categories: ["api-extensions"],
      columns: admissionPolicyBindingColumns,
      strategy: policyBindingStrategy,
    }),
  ];
}
