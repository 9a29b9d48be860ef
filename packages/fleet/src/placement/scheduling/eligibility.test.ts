import { describe, expect, it } from "vitest";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { condition, fakeMember } from "./cluster.fake.ts";
import { eligibleForMs, ineligibility, SILENCE_LIMIT_MS } from "./eligibility.ts";

const FRESH = { heartbeatAgeMs: 0 };

function withAgent(
  change: (agent: NonNullable<NonNullable<MemberCluster["status"]>["agentStatus"]>[number]) => void,
) {
  const member = fakeMember("a");
  for (const agent of member.status?.agentStatus ?? []) change(agent);
  return member;
}
const unhealthySince = (since: string) =>
  withAgent((agent) => {
    agent.lastReceivedHeartbeat = "2026-06-01T00:10:00Z";
    agent.conditions = [condition("Joined", "True"), condition("Healthy", "False", since)];
  });

describe("a cluster", () => {
  it("is eligible with a fresh heartbeat of an agent that has joined and is healthy", () => {
    expect(ineligibility(fakeMember("a"), FRESH)).toBeUndefined();
    expect(ineligibility(fakeMember("a", { healthy: "Unknown" }), FRESH)).toBeUndefined();
  });
  it.each([
    ["while it is deleted", fakeMember("a", { isDeleting: true }), "the cluster is leaving the fleet"],
    [
      "without a status of the member agent",
      withAgent((agent) => (agent.type = "MultiClusterServiceAgent")),
      "the cluster has no status of its member agent yet",
    ],
    [
      "before the first heartbeat",
      withAgent((agent) => delete agent.lastReceivedHeartbeat),
      "no heartbeat of the cluster has been received yet",
    ],
    [
      "before the agent has joined",
      fakeMember("a", { joined: "Unknown" }),
      "the member agent has not joined the fleet",
    ],
    [
      "after the agent has left",
      fakeMember("a", { joined: "False" }),
      "the member agent has not joined the fleet",
    ],
    [
      "before the agent reports its health",
      withAgent((agent) => (agent.conditions = [condition("Joined", "True")])),
      "the member agent has not reported the health of the cluster yet",
    ],
    [
      "after 5 minutes of bad health",
      unhealthySince("2026-06-01T00:04:59Z"),
      "the member agent has reported for 5 minutes that the cluster is not healthy",
    ],
  ])("is not eligible %s", (_, member, why) => {
    expect(ineligibility(member, FRESH)).toBe(why);
    expect(eligibleForMs(member, FRESH)).toBe(Infinity);
  });
  it("stays eligible for 5 minutes of bad health, and of silence", () => {
    const member = unhealthySince("2026-06-01T00:05:00Z");
    expect(ineligibility(member, FRESH)).toBeUndefined();
    expect(eligibleForMs(member, FRESH)).toBe(1);
    expect(ineligibility(member, { heartbeatAgeMs: 1 })).toBeDefined();
    expect(eligibleForMs(fakeMember("a"), { heartbeatAgeMs: 1000 })).toBe(SILENCE_LIMIT_MS - 999);
    expect(ineligibility(fakeMember("a"), { heartbeatAgeMs: SILENCE_LIMIT_MS })).toBeUndefined();
    expect(ineligibility(fakeMember("a"), { heartbeatAgeMs: SILENCE_LIMIT_MS + 1 })).toBe(
      "no heartbeat of the cluster was received for 5 minutes",
    );
  });
});
