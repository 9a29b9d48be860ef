import { describe, expect, it } from "vitest";
import type { AgentStatus, MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { hasProfile, planProfileHealth } from "./plan-cluster-profile.ts";

const NOW = Date.parse("2026-01-01T01:00:00Z");
const member = (agent?: Partial<AgentStatus>): MemberCluster => ({
  metadata: { name: "a" },
  spec: { identity: { kind: "User", name: "u" } },
  status: { agentStatus: agent === undefined ? [] : [{ type: "MemberAgent", ...agent }] },
});
const healthy = (status: "True" | "False") => [
  { type: "Healthy", status, reason: "r", message: "m", lastTransitionTime: "" },
];
const received = { lastReceivedHeartbeat: "2026-01-01T00:59:00Z" };

describe("the health of a ClusterProfile", () => {
  it.each([
    ["without an agent", member(), "Unknown", "MemberAgentReportedNoStatus"],
    [
      "of a silent agent",
      member({ lastReceivedHeartbeat: "2026-01-01T00:57:00Z" }),
      "False",
      "MemberAgentHeartbeatLost",
    ],
    ["of an agent that was never heard of", member({}), "False", "MemberAgentHeartbeatLost"],
    ["of an agent that says nothing of it", member(received), "Unknown", "MemberAgentReportedNoHealthInfo"],
    [
      "of a sick cluster",
      member({ ...received, conditions: healthy("False") }),
      "False",
      "MemberClusterAPIServerUnhealthy",
    ],
    [
      "of a healthy cluster",
      member({ ...received, conditions: healthy("True") }),
      "True",
      "MemberClusterAPIServerHealthy",
    ],
  ])("%s", (_, of, status, reason) => {
    expect(planProfileHealth(of, NOW).condition).toMatchObject({
      type: "ControlPlaneHealthy",
      status,
      reason,
    });
  });

  it("is judged again when the heartbeat is overdue", () => {
    expect(planProfileHealth(member(received), NOW).againInMs).toBe(120_000);
  });
});

it("a member has a profile once it has joined, and none while it is deleted", () => {
  const conditions = [
    { type: "Joined", status: "True" as const, reason: "r", message: "", lastTransitionTime: "" },
  ];
  const joined = { ...member(), status: { conditions } };
  expect([member(), joined, undefined].map(hasProfile)).toEqual([false, true, false]);
  const deleting = { ...joined, metadata: { name: "a", deletionTimestamp: "2026-01-01T00:00:00Z" } };
  expect(hasProfile(deleting)).toBe(false);
});
