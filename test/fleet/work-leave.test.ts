/** A member that applies Works, as a program with the rights that it is given: from a Work to a cluster that has left. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { leaveFleet } from "@fairlead/fleet/cli/fleet/leave.ts";
import { CONFIG_MAPS, type CoreEvent, EVENTS, NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { APPLIED_WORKS, WORKS } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { PATIENCE_MS, startFleet, testDeps, type TestFleet } from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";
import { configMap, eventuallyWork, isApplied, namespace, workOf } from "../support/works.ts";

let fleet: TestFleet;
beforeAll(async () => {
  fleet = await startFleet({ members: ["a", "b", "c"], placement: true });
});
afterAll(() => fleet[Symbol.asyncDispose]());

it("a member applies its Works, deletes what they have no longer, and leaves the rest when it leaves the fleet", async () => {
  const [hub, member] = [fleet.client("hub"), fleet.client("a")];
  await hub.create(WORKS, workOf("w", [namespace("n"), configMap("n", "stays"), configMap("n", "goes")]));
  await eventuallyWork(fleet, "w", isApplied);
  const manifests = [namespace("n"), configMap("n", "stays", { a: "2" })];
  await hub.mergePatch(WORKS, objectKey("fleet-member-a", "w"), { spec: { workload: { manifests } } });
  await eventually(member, CONFIG_MAPS, (all) => !all.some((it) => it.metadata.name === "goes"));
  await eventuallyWork(fleet, "w", isApplied);
  await hub.delete(MEMBER_CLUSTERS, objectKey(undefined, "a"));
  await eventually(hub, MEMBER_CLUSTERS, (all) => !all.some((it) => it.metadata.name === "a"));
  await eventually(hub, NAMESPACES, (all) => !all.some((it) => it.metadata.name === "fleet-member-a"));
  const events = await eventually(hub, EVENTS, (all) => all.some((it) => it.reason === "MemberClusterLeft"));
  expect(events.find((it) => it.reason === "MemberClusterLeft")).toMatchObject({
    involvedObject: { kind: "MemberCluster", name: "a" },
    message: "kept 2 objects (ConfigMap 1, Namespace 1)",
  });
  const reasons = events.filter((it) => it.involvedObject.name === "a").map((it) => it.reason);
  expect(new Set(reasons)).toEqual(
    new Set([
      "NamespaceCreated",
      "RoleCreated",
      "RoleBindingCreated",
      "InternalMemberClusterCreated",
      "InternalMemberClusterSpecUpdated",
      "MemberClusterLeft",
    ]),
  );
  expect(await member.get(CONFIG_MAPS, objectKey("n", "stays"))).toMatchObject({ data: { a: "2" } });
  expect(await member.find(APPLIED_WORKS, objectKey(undefined, "w"))).toBeDefined();
});

const ALL = "3 objects (ConfigMap 2, Namespace 1)";

/** Waits until a member has applied a Work. */
async function place(name: string): Promise<void> {
  const hub = fleet.client("hub");
  const mailbox = `fleet-member-${name}`;
  const work = workOf("w", [namespace("n"), configMap("n", "one"), configMap("n", "two")]);
  await hub.create(WORKS, { ...work, metadata: { ...work.metadata, namespace: mailbox } });
  await eventuallyOne(hub, WORKS, objectKey(mailbox, "w"), isApplied);
}

/** What the hub says of it when the member has left. */
async function eventOf(name: string): Promise<string> {
  const hub = fleet.client("hub");
  const isMeant = (it: CoreEvent): boolean =>
    it.reason === "MemberClusterLeft" && it.involvedObject.name === name;
  return (await eventually(hub, EVENTS, (all) => all.some(isMeant))).find(isMeant)?.message ?? "";
}

it("a member that leaves with `placed: Delete` has deleted what was placed when it has left, also if its agent was away when it was asked", async () => {
  await place("b");
  const [hub, member] = [fleet.client("hub"), fleet.client("b")];
  await fleet.agents.get("b")?.stop();
  await hub.mergePatch(MEMBER_CLUSTERS, objectKey(undefined, "b"), {
    spec: { deleteOptions: { placed: "Delete" } },
  });
  await hub.delete(MEMBER_CLUSTERS, objectKey(undefined, "b"));
  fleet.agents.get("b")?.start();
  await eventually(hub, MEMBER_CLUSTERS, (all) => !all.some((it) => it.metadata.name === "b"));
  expect(await eventOf("b")).toBe(`deleted ${ALL}`);
  expect(await member.find(APPLIED_WORKS, objectKey(undefined, "w"))).toBeUndefined();
  expect(await member.find(NAMESPACES, objectKey(undefined, "n"))).toBeUndefined();
});

it("a member that leaves with `placed: Orphan` keeps the objects, without an AppliedWork and references to it, and the command says so", async () => {
  await place("c");
  const steps: string[] = [];
  const member = fleet.client("c");
  await leaveFleet(
    {
      name: "c",
      hub: fleet.hub.config,
      member: fleet.members.get("c")?.config,
      placed: "Orphan",
      timeoutMs: PATIENCE_MS,
    },
    { ...testDeps("leave"), progress: ({ step }) => steps.push(step) },
    AbortSignal.timeout(PATIENCE_MS),
  );
  expect(steps).toContain(`what was placed (Orphan): ${ALL}; left in the cluster: ${ALL}`);
  expect(await eventOf("c")).toBe(`orphaned ${ALL}`);
  expect(await member.find(APPLIED_WORKS, objectKey(undefined, "w"))).toBeUndefined();
  const { metadata } = await member.get(CONFIG_MAPS, objectKey("n", "one"));
  expect(metadata.ownerReferences).toBeUndefined();
});
