import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { ClusterMeshProfile } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { formatMemberSelector } from "#domain/member-selector.ts";
import { isManual, selectorOf, settingsOf } from "#domain/mesh-members.ts";
import { defined } from "@fairlead/base/defined.ts";
import { sameJson } from "@fairlead/base/json.ts";
import type { NewCondition } from "@fairlead/kube/objects/conditions.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { driftOf, type StatesPlan } from "./plan-states.ts";

/** What the status of a profile reports of the plan that was applied last. Pure. */

export function planOperation(
  profile: ClusterMeshProfile,
  { state, memberStates, error }: StatesPlan,
): Partial<NonNullable<ClusterMeshProfile["status"]>> {
  const { spec } = profile;
  const applied = isManual(profile) ? spec.applied : undefined;
  const isApplied = !isManual(profile) || applied !== undefined;
  const selector = applied?.memberSelector ?? formatMemberSelector(spec.memberSelector);
  return {
    state,
    memberStates,
    ...(isApplied ? { lastAppliedMemberSelector: selector } : {}),
    ...defined({ lastOperationId: applied?.operation, lastOperationError: error }),
  };
}

/** Whether the members and settings of a manual profile are others than those that it was applied with. */
export function planDrift(profile: ClusterMeshProfile, members: Iterable<MemberCluster>): NewCondition[] {
  if (!isManual(profile)) return [];
  const { applied } = profile.spec;
  const matches = selectorOf(profile);
  if (typeof matches === "string") return [];
  const selected = [...members].filter((it) => !isDeleting(it) && matches(it.metadata.labels));
  const isSame = applied !== undefined && sameJson(settingsOf(applied), settingsOf(profile.spec));
  const names = selected.map((it) => it.metadata.name);
  const drift = driftOf(profile, names, isSame);
  const type = "Drift";
  if (drift === undefined)
    return [{ type, status: "False", reason: "None", message: "the members are those that are selected" }];
  const message = `"fairlead mesh apply" would ${drift}`;
  return [{ type, status: "True", reason: "Detected", message }];
}
