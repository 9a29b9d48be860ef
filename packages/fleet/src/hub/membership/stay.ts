import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import { setCondition } from "@fairlead/kube/objects/conditions.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import {
  type InternalMemberCluster,
  type MemberCluster,
  MEMBER_CLUSTERS,
} from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { hasFailed, joined } from "./plan.ts";

/** Says why a member that is to leave does not, where its agent knows. */
export async function reportStay(
  { client, deps }: { readonly client: KubeClient; readonly deps: RuntimeDeps },
  member: MemberCluster,
  { status }: InternalMemberCluster,
  signal: AbortSignal,
): Promise<void> {
  const agentStatus = status?.agentStatus ?? [];
  if (!hasFailed(agentStatus) && !hasFailed(member.status?.agentStatus)) return;
  const conditions = setCondition(member.status?.conditions, joined(agentStatus), deps.clock);
  if (conditions === member.status?.conditions) return;
  const options = { subresource: "status" as const, fieldManager: HUB_MANAGER, signal };
  await client.mergePatch(MEMBER_CLUSTERS, keyOf(member), { status: { conditions, agentStatus } }, options);
}
