import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import { setCondition } from "@fairlead/kube/objects/conditions.ts";
import {
  INTERNAL_MEMBER_CLUSTERS,
  type InternalMemberCluster,
  MEMBER_AGENT_TYPE,
} from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { Session } from "../session.ts";
import { joinedAsMemberAgent } from "./member-agent.ts";

/** Says why the cluster that is to leave cannot, if the agent that applies Works knows. */
export async function reportStay(
  { works, placing, hub, deps }: Session,
  { metadata, status }: InternalMemberCluster,
  signal: AbortSignal,
): Promise<void> {
  const before = status?.agentStatus ?? [];
  const agent = before.find((it) => it.type === MEMBER_AGENT_TYPE);
  if (works === undefined || agent === undefined) return;
  const joined = joinedAsMemberAgent({ state: "leaving", problem: placing.leaving });
  const conditions = setCondition(agent.conditions, joined, deps.clock);
  if (conditions === agent.conditions) return;
  const agentStatus = before.map((it) => (it === agent ? { ...it, conditions } : it));
  const { resourceVersion } = metadata;
  const patch = { metadata: { resourceVersion }, status: { agentStatus } };
  await hub.mergePatch(INTERNAL_MEMBER_CLUSTERS, keyOf({ metadata }), patch, {
    subresource: "status",
    signal,
  });
}
