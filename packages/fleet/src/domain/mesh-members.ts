import { defined } from "@fairlead/base/defined.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import { byText } from "@fairlead/base/text.ts";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  type ClusterMeshProfile,
  MAX_MESH_MEMBERS,
  type MeshSettings,
} from "#api/fairlead.dev/v1alpha1/mesh.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { DEFAULT_VIEW, viewNamespaceOf } from "#api/networking.fleet.azure.com/names.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import type { Matcher } from "@fairlead/kube/objects/selector.ts";

import { isDnsLabel, shown } from "./formats.ts";
import { memberMatcher } from "./member-selector.ts";

/**
 * Which member belongs to which profile. Members that a profile was applied to belong to it; the others to the oldest
 * continuous profile that selects them. Pure.
 */

export interface Selected {
  /** With the settings that are in force. */
  readonly profile: ClusterMeshProfile;
  /** Oldest first; without those that are being deleted. */
  readonly members: readonly MemberCluster[];
  /** Members that belong to it until they are deleted. */
  readonly leaving: readonly MemberCluster[];
  /** Members that it selects, but that belong to another profile. */
  readonly elsewhere: readonly { readonly member: string; readonly profile: string }[];
  /** Members that it selects beyond the limit of MAX_MESH_MEMBERS: the youngest. */
  readonly beyond: readonly string[];
  /** Names that it was applied to, of which the fleet has no member. */
  readonly absent: readonly string[];
  /** Why it cannot have members; undefined if it can. */
  readonly problem: string | undefined;
}

/** @returns By profile, oldest first; without profiles that are being deleted. */
export function selectMembers(
  profiles: Iterable<ClusterMeshProfile>,
  members: Iterable<MemberCluster>,
): readonly Selected[] {
  const present = [...members].toSorted(byAge);
  const ordered = [...profiles].filter((it) => !isDeleting(it)).toSorted(byAge);
  const taken = new Map<string, string>();
  const claim = (profile: ClusterMeshProfile): readonly [ClusterMeshProfile, Selected] => [
    profile,
    claimMembers(profile, present, taken),
  ];
  const claimed = new Map([
    ...ordered.filter(isManual).map(claim),
    ...ordered.filter((it) => !isManual(it)).map(claim),
  ]);
  return ordered.flatMap((it) => claimed.get(it) ?? []);
}

export function isManual({ spec }: ClusterMeshProfile): boolean {
  return spec.apply === "Manual";
}

/** @param taken - Profiles by their members; those of this one are added. */
function claimMembers(
  profile: ClusterMeshProfile,
  present: readonly MemberCluster[],
  taken: Map<string, string>,
): Selected {
  const matches = matcherFor(profile);
  const isText = typeof matches === "string";
  const selected = isText ? [] : present.filter(matches);
  const free = selected.filter((it) => !taken.has(it.metadata.name));
  const own = free.slice(0, MAX_MESH_MEMBERS);
  const elsewhere = selected.flatMap(({ metadata: { name } }) => {
    const other = taken.get(name);
    return other === undefined ? [] : [{ member: name, profile: other }];
  });
  for (const it of own) taken.set(it.metadata.name, profile.metadata.name);
  const known = new Set(present.map((it) => it.metadata.name));
  const named = isManual(profile) ? (profile.spec.applied?.members ?? []) : [];
  return {
    profile: inForce(profile),
    members: own.filter((it) => !isDeleting(it)),
    leaving: own.filter(isDeleting),
    elsewhere,
    beyond: free.slice(MAX_MESH_MEMBERS).map((it) => it.metadata.name),
    absent: named.filter((it) => !known.has(it)),
    problem: isText ? matches : undefined,
  };
}

/** The profile with the settings that it was applied with last. A manual one that was not applied yet has no network. */
function inForce(profile: ClusterMeshProfile): ClusterMeshProfile {
  if (!isManual(profile)) return profile;
  const { applied } = profile.spec;
  const { memberSelector, apply } = profile.spec;
  const kept = { memberSelector, apply: apply ?? "Manual", ...(applied === undefined ? {} : { applied }) };
  const settings = applied === undefined ? { network: { mode: "flat" as const } } : settingsOf(applied);
  return { ...profile, spec: { ...settings, ...kept } };
}

/** The settings that members of a profile get. */
export function settingsOf(spec: MeshSettings): MeshSettings {
  const { network, ...rest } = spec;
  const { version, dataplane, defaultGlobalNamespace, keyRotationHours } = rest;
  const { policyDefaultLocalCluster, policyCIDRMatchMode } = rest;
  return {
    network,
    ...defined({ version, dataplane, defaultGlobalNamespace, keyRotationHours }),
    ...defined({ policyDefaultLocalCluster, policyCIDRMatchMode }),
  };
}

export function byAge(a: KubeObject, b: KubeObject): number {
  return (
    byText(a.metadata.creationTimestamp ?? "", b.metadata.creationTimestamp ?? "") ||
    byText(a.metadata.namespace ?? "", b.metadata.namespace ?? "") ||
    byText(a.metadata.name, b.metadata.name)
  );
}

const NO_CILIUM =
  "spec.dataplane: cilium is not supported yet: use fairlead; members whose CNI is Cilium can join then, and their own engine enforces network policies";

/** What is wrong with the profile, if it cannot have members. */
function matcherFor(profile: ClusterMeshProfile): ((member: MemberCluster) => boolean) | string {
  const { name } = profile.metadata;
  if (name === DEFAULT_VIEW || !isDnsLabel(viewNamespaceOf(name)))
    return `metadata.name ${shown(name)} cannot be used: the namespace ${viewNamespaceOf(name)} is to be a DNS label, and is not to be that of members without a profile`;
  if (inForce(profile).spec.dataplane === "cilium") return NO_CILIUM;
  if (isManual(profile)) {
    const named = new Set(profile.spec.applied?.members);
    return (member) => named.has(member.metadata.name);
  }
  const matches = selectorOf(profile);
  return typeof matches === "string" ? matches : (member) => matches(member.metadata.labels);
}

/** Which members the selector of a profile matches, applied or not; or what is wrong with it. */
export function selectorOf({ spec }: ClusterMeshProfile): Matcher | string {
  if (spec.dataplane === "cilium") return NO_CILIUM;
  try {
    return memberMatcher(spec.memberSelector);
  } catch (error) {
    return `spec.memberSelector: ${messageOf(error)}`;
  }
}
