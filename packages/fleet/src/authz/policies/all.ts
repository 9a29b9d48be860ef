import type {
  ValidatingAdmissionPolicy,
  ValidatingAdmissionPolicyBinding,
} from "@fairlead/kube/api/admissionregistration/v1/types.ts";
import { bindingOf, GUARD_RAILS, MEMBER_LABELS_POLICY, WORKLOAD_POLICY } from "./guard-rails.ts";
import { PLACEMENT_POLICIES } from "./placements.ts";
import { MAILBOX_POLICIES, MAILBOX_POLICY_BINDINGS } from "./policies.ts";

/** The policies of a hub, which hold in every one. */
export const HUB_POLICIES: readonly ValidatingAdmissionPolicy[] = [
  ...MAILBOX_POLICIES,
  ...GUARD_RAILS,
  ...PLACEMENT_POLICIES,
];
export const HUB_POLICY_BINDINGS: readonly ValidatingAdmissionPolicyBinding[] = [
  ...MAILBOX_POLICY_BINDINGS,
  ...[...GUARD_RAILS, ...PLACEMENT_POLICIES].map(bindingOf),
];

/** Those that hold where they are wanted. */
export const OPTIONAL_POLICIES: readonly ValidatingAdmissionPolicy[] = [
  WORKLOAD_POLICY,
  MEMBER_LABELS_POLICY,
];
