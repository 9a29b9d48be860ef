/** A member that applies Works, as a program with the rights that it is given: from a Work to a cluster that has left. */

import { afterAll, beforeAll, expect, it } from "vitest";
import {
  MEMBER_CLUSTERS,
  type PlacedOnLeave,
} from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { describeLeft, placedOn, stillThere } from "@fairlead/fleet/cli/fleet/leave-placed.ts";
import { CONFIG_MAPS, EVENTS, NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { APPLIED_WORKS, WORKS } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { startFleet, type TestFleet } from "../support/fleet.ts";
import { eventually } from "../support/waiting.ts";
import { configMap, eventuallyWork, isApplied, namespace, workOf } from "../support/works.ts";

let fleet: TestFleet;
beforeAll(async () => {
  fleet = await startFleet({ members: ["a", "b", "c"], placement: true });
}, 60_000);
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

/** Has a member apply a Work, and leave; returns what the hub said of it, and what `fairlead leave` says. */
async function leaveWith(name: string, placed: PlacedOnLeave): Promise<{ event: string; report: string }> {
  const [hub, member] = [fleet.client("hub"), fleet.client(name)];
  const { signal } = new AbortController();
  const work = workOf("w", [namespace("n"), configMap("n", "one"), configMap("n", "two")]);
  await hub.create(WORKS, { ...work, metadata: { ...work.metadata, namespace: `fleet-member-${name}` } });
  await eventually(hub, WORKS, (all) =>
    all.some(
      (it) => it.metadata.namespace === `fleet-member-${name}` && it.metadata.name === "w" && isApplied(it),
    ),
  );
  const before = await placedOn(member, name, signal);
  const key = objectKey(undefined, name);
  await hub.mergePatch(MEMBER_CLUSTERS, key, { spec: { deleteOptions: { placed } } });
  await hub.delete(MEMBER_CLUSTERS, key);
  await eventually(hub, MEMBER_CLUSTERS, (all) => !all.some((it) => it.metadata.name === name));
  const events = await eventually(hub, EVENTS, (all) =>
    all.some((it) => it.reason === "MemberClusterLeft" && it.involvedObject.name === name),
  );
  const event = events.find((it) => it.reason === "MemberClusterLeft" && it.involvedObject.name === name);
  const report = describeLeft(before, await stillThere(member, before, signal), placed);
  return { event: event?.message ?? "", report };
}

it("a member that leaves with `placed: Delete` has deleted what was placed when it has left, and says so", async () => {
  const { event, report } = await leaveWith("b", "Delete");
  const all = "3 objects (ConfigMap 2, Namespace 1)";
  expect(event).toBe(`deleted ${all}`);
  expect(report).toBe(`what was placed (Delete): ${all}; left in the cluster: 0 objects`);
  const member = fleet.client("b");
  expect(await member.find(APPLIED_WORKS, objectKey(undefined, "w"))).toBeUndefined();
  expect(await member.find(NAMESPACES, objectKey(undefined, "n"))).toBeUndefined();
});

it("a member that leaves with `placed: Orphan` keeps the objects, without an AppliedWork and references to it", async () => {
  const { event, report } = await leaveWith("c", "Orphan");
  const all = "3 objects (ConfigMap 2, Namespace 1)";
  expect(event).toBe(`orphaned ${all}`);
  expect(report).toBe(`what was placed (Orphan): ${all}; left in the cluster: ${all}`);
  const member = fleet.client("c");
  expect(await member.find(APPLIED_WORKS, objectKey(undefined, "w"))).toBeUndefined();
  const { metadata } = await member.get(CONFIG_MAPS, objectKey("n", "one"));
  expect(metadata.ownerReferences).toBeUndefined();
});
