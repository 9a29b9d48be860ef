import { invalid, required } from "#values/field-errors.ts";
import type { FieldError } from "#status.ts";
import type { Crd, CrdCondition } from "./types.ts";

const APPROVED = "api-approved.kubernetes.io";
const PROTECTED_GROUP = /(^|\.)(k8s\.io|kubernetes\.io)$/;
const SEE = "see https://github.com/kubernetes/enhancements/pull/1111";

export interface Approval {
  readonly state: "unneeded" | "missing" | "bypassed" | "approved" | "invalid";
  readonly errors: readonly FieldError[];
  /** The condition in the status. */
  readonly condition?: Omit<CrdCondition, "lastTransitionTime">;
}

/** Whether a definition in a group of the Kubernetes community has been approved by its reviewers. Source: KEP-1111. */
export function approvalOf({
  spec,
  metadata,
}: {
  metadata: Crd["metadata"];
  spec?: Partial<Crd["spec"]>;
}): Approval {
  if (!PROTECTED_GROUP.test(spec?.group ?? "")) return { state: "unneeded", errors: [] };
  const field = `metadata.annotations[${APPROVED}]`;
  const annotation = metadata.annotations?.[APPROVED] ?? "";
  const must = `protected groups must have approval annotation ${JSON.stringify(APPROVED)}`;
  if (annotation === "") {
    const reason = `${must}, ${SEE}`;
    return {
      state: "missing",
      errors: [required(field, reason)],
      condition: conforms(false, "MissingAnnotation", reason),
    };
  }
  if (annotation.startsWith("unapproved")) {
    const reason = `not approved: ${JSON.stringify(annotation)}`;
    return { state: "bypassed", errors: [], condition: conforms(false, "UnapprovedAnnotation", reason) };
  }
  if (URL.parse(annotation)?.host) {
    const reason = `approved in ${annotation}`;
    return { state: "approved", errors: [], condition: conforms(true, "ApprovedAnnotation", reason) };
  }
  const reason = `${must} with either a URL or a reason starting with "unapproved", ${SEE}`;
  return {
    state: "invalid",
    errors: [invalid(field, annotation, reason)],
    condition: conforms(false, "InvalidAnnotation", reason),
  };
}

function conforms(isSo: boolean, reason: string, message: string): Omit<CrdCondition, "lastTransitionTime"> {
  return { type: "KubernetesAPIApprovalPolicyConformant", status: isSo ? "True" : "False", reason, message };
}
