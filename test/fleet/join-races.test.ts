/** Joins that meet: of one member, of two, and of one that is just leaving. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { SECRETS } from "@fairlead/kube/api/core/v1/types.ts";
import { HUB_SECRET } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES } from "@fairlead/kube/api/rbac/v1/types.ts";
import { isConditionTrue } from "@fairlead/kube/objects/conditions.ts";
import { joinCluster } from "@fairlead/fleet/cli/fleet/join.ts";
import type { JoinDeps } from "@fairlead/fleet/cli/fleet/join-options.ts";
import { leaveFleet } from "@fairlead/fleet/cli/fleet/leave.ts";
import { PATIENCE_MS, startFleet, testDeps, type TestFleet } from "../support/fleet.ts";
import { eventually } from "../support/waiting.ts";

let fleet: TestFleet;
beforeAll(async () => {
  fleet = await startFleet({ members: ["a", "b"], join: [] });
});
afterAll(() => fleet[Symbol.asyncDispose]());

const memberKey = (name: string) => objectKey(undefined, name);

function join(
  name: string,
  more: { readonly signal?: AbortSignal; readonly progress?: JoinDeps["progress"] } = {},
) {
  const { signal = AbortSignal.timeout(PATIENCE_MS), progress = () => {} } = more;
  const member = fleet.members.get(name)!.config;
  const options = { name, hub: fleet.hub.config, member, heartbeatSeconds: 1, timeoutMs: PATIENCE_MS };
  return joinCluster(options, { ...testDeps("join"), progress }, signal);
}

function leave(name: string) {
  const member = fleet.members.get(name)!.config;
  const options = { name, hub: fleet.hub.config, member, timeoutMs: PATIENCE_MS };
  return leaveFleet(options, testDeps("leave"), AbortSignal.timeout(PATIENCE_MS));
}

async function isJoined(name: string): Promise<boolean> {
  const member = await fleet.client("hub").find(MEMBER_CLUSTERS, memberKey(name));
  const secret = await fleet.client(name).find(SECRETS, objectKey("fleet-system", HUB_SECRET));
  return isConditionTrue(member?.status?.conditions, "Joined") && secret?.data?.["tls.crt"] !== undefined;
}

describe("two joins at once", () => {
  it("of one new member: one proceeds, the other reports that and rolls nothing back", async () => {
    const both = await Promise.allSettled([join("a"), join("a")]);
    const failures = both.flatMap((it) => (it.status === "rejected" ? [it.reason as unknown] : []));
    // None where one was so late that it found the member there.
    expect(failures.length).toBeLessThan(2);
    for (const failure of failures)
      expect(failure).toMatchObject({
        code: "API_ALREADY_EXISTS",
        message: 'a is being registered by another join; wait until it finishes, and see "fairlead status"',
      });
    expect(await isJoined("a")).toBe(true);
  });

  it("of a member that has joined: both have the same result", async () => {
    const before = await fleet.client("hub").get(MEMBER_CLUSTERS, memberKey("a"));
    const after = await Promise.all([join("a"), join("a")]);
    expect(after.map((it) => it.metadata.uid)).toEqual([before.metadata.uid, before.metadata.uid]);
    expect(await isJoined("a")).toBe(true);
  });

  it("of two members: the one that fails keeps the objects that the other needs", async () => {
    await leave("a");
    const hub = fleet.client("hub");
    const rights = memberKey("fairlead-certificates");
    // As on a hub without members.
    for (const kind of [CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS]) await hub.delete(kind, rights);
    await fleet.agents.get("b")!.stop();
    const stop = new AbortController();
    const registered = Promise.withResolvers<void>();
    const failing = join("b", {
      signal: stop.signal,
      progress: ({ step }) => {
        if (step.startsWith("register b")) registered.resolve();
      },
    });
    await registered.promise;
    await join("a");
    stop.abort(new Error("interrupted"));
    await expect(failing).rejects.toThrow("interrupted");
    await eventually(hub, MEMBER_CLUSTERS, (all) => all.every((it) => it.metadata.name !== "b"));
    for (const kind of [CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS])
      expect(await hub.find(kind, rights)).toBeDefined();
    fleet.agents.get("b")!.start();
  });
});

describe("a member that leaves", () => {
  it("can join again at once, and again", async () => {
    for (let time = 0; time < 3; time += 1) {
      await leave("a");
      await join("a");
      expect(await isJoined("a")).toBe(true);
    }
  });

  it("does not join while it is still leaving: the error asks to wait", async () => {
    const hub = fleet.client("hub");
    // Its agent has to withdraw first, and is away.
    await fleet.agents.get("a")!.stop();
    await hub.delete(MEMBER_CLUSTERS, memberKey("a"));
    await expect(join("a")).rejects.toMatchObject({
      code: "OPTION_INVALID",
      message: "a is leaving the fleet; wait until it has left, then join again",
    });
    fleet.agents.get("a")!.start();
    await eventually(hub, MEMBER_CLUSTERS, (all) => all.length === 0);
    await join("a");
    expect(await isJoined("a")).toBe(true);
  });
});
