import { messageOf } from "@fairlead/base/errors.ts";
import { byText } from "@fairlead/base/text.ts";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { ClusterMeshProfile } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { DEFAULT_VIEW, viewNamespaceOf } from "#api/networking.fleet.azure.com/names.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import type { Matcher } from "@fairlead/kube/objects/selector.ts";

import { isDnsLabel, shown } from "./formats.ts";
import { memberMatcher } from "./member-selector.ts";

/** Which member belongs to which profile: to the oldest of those that select it. Pure. */

export interface Selected {
  readonly profile: ClusterMeshProfile;
  /** Oldest first. */
  readonly members: readonly MemberCluster[];
  /** Members that it selects, but that belong to an older profile. */
  readonly elsewhere: readonly { readonly member: string; readonly profile: string }[];
  /** Why it cannot have members; undefined if it can. */
  readonly problem: string | undefined;
}

/** @returns By profile, oldest first; without profiles and members that are being deleted. */
export function selectMembers(
  profiles: Iterable<ClusterMeshProfile>,
  members: Iterable<MemberCluster>,
): readonly Selected[] {
  const taken = new Map<string, string>();
  const present = [...members].filter((it) => !isDeleting(it)).toSorted(byAge);
  return byAgeOfProfiles(profiles).map((profile) => {
    const matches = matcherFor(profile);
    const isText = typeof matches === "string";
    const selected = isText ? [] : present.filter((it) => matches(it.metadata.labels));
    const own = selected.filter((it) => !taken.has(it.metadata.name));
    const elsewhere = selected.flatMap(({ metadata: { name } }) => {
      const other = taken.get(name);
      return other === undefined ? [] : [{ member: name, profile: other }];
    });
    for (const it of own) taken.set(it.metadata.name, profile.metadata.name);
    return { profile, members: own, elsewhere, problem: isText ? matches : undefined };
  });
}

/** The profile of one member, also while it leaves; undefined if no profile selects it. */
export function profileOf(
  profiles: Iterable<ClusterMeshProfile>,
  member: MemberCluster,
): ClusterMeshProfile | undefined {
  return byAgeOfProfiles(profiles).find((it) => {
    const matches = matcherFor(it);
    return typeof matches !== "string" && matches(member.metadata.labels);
  });
}

function byAgeOfProfiles(profiles: Iterable<ClusterMeshProfile>): ClusterMeshProfile[] {
  return [...profiles].filter((it) => !isDeleting(it)).toSorted(byAge);
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
function matcherFor({ metadata: { name }, spec }: ClusterMeshProfile): Matcher | string {
  if (name === DEFAULT_VIEW || !isDnsLabel(viewNamespaceOf(name)))
    return `metadata.name ${shown(name)} cannot be used: the namespace ${viewNamespaceOf(name)} is to be a DNS label, and is not to be that of members without a profile`;
  if (spec.dataplane === "cilium") return NO_CILIUM;
  try {
    return memberMatcher(spec.memberSelector);
  } catch (error) {
    return `spec.memberSelector: ${messageOf(error)}`;
  }
}
