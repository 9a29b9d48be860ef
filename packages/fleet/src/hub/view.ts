import { ISOLATION_ANNOTATION, GRANTED_CIDRS_ANNOTATION } from "#api/fairlead.dev/names.ts";
import { type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import type { InternalMemberCluster, MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { NamespaceReport } from "#api/fairlead.dev/v1alpha1/types.ts";
import {
  type AddressBlock,
  type ClusterMeshProfile,
  RELEASED_AT_ANNOTATION,
} from "#api/fairlead.dev/v1alpha1/mesh.ts";
import type { ComponentsPin } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { isVersion } from "#api/fairlead.dev/node-agents.ts";
import { componentsVersionOf, type ProfileVersion } from "#domain/components.ts";
import { formatPrefix } from "@fairlead/base/netaddr/prefix.ts";
import { rangesOf } from "#domain/ranges.ts";
import type { HubInformers } from "./informers.ts";

/**
 * Decides which members read the view. A member gets copies in its mailbox until it reports that it reads the view, so that
 * it moves without a gap; and again, before it has to stop reading, if it becomes isolated.
 */

export function reportOf({ reports }: HubInformers, cluster: string): NamespaceReport | undefined {
  return reports.store.get(objectKey(mailboxOf(cluster), cluster));
}

/** Returns true for a member whose agent does not report namespaces: it does not know Fairlead's extensions. */
export function isLegacyMember(informers: HubInformers, cluster: string): boolean {
  return reportOf(informers, cluster) === undefined;
}

export function isIsolated(member: MemberCluster | undefined): boolean {
  return member?.metadata.annotations?.[ISOLATION_ANNOTATION] === "strict";
}

/** The networks that the endpoints of a member may be in; undefined: any. */
export function grantedTo(member: MemberCluster | undefined): string | undefined {
  return member?.metadata.annotations?.[GRANTED_CIDRS_ANNOTATION];
}

/**
 * `spec.network` of a member's InternalMemberCluster. Agents that know parallel networks answer with the blocks that they need,
 * and get addresses then; the prefixes stay while the AddressBlock is unknown.
 */
export function networkOf(
  informers: HubInformers,
  member: MemberCluster,
  current: InternalMemberCluster | undefined,
): InternalMemberCluster["spec"]["network"] {
  const cluster = member.metadata.name;
  const profile = informers.memberships.of(cluster);
  if (profile === undefined || isDeleting(member)) return undefined;
  const { version: _before, ...network } = networkIn(informers, member, profile, current);
  const version = componentsVersionOf(versionOf(profile), pinOf(informers, cluster));
  // Also where it is that of the profile: a pin is removed without a moment at which the member has the former version.
  return version === undefined || !isVersion(version) ? network : { ...network, version };
}

export function versionOf({ metadata: { name }, spec: { version } }: ClusterMeshProfile): ProfileVersion {
  return { name, version };
}

/** The version that an update run gave a member. */
export function pinOf({ clusterUpgrades }: HubInformers, cluster: string): ComponentsPin | undefined {
  return clusterUpgrades.store.get(objectKey(mailboxOf(cluster), cluster))?.spec.components;
}

function networkIn(
  informers: HubInformers,
  member: MemberCluster,
  profile: ClusterMeshProfile,
  current: InternalMemberCluster | undefined,
): NonNullable<InternalMemberCluster["spec"]["network"]> {
  const { name } = profile.metadata;
  // Its members leave a parallel network one by one, when their endpoints have the addresses of pods again.
  const block = blockOf(informers, member.metadata.name)?.spec;
  if (block !== undefined)
    return { profile: name, mode: "parallel", ipv4: [...block.ipv4], ipv6: [...block.ipv6] };
  const before = current?.spec.network;
  if (profile.spec.network.mode === "flat") return { profile: name, mode: "flat" };
  return before?.profile === name && before.mode === "parallel"
    ? before
    : { profile: name, mode: "parallel" };
}

/** The fleet addresses of a member, as other members see them. */
function blockOf(informers: HubInformers, cluster: string): AddressBlock | undefined {
  const block = informers.blocks.store.get(objectKey(informers.viewOf(cluster), cluster));
  return block?.metadata.annotations?.[RELEASED_AT_ANNOTATION] === undefined ? block : undefined;
}

/**
 * The same, for a member of a parallel network: its fleet addresses only. While it has none, and while it moves to them or back,
 * also those that it was granted, or that its pods have by its own account; unless pods of other members have the same.
 */
export function grantOf(informers: HubInformers, cluster: string): string | null | undefined {
  const member = informers.members.store.get(objectKey(undefined, cluster));
  if (member === undefined) return undefined;
  const block = blockOf(informers, cluster)?.spec;
  if (block === undefined) return isAmbiguous(informers, member) ? null : grantedTo(member);
  const own = [...block.ipv4, ...block.ipv6];
  if (block.transition === undefined) return own.join();
  const pods = rangesOf(member).filter((it) => it.of === "pod");
  return [...own, ...(grantedTo(member)?.split(",") ?? pods.map((it) => formatPrefix(it.range)))].join();
}

/** Whether the addresses of a member's pods may be those of other pods in its network. */
function isAmbiguous({ memberships }: HubInformers, member: MemberCluster): boolean {
  const profile = memberships.of(member.metadata.name);
  return profile?.spec.network.mode === "parallel" && profile.status?.podAddresses === "Overlapping";
}

/** While the view is absent, because it was deleted, all members get copies. */
export function readsView(informers: HubInformers, cluster: string): boolean {
  const view = informers.viewOf(cluster);
  if (!hasView(informers, view)) return false;
  if (reportOf(informers, cluster)?.spec.view !== view) return false;
  return !isIsolated(informers.members.store.get(objectKey(undefined, cluster)));
}

/** Whether a view is to hold services and endpoints: one that no member reads needs none. */
export function isViewRead(informers: HubInformers, view: string): boolean {
  return hasView(informers, view) && informers.readViews().has(view);
}

/** Whether a view takes objects. */
export function hasView({ namespaces }: HubInformers, view: string): boolean {
  const namespace = namespaces.store.get(objectKey(undefined, view));
  return namespace !== undefined && !isDeleting(namespace);
}

/** Whether a mailbox holds all that its member has from the view, and so can do without it. */
export function isMailboxFilled(informers: HubInformers, cluster: string): boolean {
  const namespaces = new Set(reportOf(informers, cluster)?.spec.namespaces);
  const view = informers.viewOf(cluster);
  const inMailbox = (name: string): ObjectKey => objectKey(mailboxOf(cluster), name);
  for (const it of informers.importedServices.store.byIndex("in", view))
    if (
      namespaces.has(it.spec.service.namespace) &&
      informers.importedServices.store.get(inMailbox(it.metadata.name)) === undefined
    )
      return false;
  for (const it of informers.sliceImports.store.byIndex("in", view))
    if (
      namespaces.has(it.spec.ownerServiceReference.namespace) &&
      it.spec.endpointSliceReference.clusterId !== cluster &&
      informers.sliceImports.store.get(inMailbox(it.metadata.name)) === undefined
    )
      return false;
  return true;
}
