import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { sameJson } from "@fairlead/base/json.ts";
import type { Change } from "@fairlead/kube/types.ts";

/**
 * Whether a member reported that it is alive, when it looked, or how much of its resources is in use, and nothing else. Each
 * member does so every minute: controllers that look at the whole fleet need not do so for that.
 */
export function isHeartbeat({ before, after }: Change<MemberCluster>): boolean {
  return before !== undefined && after !== undefined && sameJson(lasting(before), lasting(after));
}

function lasting({ metadata, status }: MemberCluster): readonly unknown[] {
  const { uid, generation, deletionTimestamp, labels, annotations } = metadata;
  const agents = (status?.agentStatus ?? []).map((it) => ({ ...it, lastReceivedHeartbeat: undefined }));
  const properties = Object.entries(status?.properties ?? {}).map(([name, { value }]) => [name, value]);
  return [uid, generation, deletionTimestamp, labels, annotations, status?.conditions, agents, properties];
}
