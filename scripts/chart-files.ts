import { stringify } from "yaml";
import {
  type CustomResourceDefinition,
  CUSTOM_RESOURCE_DEFINITIONS,
} from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { HUB_CRDS, MEMBER_CRDS } from "@fairlead/fleet/api/crds.ts";
import { type Access, allow, rulesOf } from "@fairlead/fleet/authz/access.ts";
import {
  ACT_AS_MEMBERS,
  ASK_FOR_CERTIFICATES,
  DNS_ACCESS,
  HUB_ACCESS,
  HUB_CLUSTER_API_ACCESS,
  HUB_PLACEMENT_ACCESS,
  HUB_WEBHOOK_ACCESS,
  MEMBER_ACCESS,
  MEMBER_NODES_ACCESS,
  MEMBER_TAINTS_ACCESS,
  MEMBER_UPGRADES_ACCESS,
  MEMBER_WORK_ACCESS,
  NODE_ACCESS,
  RELAY_ACCESS,
  type ProgramAccess,
} from "@fairlead/fleet/authz/programs.ts";
import type {
  ValidatingAdmissionPolicy,
  ValidatingAdmissionPolicyBinding,
} from "@fairlead/kube/api/admissionregistration/v1/types.ts";
import {
  bindingOf,
  GUARD_RAILS,
  MEMBER_LABELS_POLICY,
  WORKLOAD_POLICY,
} from "@fairlead/fleet/authz/policies/guard-rails.ts";
import { PLACEMENT_POLICIES } from "@fairlead/fleet/authz/policies/placements.ts";
import { MEMBER_POLICIES } from "@fairlead/fleet/authz/policies/startup-taint.ts";
import { MAILBOX_POLICIES, MAILBOX_POLICY_BINDINGS } from "@fairlead/fleet/authz/policies/policies.ts";

/** What the charts take from the programs' own declarations: path below the root, and text. */
export function chartFiles(): ReadonlyMap<string, string> {
  return new Map([
    [
      "charts/fairlead-hub/files/rules.yaml",
      rules(HUB_ACCESS, HUB_CRDS, {
        dns: DNS_ACCESS.cluster,
        certificates: ASK_FOR_CERTIFICATES,
        certifies: ACT_AS_MEMBERS,
        placements: HUB_PLACEMENT_ACCESS.cluster,
        webhook: HUB_WEBHOOK_ACCESS.cluster,
        webhookFleetSystem: HUB_WEBHOOK_ACCESS.system,
        clusterAPI: HUB_CLUSTER_API_ACCESS.cluster,
        clusterAPIFleetSystem: HUB_CLUSTER_API_ACCESS.system,
      }),
    ],
    [
      "charts/fairlead-hub/files/policies.yaml",
      policies("what the hub's API server refuses in mailboxes", MAILBOX_POLICIES, MAILBOX_POLICY_BINDINGS),
    ],
    [
      "charts/fairlead-hub/files/guard-rails.yaml",
      policies("what it refuses in the hub as a whole", [...GUARD_RAILS, ...PLACEMENT_POLICIES]),
    ],
    ["charts/fairlead-hub/files/workloads.yaml", policies("the hub runs no workloads", [WORKLOAD_POLICY])],
    [
      "charts/fairlead-hub/files/member-labels.yaml",
      policies("labels of members are changed elsewhere", [MEMBER_LABELS_POLICY]),
    ],
    [
      "charts/fairlead-member/files/rules.yaml",
      rules(MEMBER_ACCESS, MEMBER_CRDS, {
        dns: DNS_ACCESS.cluster,
        nodes: NODE_ACCESS.cluster,
        nodesFleetSystem: NODE_ACCESS.system,
        installNodes: MEMBER_NODES_ACCESS.system,
        taints: MEMBER_TAINTS_ACCESS.cluster,
        placements: MEMBER_WORK_ACCESS.cluster,
        upgrades: MEMBER_UPGRADES_ACCESS.cluster,
        upgradesFleetSystem: MEMBER_UPGRADES_ACCESS.system,
      }),
    ],
    [
      "charts/fairlead-member/files/startup-taint.yaml",
      policies("what a member may write of Nodes, and its node agents", MEMBER_POLICIES),
    ],
    ["charts/fairlead-node/files/rules.yaml", rules(NODE_ACCESS, [])],
    ["charts/fairlead-relay/files/rules.yaml", rules(RELAY_ACCESS, [])],
  ]);
}

function rules(
  program: ProgramAccess,
  crds: readonly CustomResourceDefinition[],
  others: Readonly<Record<string, readonly Access[]>> = {},
): string {
  const names = crds.map((it) => it.metadata.name);
  const accesses = {
    cluster: program.cluster,
    fleetSystem: program.system,
    // Applied on the server, which asks for "create" by the name too.
    ...(crds.length === 0
      ? {}
      : {
          crds: [allow(CUSTOM_RESOURCE_DEFINITIONS, ["get", "list", "watch", "create", "patch"], { names })],
        }),
    ...others,
  };
  const made = Object.fromEntries(Object.entries(accesses).map(([name, it]) => [name, rulesOf(it)]));
  return `# Made by "npm run generate" from what the programs declare. crds: the Job that installs the kinds.\n${stringify(made)}`;
}

function policies(
  what: string,
  of: readonly ValidatingAdmissionPolicy[],
  bindings: readonly ValidatingAdmissionPolicyBinding[] = of.map(bindingOf),
): string {
  const all = [
    ...of.map((it) => ({ kind: "ValidatingAdmissionPolicy", ...it })),
    ...bindings.map((it) => ({ kind: "ValidatingAdmissionPolicyBinding", ...it })),
  ].map((it) => ({ ...it, apiVersion: "admissionregistration.k8s.io/v1" }));
  return `# Made by "npm run generate": ${what}.
${stringify(all, { aliasDuplicateObjects: false })}`;
}
