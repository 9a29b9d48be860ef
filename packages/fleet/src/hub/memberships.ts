import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { type ClusterMeshProfile, MAX_MESH_MEMBERS } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { viewNamespaceOf } from "#api/networking.fleet.azure.com/names.ts";
import { selectMembers } from "#domain/mesh-members.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import type { Change, Informer } from "@fairlead/kube/types.ts";

/** Which profile each member belongs to, remembered until profiles or labels change: each slice and importer asks. */
export interface Memberships {
  /** With the settings in force; undefined if the member belongs to none. Members that leave belong to theirs until they are gone. */
  of(cluster: string): ClusterMeshProfile | undefined;
  /** Returns true if a profile has as many members as it can have: another one may get the place of one that goes. */
  isFull(): boolean;
}

interface Known {
  readonly profiles: ReadonlyMap<string, ClusterMeshProfile>;
  readonly isFull: boolean;
}

export function createMemberships(
  profiles: Informer<ClusterMeshProfile>,
  members: Informer<MemberCluster>,
): { readonly memberships: Memberships; readonly viewOf: (cluster: string) => string } {
  let known: Known | undefined;
  profiles.subscribe(() => (known = undefined));
  members.subscribe((change) => {
    if (isClaimChanged(change)) known = undefined;
  });
  const look = (): Known => (known ??= read(profiles, members));
  const of = (cluster: string): ClusterMeshProfile | undefined => look().profiles.get(cluster);
  return {
    memberships: { of, isFull: () => look().isFull },
    viewOf: (cluster) => viewNamespaceOf(of(cluster)?.metadata.name),
  };
}

function read(profiles: Informer<ClusterMeshProfile>, members: Informer<MemberCluster>): Known {
  const selected = selectMembers(profiles.store.list(), members.store.list());
  const sizes = selected.map((it) => it.members.length + it.leaving.length);
  return {
    profiles: new Map(
      selected.flatMap(({ profile, members: own, leaving }) =>
        [...own, ...leaving].map((it) => [it.metadata.name, profile] as const),
      ),
    ),
    isFull: sizes.some((it) => it >= MAX_MESH_MEMBERS),
  };
}

/** Whether profiles may select another set of members. */
export function isClaimChanged({ before, after }: Change<MemberCluster>): boolean {
  const facts = (it: MemberCluster | undefined) => [it?.metadata.uid, isLeaving(it), it?.metadata.labels];
  return !sameJson(facts(before), facts(after));
}

function isLeaving(member: MemberCluster | undefined): boolean {
  return member !== undefined && isDeleting(member);
}

/** Whether members of a profile may have to install another version. */
export function isVersionChanged({ before, after }: Change<ClusterMeshProfile>): boolean {
  const versions = (it: ClusterMeshProfile | undefined) => [it?.spec.version, it?.spec.applied?.version];
  return !sameJson(versions(before), versions(after));
}

/** The members that may belong to another profile now, or have other addresses for their endpoints. */
export function changedMembers({ before, after }: Change<ClusterMeshProfile>): readonly string[] | "all" {
  const [was, is] = [before, after].map((it) => it !== undefined && !isDeleting(it));
  const facts = (it: ClusterMeshProfile | undefined) => [
    it?.spec.memberSelector,
    it?.spec.apply,
    it?.spec.dataplane,
    it?.spec.applied?.dataplane,
    it?.spec.applied?.network.mode,
    it?.spec.network.mode,
    it?.status?.podAddresses,
  ];
  if (was !== is || !sameJson(facts(before), facts(after))) return "all";
  const [old, now] = [before, after].map((it) => new Set(it?.spec.applied?.members));
  return [...(old ?? new Set<string>()).symmetricDifference(now ?? new Set<string>())];
}
