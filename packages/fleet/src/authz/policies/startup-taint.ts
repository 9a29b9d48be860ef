import type { ValidatingAdmissionPolicy } from "@fairlead/kube/api/admissionregistration/v1/types.ts";
import { NODES } from "@fairlead/kube/api/core/v1/types.ts";
import { MEMBER_AGENT } from "#api/fairlead.dev/installed.ts";
import { NODE_AGENTS_ACCOUNT, STARTUP_TAINT } from "#api/fairlead.dev/node-agents.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { quoted } from "./cel.ts";

/**
 * What a member's API server leaves of the rights on Nodes: RBAC knows neither fields nor whose node it is. They need Kubernetes 1.30, whose
 * tokens of pods name the node.
 */

const NODE_OF_TOKEN = "authentication.kubernetes.io/node-name";

const same = (field: string): string => `object.${field} == oldObject.${field}`;
const sameOrAbsent = (parent: string, field: string, none: string): string =>
  `object.${parent}.?${field}.orValue(${none}) == oldObject.${parent}.?${field}.orValue(${none})`;

const SAME_METADATA = [
  sameOrAbsent("metadata", "labels", "{}"),
  sameOrAbsent("metadata", "annotations", "{}"),
  sameOrAbsent("metadata", "finalizers", "[]"),
  sameOrAbsent("metadata", "ownerReferences", "[]"),
].join(" && ");

/** The fields of a Node's spec that may be changed at all, without its taints. */
const SAME_SPEC = [
  sameOrAbsent("spec", "unschedulable", "false"),
  sameOrAbsent("spec", "providerID", '""'),
  sameOrAbsent("spec", "podCIDR", '""'),
  sameOrAbsent("spec", "podCIDRs", "[]"),
].join(" && ");

const othersOf = (of: string): string =>
  `${of}.spec.?taints.orValue([]).filter(it, it.key != ${quoted(STARTUP_TAINT)})`;

/** The right to patch Nodes, without all but one taint. */
function startupTaintPolicy(account: string): ValidatingAdmissionPolicy {
  return policyOf("fairlead-startup-taint", NODES.plural, account, {
    expression: `${SAME_METADATA} && ${SAME_SPEC} && ${othersOf("object")} == ${othersOf("oldObject")}`,
    message: `the member may change no more of a Node than its taint ${STARTUP_TAINT}`,
  });
}

const conditionsOf = (of: string): string =>
  `${of}.status.?conditions.orValue([]).filter(it, !it.type.startsWith("fairlead.dev/"))`;

/** An agent reports on its own node: what it says of another one would let pods in there. */
const NODE_REPORT_POLICY: ValidatingAdmissionPolicy = policyOf(
  "fairlead-node-report",
  `${NODES.plural}/status`,
  NODE_AGENTS_ACCOUNT,
  {
    expression: `request.userInfo.?extra[?${quoted(NODE_OF_TOKEN)}].orValue([]) == [object.metadata.name] && ${SAME_METADATA} && ${sameOrAbsent("status", "addresses", "[]")} && ${sameOrAbsent("status", "capacity", "{}")} && ${sameOrAbsent("status", "allocatable", "{}")} && ${same("status.nodeInfo")} && ${conditionsOf("object")} == ${conditionsOf("oldObject")}`,
    message: "fairlead node may write its own conditions, fairlead.dev/*, on its own Node alone",
  },
);

/** The policies of a member that was joined with `--startup-taint`. */
export const MEMBER_POLICIES: readonly ValidatingAdmissionPolicy[] = [
  startupTaintPolicy(`${MEMBER_AGENT}-sa`),
  NODE_REPORT_POLICY,
];

function policyOf(
  name: string,
  resource: string,
  account: string,
  validation: { readonly expression: string; readonly message: string },
): ValidatingAdmissionPolicy {
  const user = `system:serviceaccount:${FLEET_SYSTEM_NAMESPACE}:${account}`;
  return {
    metadata: { name },
    spec: {
      failurePolicy: "Fail",
      matchConstraints: {
        resourceRules: [
          {
            apiGroups: [""],
            apiVersions: ["v1"],
            resources: [resource],
            operations: ["UPDATE"],
            scope: "Cluster",
          },
        ],
      },
      matchConditions: [
        { name: "by-the-account", expression: `request.userInfo.username == ${quoted(user)}` },
      ],
      validations: [{ ...validation, reason: "Forbidden" }],
    },
  };
}
