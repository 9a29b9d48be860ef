import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import {
  FLEET_RESOURCE_LABEL,
  type InternalMemberCluster,
  MEMBER_NAME_LABEL,
  type MemberCluster,
} from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { type Namespace, NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { type Access, rulesOf } from "#authz/access.ts";
import { ROUTES, VIEW } from "#authz/mailbox.ts";
import { VIEW_NAMESPACE } from "#api/fairlead.dev/names.ts";
import { keyOf, type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { mailboxOf, viewNamespaceOf } from "#api/networking.fleet.azure.com/names.ts";
import { ROLE_BINDINGS, ROLES, type Role, type RoleBinding } from "@fairlead/kube/api/rbac/v1/types.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import type { EventRecorder } from "@fairlead/kube/events/events.ts";
import type { Applied, Change, KubeClient } from "@fairlead/kube/types.ts";
import { type HubInformers } from "../informers.ts";
import { isIsolated, isMailboxFilled, reportOf } from "../view.ts";
import { labelsOf, subjectOf } from "./plan.ts";
import { lackingInView } from "../view-filled.ts";

/** The namespaces that members read, and their permissions in them. Only the hub writes there. */

const READER_ROLE = "fleet-view-reader";
/** For members that read another view: names of TrafficManagerProfiles are those of the whole fleet. */
const ROUTES_ROLE = "fleet-routes-reader";
const LABELS = { [FLEET_RESOURCE_LABEL]: "true" };

function planViewNamespace(view: string): Applied<Namespace> {
  return { metadata: { name: view, labels: LABELS } };
}

function planRoles(view: string): Applied<Role>[] {
  const role = (name: string, accesses: readonly Access[]): Applied<Role> => ({
    metadata: { name, namespace: view, labels: LABELS },
    rules: rulesOf(accesses),
  });
  const routes = view === VIEW_NAMESPACE ? [role(ROUTES_ROLE, ROUTES)] : [];
  return [role(READER_ROLE, VIEW), ...routes];
}

/** One binding for each member: the other bindings stay as they are when a member joins or leaves. */
function planBinding(member: MemberCluster, view: string, role: string): Applied<RoleBinding> {
  return {
    metadata: { name: `${role}-${member.metadata.name}`, namespace: view, labels: labelsOf(member) },
    subjects: [subjectOf(member)],
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: role },
  };
}

function planBindings(member: MemberCluster, view: string): Applied<RoleBinding>[] {
  return [
    planBinding(member, view, READER_ROLE),
    ...(view === VIEW_NAMESPACE ? [] : [planBinding(member, VIEW_NAMESPACE, ROUTES_ROLE)]),
  ];
}

/** Those of a member in all views. */
function bindingsOf({ roleBindings, profiles }: HubInformers, cluster: string): RoleBinding[] {
  const views = [...profiles.store.list()].map((it) => viewNamespaceOf(it.metadata.name));
  return [VIEW_NAMESPACE, ...views].flatMap((view) =>
    [READER_ROLE, ROUTES_ROLE].flatMap(
      (role) => roleBindings.store.get(objectKey(view, `${role}-${cluster}`)) ?? [],
    ),
  );
}

/** The member that a binding in the view is for. */
export function readerOf({ before, after }: Change<RoleBinding>): ObjectKey[] {
  const cluster = (after ?? before)?.metadata.labels?.[MEMBER_NAME_LABEL];
  return cluster === undefined ? [] : [objectKey(undefined, cluster)];
}

interface NextView {
  /** `spec.view` of a member's InternalMemberCluster. */
  readonly view: string | undefined;
  /** The name of an object that another view has to hold before the member may read that. */
  readonly lacking?: string | undefined;
}

/**
 * Legacy agents, which report no namespaces, do not get a view. A member begins to read a view when that has what its
 * mailbox has, and a member that is isolated while it reads the view keeps it until its mailbox has everything.
 */
export function viewFor(
  informers: HubInformers,
  member: MemberCluster,
  internalMember: InternalMemberCluster | undefined,
): NextView {
  const cluster = member.metadata.name;
  if (reportOf(informers, cluster) === undefined) return { view: undefined };
  const view = internalMember?.spec.view;
  if (isIsolated(member))
    return { view: view !== undefined && !isMailboxFilled(informers, cluster) ? view : undefined };
  const own = informers.viewOf(cluster);
  const lacking = view === own ? undefined : lackingInView(informers, cluster);
  return lacking === undefined ? { view: own } : { view, lacking };
}

interface Parts {
  readonly client: KubeClient;
  readonly informers: HubInformers;
}

export async function provideView(
  { client, informers, events }: Parts & { readonly events: EventRecorder },
  member: MemberCluster,
  signal: AbortSignal,
): Promise<void> {
  const by = { fieldManager: HUB_MANAGER, events, signal };
  const cluster = member.metadata.name;
  const own = informers.viewOf(cluster);
  for (const view of new Set([VIEW_NAMESPACE, own])) {
    const namespace = informers.namespaces.store.get(objectKey(undefined, view));
    await applyIfChanged(client, NAMESPACES, {
      current: namespace,
      desired: planViewNamespace(view),
      ...by,
    });
    for (const desired of planRoles(view)) {
      const current = informers.roles.store.get(keyOf(desired));
      await applyIfChanged(client, ROLES, { current, desired, ...by });
    }
  }
  const internalMember = informers.internalMembers.store.get(objectKey(mailboxOf(cluster), cluster));
  if (isIsolated(member) && internalMember?.spec.view === undefined)
    return removeFromViews({ client, informers }, cluster, signal);
  const bindings = planBindings(member, own);
  for (const desired of bindings) {
    const current = informers.roleBindings.store.get(keyOf(desired));
    await applyIfChanged(client, ROLE_BINDINGS, { current, desired, ...by });
  }
  const keep = new Set(bindings.map(keyOf));
  // Until the agent has moved on.
  const read = reportOf(informers, cluster)?.spec.view;
  for (const it of bindingsOf(informers, cluster))
    if (!keep.has(keyOf(it)) && it.metadata.namespace !== read)
      await client.delete(ROLE_BINDINGS, keyOf(it), { signal });
}

export async function removeFromViews(
  { client, informers }: Parts,
  cluster: string,
  signal: AbortSignal,
): Promise<void> {
  for (const it of bindingsOf(informers, cluster)) await client.delete(ROLE_BINDINGS, keyOf(it), { signal });
}
