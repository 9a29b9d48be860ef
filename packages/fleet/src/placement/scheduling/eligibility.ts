import type { AgentStatus, MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";

/** The agent whose word decides whether a cluster can take placements. */
const MEMBER_AGENT = "MemberAgent";
/** How old the last heartbeat of an eligible cluster can be, and for how long its agent can report that it is unhealthy. */
export const SILENCE_LIMIT_MS = 300_000;

/** What the hub saw of the heartbeats of a member, by its own clock. */
export interface Sight {
  /** How long ago the last heartbeat was seen to change. Unit: milliseconds. */
  readonly heartbeatAgeMs: number;
}

/** Why nothing can be placed in a cluster; undefined if it can. Clocks of the member and of the hub are never compared. */
export function ineligibility(member: MemberCluster, { heartbeatAgeMs }: Sight): string | undefined {
  if (isDeleting(member)) return "the cluster is leaving the fleet";
  const agent = memberAgentOf(member);
  if (agent === undefined) return "the cluster has no status of its member agent yet";
  if (agent.lastReceivedHeartbeat === undefined) return "no heartbeat of the cluster has been received yet";
  if (heartbeatAgeMs > SILENCE_LIMIT_MS) return "no heartbeat of the cluster was received for 5 minutes";
  if (findCondition(agent.conditions, "Joined")?.status !== "True")
    return "the member agent has not joined the fleet";
  const healthy = findCondition(agent.conditions, "Healthy");
  if (healthy === undefined) return "the member agent has not reported the health of the cluster yet";
  if (
    healthy.status === "False" &&
    unhealthyMs(agent, healthy.lastTransitionTime) + heartbeatAgeMs > SILENCE_LIMIT_MS
  )
    return "the member agent has reported for 5 minutes that the cluster is not healthy";
  return undefined;
}

/** For how much longer what `ineligibility` said holds if the member reports nothing. Unit: milliseconds. */
export function eligibleForMs(member: MemberCluster, sight: Sight): number {
  if (ineligibility(member, sight) !== undefined) return Infinity;
  const agent = memberAgentOf(member);
  const healthy = findCondition(agent?.conditions, "Healthy");
  const usedMs =
    agent !== undefined && healthy?.status === "False" ? unhealthyMs(agent, healthy.lastTransitionTime) : 0;
  return SILENCE_LIMIT_MS - usedMs - sight.heartbeatAgeMs + 1;
}

export function memberAgentOf({ status }: MemberCluster): AgentStatus | undefined {
  return status?.agentStatus?.find((it) => it.type === MEMBER_AGENT);
}

/** From one time of the agent's clock to another. */
function unhealthyMs({ lastReceivedHeartbeat = "" }: AgentStatus, since: string): number {
  const ms = Date.parse(lastReceivedHeartbeat) - Date.parse(since);
  return Number.isNaN(ms) ? 0 : Math.max(0, ms);
}
