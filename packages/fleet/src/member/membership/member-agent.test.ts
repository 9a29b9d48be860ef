import { describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { isFormerMemberAgent, joinedAsMemberAgent, MemberAgent } from "./member-agent.ts";

class Cluster extends FakeKubeClient {
  problem: Error | undefined;
  override request(): Promise<unknown> {
    return this.problem === undefined ? Promise.resolve("ok") : Promise.reject(this.problem);
  }
}

describe("the agent that applies what is placed", () => {
  it("says that the cluster is unhealthy, and why, while its API server is not ready", async () => {
    const clock = new FakeClock();
    const cluster = new Cluster(clock);
    const provider = {
      name: "none",
      start: () => Promise.resolve(),
      collect: () => Promise.reject(new Error()),
    };
    const agent = new MemberAgent(cluster, provider, { ...systemDeps(silentLogger), clock });
    const { signal } = new AbortController();
    cluster.problem = new FleetError("API_UNAVAILABLE", "GET /readyz: etcd failed");
    expect(await agent.health(signal)).toEqual({
      type: "Healthy",
      status: "False",
      reason: "InternalMemberClusterUnhealthy",
      message: "GET /readyz: etcd failed",
    });
    cluster.problem = undefined;
    expect(await agent.health(signal)).toMatchObject({
      status: "True",
      reason: "InternalMemberClusterHealthy",
    });
  });

  it("says that it has joined, or left with what became of placed objects", () => {
    for (const state of ["joining", "leaving"] as const)
      expect(joinedAsMemberAgent({ state, problem: undefined })).toMatchObject({
        status: "True",
        reason: "InternalMemberClusterJoined",
      });
    expect(joinedAsMemberAgent({ state: "left", placed: "3 objects stay" })).toEqual({
      type: "Joined",
      status: "False",
      reason: "InternalMemberClusterLeft",
      message: "3 objects stay",
    });
  });

  it.each([
    ["joining", "InternalMemberClusterFailedToJoin"],
    ["leaving", "InternalMemberClusterFailedToLeave"],
  ] as const)("says why it cannot, as KubeFleet's agent, while it is %s", (state, reason) => {
    const condition = joinedAsMemberAgent({ state, problem: "cannot read AppliedWorks" });
    expect(condition).toMatchObject({ status: "Unknown", reason });
    expect(condition.message).toContain("cannot read AppliedWorks");
    // An agent that applies nothing any more recognizes the entry as its own, and removes it.
    const written = { ...condition, lastTransitionTime: "" };
    expect(isFormerMemberAgent({ type: "MemberAgent", conditions: [written] })).toBe(true);
  });
});
