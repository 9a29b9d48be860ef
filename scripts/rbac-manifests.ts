import { stringify } from "yaml";
import {
  VALIDATING_ADMISSION_POLICIES,
  VALIDATING_ADMISSION_POLICY_BINDINGS,
} from "@fairlead/kube/api/admissionregistration/v1/types.ts";
import { type Access, rulesOf } from "@fairlead/fleet/authz/access.ts";
import { MAILBOX, RENEW_TOKEN, VIEW } from "@fairlead/fleet/authz/mailbox.ts";
import { accessManifests, type Manifest } from "@fairlead/fleet/authz/manifests.ts";
import { PROGRAMS } from "@fairlead/fleet/authz/programs.ts";
import { HUB_POLICIES, HUB_POLICY_BINDINGS, OPTIONAL_POLICIES } from "@fairlead/fleet/authz/policies/all.ts";
import { MEMBER_POLICIES } from "@fairlead/fleet/authz/policies/startup-taint.ts";
import { bindingOf } from "@fairlead/fleet/authz/policies/guard-rails.ts";
import { apiVersionOf } from "@fairlead/kube/api/meta/resource.ts";
import { FLEET_SYSTEM_NAMESPACE } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";

/** What `docs/reference/` keeps of rights and policies: path below the root, and text. */
export function rbacManifests(): ReadonlyMap<string, string> {
  const folder = "docs/reference/rbac";
  const account = (name: string) =>
    ({ kind: "ServiceAccount", name, namespace: FLEET_SYSTEM_NAMESPACE }) as const;
  const policies: Manifest[] = [
    ...HUB_POLICIES.map((object) => ({ of: VALIDATING_ADMISSION_POLICIES, object })),
    ...HUB_POLICY_BINDINGS.map((object) => ({ of: VALIDATING_ADMISSION_POLICY_BINDINGS, object })),
  ];
  return new Map([
    ...PROGRAMS.map(
      (it) => [`${folder}/${it.name}.yaml`, render(accessManifests(it, account(it.of ?? it.name)))] as const,
    ),
    [`${folder}/policies.yaml`, render(policies)],
    ...[...OPTIONAL_POLICIES, ...MEMBER_POLICIES].map(
      (object) =>
        [
          `${folder}/${object.metadata.name}.yaml`,
          render([
            { of: VALIDATING_ADMISSION_POLICIES, object },
            { of: VALIDATING_ADMISSION_POLICY_BINDINGS, object: bindingOf(object) },
          ]),
        ] as const,
    ),
    ["docs/reference/rbac.md", reference()],
  ]);
}

function render(manifests: readonly Manifest[]): string {
  return manifests
    .map(({ of, object }) =>
      stringify({ apiVersion: apiVersionOf(of), kind: of.kind, ...object }, { aliasDuplicateObjects: false }),
    )
    .join("---\n");
}

function reference(): string {
  return `# Rights and policies

Made by \`npm run generate\` from \`packages/fleet/src/authz/\`: what the code
calls API servers with, declared once, is what charts, the hub and these tables are made from. \`test/fleet/\` runs the programs with
exactly these rights: a request that is not declared fails a test, and so does a declaration that nothing asks for.

Manifests: [rbac/](rbac/). Why it is so: [ADR 18](../adr/0018-rights-from-the-code.md), [trust between hub and members](../design/trust.md).

Each program has a ClusterRole, and where it needs one a Role in \`fleet-system\`. None writes CustomResourceDefinitions: they wait for those, which
\`fairlead join\` and the charts install. Secrets elsewhere are read by placements alone: \`fairlead-hub-placement\` reads whatever placements may select, and
the status of it is written where a placement reports back. A member applies objects with the rights of one ClusterRole, which ClusterRoleBinding
\`fairlead-member-applies-<role>\` names: \`cluster-admin\`, unless \`join --placement-role\` or \`placements.clusterRole\` of the chart says otherwise. Without
placements (\`placements.enabled=false\`, \`join --placement-role none\`) there is none of this.

${PROGRAMS.map(
  ({ name, cluster, system }) =>
    `## ${name}\n\n${cluster.length === 0 ? "" : table("everywhere", cluster)}${system.length === 0 ? "" : `\n${table("in `fleet-system`", system)}`}`,
).join("\n")}
## A member on the hub

Role \`fleet-role-<member>\` in the mailbox \`fleet-member-<member>\`, written by the hub and bound to the identity of the MemberCluster.

${table("in the mailbox", MAILBOX)}
${table("in the mailbox, for a ServiceAccount in it", RENEW_TOKEN)}
Role \`fleet-view-reader\` in \`fleet-view-default\` and in the view \`fleet-view-<profile>\` of each ClusterMeshProfile, one binding for each member that
reads the view. Role \`fleet-routes-reader\` in \`fleet-view-default\` permits members of profiles to read TrafficRoutes there:

${table("in the view", VIEW)}
## Policies

ValidatingAdmissionPolicies (Kubernetes 1.30 or newer) of the hub: for its namespaces \`fleet-member-*\` and \`fleet-view-*\`, for the contents of placements, overrides and
taints, and [guard rails](../guide/guard-rails.md) for the hub as a whole. They hold whatever RBAC grants, and fail closed. The controllers check contents again. \`fairlead-annotations\` rejects nothing: it warns clients that write an
unknown annotation of \`fairlead.dev/\` on a namespace or a MemberCluster.

\`fairlead-startup-taint\` and \`fairlead-node-report\` are policies of a member with \`--startup-taint\`: RBAC knows neither the fields of a Node nor whose node it is.

A user with the verb \`administer\` on \`mailboxes.fairlead.dev\` may do what the hub may do; this custom verb has no other meaning. Members of \`system:masters\` have
it; give it to people, or to another hub agent that writes into mailboxes, by a role of your own:

\`\`\`yaml
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: { name: fleet-mailbox-admin }
rules:
  - { apiGroups: [fairlead.dev], resources: [mailboxes], verbs: [administer] }
\`\`\`

| policy | for | refuses unless |
| --- | --- | --- |
${[...HUB_POLICIES, ...OPTIONAL_POLICIES, ...MEMBER_POLICIES]
  .map(
    ({ metadata, spec }) =>
      `| \`${metadata.name}\` | ${[
        ...new Set(
          spec.matchConstraints.resourceRules.map(
            (it) => `${it.operations.join("/").toLowerCase()} ${it.resources.join(", ")}`,
          ),
        ),
      ].join("<br>")} | ${spec.validations
        .map((it) => (it.message ?? it.messageExpression ?? "").replaceAll("|", "\\|"))
        .join("<br>")} |`,
  )
  .join("\n")}
`;
}

function table(where: string, accesses: readonly Access[]): string {
  const rows = rulesOf(accesses).map(
    ({ apiGroups = [], resources = [], resourceNames = [], verbs }) =>
      `| ${apiGroups[0] === "" ? "core" : apiGroups[0]} | ${resources.join(", ")} | ${resourceNames.length > 3 ? `${resourceNames.length} by name` : resourceNames.map((it) => `\`${it}\``).join(", ")} | ${verbs.join(", ")} |`,
  );
  return `| ${where} | kinds | only | verbs |\n| --- | --- | --- | --- |\n${rows.join("\n")}\n`;
}
