import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import {
  FLEET_RESOURCE_LABEL,
  type InternalMemberCluster,
  MEMBER_NAME_LABEL,
  type MemberCluster,
} from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { type Namespace, NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { rulesOf } from "#authz/access.ts";
import { VIEW } from "#authz/mailbox.ts";
import { VIEW_NAMESPACE } from "#api/fairlead.dev/names.ts";
import { type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { ROLE_BINDINGS, ROLES, type Role, type RoleBinding } from "@fairlead/kube/api/rbac/v1/types.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import type { Applied, Change, KubeClient } from "@fairlead/kube/types.ts";
import { type HubInformers } from "../informers.ts";
import { isIsolated, isMailboxFilled, reportOf } from "../view.ts";
import { labelsOf, subjectOf } from "./plan.ts";

/** The namespace that all members read, and their permissions in it. Only the hub writes there. */

const READER_ROLE = "fleet-view-reader";
const LABELS = { [FLEET_RESOURCE_LABEL]: "true" };

function planViewNamespace(): Applied<Namespace> {
  return { metadata: { name: VIEW_NAMESPACE, labels: LABELS } };
}

function planViewRole(): Applied<Role> {
  return {
    metadata: { name: READER_ROLE, namespace: VIEW_NAMESPACE, labels: LABELS },
    rules: rulesOf(VIEW),
  };
}

/** One binding for each member: the other bindings stay as they are when a member joins or leaves. */
function planViewBinding(member: MemberCluster): Applied<RoleBinding> {
  return {
    metadata: { name: bindingOf(member.metadata.name), namespace: VIEW_NAMESPACE, labels: labelsOf(member) },
    subjects: [subjectOf(member)],
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: READER_ROLE },
  };
}

function bindingOf(cluster: string): string {
  return `fleet-view-reader-${cluster}`;
}

/** The member that a binding in the view is for. */
export function readerOf({ before, after }: Change<RoleBinding>): ObjectKey[] {
  const cluster = (after ?? before)?.metadata.labels?.[MEMBER_NAME_LABEL];
  return cluster === undefined ? [] : [objectKey(undefined, cluster)];
}

/**
 * Returns `spec.view` of a member's InternalMemberCluster. Legacy agents, which report no namespaces, do not get one.
 * A member that is isolated while it reads the view keeps it until its mailbox has everything.
 */
export function viewFor(
  informers: HubInformers,
  member: MemberCluster,
  internalMember: InternalMemberCluster | undefined,
): string | undefined {
  const cluster = member.metadata.name;
  if (reportOf(informers, cluster) === undefined) return undefined;
  if (!isIsolated(member)) return VIEW_NAMESPACE;
  return internalMember?.spec.view !== undefined && !isMailboxFilled(informers, cluster)
    ? VIEW_NAMESPACE
    : undefined;
}

interface Parts {
  readonly client: KubeClient;
  readonly informers: HubInformers;
}

export async function provideView(
  { client, informers }: Parts,
  member: MemberCluster,
  signal: AbortSignal,
): Promise<void> {
  const by = { fieldManager: HUB_MANAGER, signal };
  const namespace = informers.namespaces.store.get(objectKey(undefined, VIEW_NAMESPACE));
  await applyIfChanged(client, NAMESPACES, { current: namespace, desired: planViewNamespace(), ...by });
  const role = informers.roles.store.get(objectKey(VIEW_NAMESPACE, READER_ROLE));
  await applyIfChanged(client, ROLES, { current: role, desired: planViewRole(), ...by });
  const cluster = member.metadata.name;
  const internalMember = informers.internalMembers.store.get(objectKey(mailboxOf(cluster), cluster));
  if (isIsolated(member) && internalMember?.spec.view === undefined)
    return removeFromView({ client, informers }, cluster, signal);
  const binding = informers.roleBindings.store.get(objectKey(VIEW_NAMESPACE, bindingOf(cluster)));
  await applyIfChanged(client, ROLE_BINDINGS, { current: binding, desired: planViewBinding(member), ...by });
}

export async function removeFromView(
  { client, informers }: Parts,
  cluster: string,
  signal: AbortSignal,
): Promise<void> {
  const key = objectKey(VIEW_NAMESPACE, bindingOf(cluster));
  if (informers.roleBindings.store.get(key) !== undefined)
    await client.delete(ROLE_BINDINGS, key, { signal });
}
