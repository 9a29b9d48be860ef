/** A member that applies Works, as a program with the rights that it is given: from a Work to a cluster that has left. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { CONFIG_MAPS, NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { APPLIED_WORKS, WORKS } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { startFleet, type TestFleet } from "../support/fleet.ts";
import { eventually } from "../support/waiting.ts";
import { configMap, eventuallyWork, isApplied, namespace, workOf } from "../support/works.ts";

let fleet: TestFleet;
beforeAll(async () => {
  fleet = await startFleet({ members: ["a"], placement: true });
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
  await eventually(hub, MEMBER_CLUSTERS, (all) => all.length === 0);
  await eventually(hub, NAMESPACES, (all) => !all.some((it) => it.metadata.name === "fleet-member-a"));
  expect(await member.get(CONFIG_MAPS, objectKey("n", "stays"))).toMatchObject({ data: { a: "2" } });
  expect(await member.find(APPLIED_WORKS, objectKey(undefined, "w"))).toBeDefined();
});
