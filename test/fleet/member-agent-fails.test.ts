/** The agent that applies what is placed says on the hub why it cannot join, or cannot leave. */

import { afterAll, beforeAll, expect, it } from "vitest";
import {
  type AgentStatus,
  INTERNAL_MEMBER_CLUSTERS,
  MEMBER_CLUSTERS,
} from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { APPLIED_WORK_CRD } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/work-crds.ts";
import { WORKS } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { appliesAs, EVERYTHING } from "@fairlead/fleet/authz/applied.ts";
import { MEMBER_WORK_ACCESS } from "@fairlead/fleet/authz/programs.ts";
import { CUSTOM_RESOURCE_DEFINITIONS } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import { CLUSTER_ROLES } from "@fairlead/kube/api/rbac/v1/types.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import { userOf } from "../support/access.ts";
import { startFleet, type TestFleet } from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";
import { configMap, isApplied, namespace, workOf } from "../support/works.ts";

let fleet: TestFleet;
beforeAll(async () => {
  fleet = await startFleet({ members: ["a"], placement: true });
  // The administrator grants what the agent declares, and no more than the test places.
  const subject = {
    kind: "User",
    apiGroup: "rbac.authorization.k8s.io",
    name: userOf(MEMBER_WORK_ACCESS),
  } as const;
  const everything = appliesAs(EVERYTHING, subject);
  await fleet.client("a").delete(everything.of, keyOf(everything.object));
  await fleet
    .client("a")
    .apply(
      CLUSTER_ROLES,
      { metadata: { name: "places" }, rules: [{ apiGroups: [""], resources: ["*"], verbs: ["*"] }] },
      { fieldManager: "test" },
    );
  const places = appliesAs("places", subject);
  await fleet.client("a").apply(places.of, places.object, { fieldManager: "test" });
});
afterAll(() => fleet[Symbol.asyncDispose]());

const MEMBER = objectKey(undefined, "a");
const joinedOf = (agents: readonly AgentStatus[] = [], type = "MemberAgent"): Condition | undefined =>
  findCondition(agents.find((it) => it.type === type)?.conditions, "Joined");

/** What the agent says of itself, once it is for this reason. */
async function said(reason: string): Promise<Condition | undefined> {
  const key = objectKey("fleet-member-a", "a");
  const found = await eventuallyOne(
    fleet.client("hub"),
    INTERNAL_MEMBER_CLUSTERS,
    key,
    ({ status }) => joinedOf(status?.agentStatus)?.reason === reason,
  );
  return joinedOf(found.status?.agentStatus);
}

/** Once the hub counts the member so. */
const joined = (status: string) =>
  eventuallyOne(
    fleet.client("hub"),
    MEMBER_CLUSTERS,
    MEMBER,
    (it) => findCondition(it.status?.conditions, "Joined")?.status === status,
  );

it("a cluster that does not serve AppliedWorks fails to join, takes part in all else, and joins once it serves them", async () => {
  const local = fleet.client("a");
  const agent = fleet.agents.get("a")!;
  await agent.stop();
  await local.delete(CUSTOM_RESOURCE_DEFINITIONS, keyOf(APPLIED_WORK_CRD));
  agent.start();
  expect(await said("InternalMemberClusterFailedToJoin")).toMatchObject({
    status: "Unknown",
    message: expect.stringContaining("cannot read AppliedWorks in the cluster") as string,
  });
  const { status } = await joined("Unknown");
  expect(findCondition(status?.conditions, "Joined")).toMatchObject({
    reason: "MemberClusterJoinStateUnknown",
    message: expect.stringContaining("cannot read AppliedWorks in the cluster") as string,
  });
  expect(joinedOf(status?.agentStatus, "ServiceExportImportAgent")).toMatchObject({ status: "True" });
  await local.create(CUSTOM_RESOURCE_DEFINITIONS, APPLIED_WORK_CRD);
  await said("InternalMemberClusterJoined");
  await joined("True");
});

it("a member that may not delete what it placed fails to leave, and leaves once it may", async () => {
  const [hub, local] = [fleet.client("hub"), fleet.client("a")];
  await hub.create(WORKS, workOf("w", [namespace("n"), configMap("n", "one")]));
  await eventuallyOne(hub, WORKS, objectKey("fleet-member-a", "w"), isApplied);
  const role = objectKey(undefined, MEMBER_WORK_ACCESS.name);
  const { rules = [] } = await local.get(CLUSTER_ROLES, role);
  const less = rules.map((it) => ({ ...it, verbs: it.verbs.filter((verb) => verb !== "delete") }));
  await local.mergePatch(CLUSTER_ROLES, role, { rules: less });
  await hub.mergePatch(MEMBER_CLUSTERS, MEMBER, { spec: { deleteOptions: { placed: "Delete" } } });
  await hub.delete(MEMBER_CLUSTERS, MEMBER);
  expect(await said("InternalMemberClusterFailedToLeave")).toMatchObject({
    status: "Unknown",
    message: expect.stringMatching(/cannot release Work fleet-member-a\/w: .*forbidden/) as string,
  });
  const { status } = await joined("Unknown");
  expect(findCondition(status?.conditions, "Joined")?.message).toContain("cannot release Work");
  await local.mergePatch(CLUSTER_ROLES, role, { rules });
  await eventually(hub, MEMBER_CLUSTERS, (all) => all.length === 0);
  fleet.members.get("a")?.asked.forgetRefused("appliedworks");
});
