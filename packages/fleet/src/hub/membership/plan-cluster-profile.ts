import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { MEMBER_AGENT_TYPE } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  CLUSTER_MANAGER,
  CLUSTER_MANAGER_LABEL,
  type ClusterProfile,
  CONTROL_PLANE_HEALTHY,
} from "#api/multicluster.x-k8s.io/cluster-profiles.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { AUTHORITY_PROPERTY, ENTRYPOINT_PROPERTY, VERSION_PROPERTY } from "#domain/cluster-properties.ts";
import { findCondition, isConditionTrue, type NewCondition } from "@fairlead/kube/objects/conditions.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import type { Applied } from "@fairlead/kube/types.ts";

/** How long a member may be silent: three periods of the default. Unit: milliseconds. */
const SILENT_MS = 180_000;

/** Whether a member has a profile: from the time it has joined until it is deleted. */
export function hasProfile(member: MemberCluster | undefined): member is MemberCluster {
  return member !== undefined && !isDeleting(member) && isConditionTrue(member.status?.conditions, "Joined");
}

export function planProfile({ metadata: { name } }: MemberCluster): Applied<ClusterProfile> {
  return {
    metadata: {
      name,
      namespace: FLEET_SYSTEM_NAMESPACE,
      labels: { [CLUSTER_MANAGER_LABEL]: CLUSTER_MANAGER },
    },
    spec: { displayName: name, clusterManager: { name: CLUSTER_MANAGER } },
  };
}

/** Its status but for the condition. */
export function planProfileFacts({ status }: MemberCluster): NonNullable<ClusterProfile["status"]> {
  const value = (name: string): string | undefined => status?.properties?.[name]?.value;
  const [kubernetes, server, ca] = [VERSION_PROPERTY, ENTRYPOINT_PROPERTY, AUTHORITY_PROPERTY].map(value);
  return {
    ...(kubernetes === undefined ? {} : { version: { kubernetes } }),
    ...(server === undefined
      ? {}
      : {
          accessProviders: [
            {
              name: CLUSTER_MANAGER,
              cluster: { server, ...(ca === undefined ? {} : { "certificate-authority-data": ca }) },
            },
          ],
        }),
  };
}

/** With the time until it has to be judged again. */
export function planProfileHealth(
  { status }: MemberCluster,
  nowMs: number,
): { readonly condition: NewCondition; readonly againInMs?: number } {
  const agent = status?.agentStatus?.find((it) => it.type === MEMBER_AGENT_TYPE);
  const said = (state: NewCondition["status"], reason: string, message: string): NewCondition => ({
    type: CONTROL_PLANE_HEALTHY,
    status: state,
    reason,
    message,
  });
  if (agent === undefined)
    return { condition: said("Unknown", "MemberAgentReportedNoStatus", "the member agent has not reported") };
  const seenMs = Date.parse(agent.lastReceivedHeartbeat ?? "");
  const leftMs = seenMs + SILENT_MS - nowMs;
  if (!(leftMs > 0)) {
    const message = `the last heartbeat was at ${agent.lastReceivedHeartbeat ?? "no time"}`;
    return { condition: said("False", "MemberAgentHeartbeatLost", message) };
  }
  const healthy = findCondition(agent.conditions, "Healthy");
  const condition =
    healthy === undefined
      ? said("Unknown", "MemberAgentReportedNoHealthInfo", "the member agent has not reported its health")
      : healthy.status === "True"
        ? said("True", "MemberClusterAPIServerHealthy", "the API server of the member is ready")
        : said("False", "MemberClusterAPIServerUnhealthy", healthy.message);
  return { condition, againInMs: leftMs };
}
