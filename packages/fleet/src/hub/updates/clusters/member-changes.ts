import { sameJson } from "@fairlead/base/json.ts";
import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { watchingChanges } from "@fairlead/kube/controller/source.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import type { Change, Source } from "@fairlead/kube/types.ts";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { ClusterMeshProfile } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { type UpdateMember, updateMember } from "#updates/clusters/fleet.ts";
import type { HubInformers } from "../../informers.ts";
import { changedMembers, isVersionChanged } from "../../memberships.ts";

/** Makes `due` due when an `UpdateMember` of the fleet may be another one: each field is of a MemberCluster or of the profile it belongs to. */
export function watchingUpdateMembers(
  { members, profiles }: Pick<HubInformers, "members" | "profiles">,
  due: () => Iterable<ObjectKey>,
): Source[] {
  return [
    watchingChanges(members, ({ before, after }) => (sameJson(factsOf(before), factsOf(after)) ? [] : due())),
    watchingChanges(profiles, (change) => (areMembershipsChanged(change) ? due() : [])),
  ];
}

function factsOf(member: MemberCluster | undefined): UpdateMember | undefined {
  return member === undefined || isDeleting(member) ? undefined : updateMember(member, undefined);
}

function areMembershipsChanged(change: Change<ClusterMeshProfile>): boolean {
  return isVersionChanged(change) || changedMembers(change).length > 0;
}
