import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  INTERNAL_MEMBER_CLUSTERS,
  type MemberCluster,
  MEMBER_CLUSTERS,
} from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { mailboxOf } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { NAMESPACES, NODES, PODS, SERVICE_ACCOUNTS } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { isConditionTrue } from "@fairlead/kube/objects/conditions.ts";
import { startFleet, type TestFleet } from "../support/fleet.ts";
import { eventuallyOne } from "../support/waiting.ts";

let fleet: TestFleet;
let member: MemberCluster;

beforeAll(async () => {
  fleet = await startFleet({ members: ["a"], placement: true });
  const cluster = fleet.client("a");
  const nodes = {
    capacity: { cpu: "4", memory: "8Gi", pods: "110" },
    allocatable: { cpu: "3500m", memory: "7Gi", pods: "110" },
  };
  for (const name of ["n1", "n2"]) {
    await cluster.create(NODES, { metadata: { name } });
    await cluster.mergePatch(NODES, objectKey(undefined, name), { status: nodes }, { subresource: "status" });
  }
  await cluster.create(NAMESPACES, { metadata: { name: "work" } });
  await cluster.create(SERVICE_ACCOUNTS, { metadata: { name: "default", namespace: "work" } });
  const requests = { cpu: "500m", memory: "1Gi" };
  await cluster.create(PODS, {
    metadata: { name: "p", namespace: "work" },
    spec: {
      nodeName: "n1",
      serviceAccountName: "default",
      containers: [{ name: "c", image: "i", resources: { requests } }],
    },
  });
  member = await eventuallyOne(
    fleet.client("hub"),
    MEMBER_CLUSTERS,
    objectKey(undefined, "a"),
    ({ status }) =>
      status?.resourceUsage?.available?.["cpu"] === "6500m" &&
      status.properties?.["kubernetes-fleet.io/node-count"]?.value === "2",
  );
}, 60_000);
afterAll(() => fleet[Symbol.asyncDispose]());

describe("the agent that applies what is placed", () => {
  it("reports that it joined and that the cluster is healthy, with a heartbeat", () => {
    const agent = member.status?.agentStatus?.find((it) => it.type === "MemberAgent");
    expect(agent?.conditions).toMatchObject([
      { type: "Joined", status: "True", reason: "InternalMemberClusterJoined" },
      { type: "Healthy", status: "True", reason: "InternalMemberClusterHealthy" },
    ]);
    expect(agent?.lastReceivedHeartbeat).toBeDefined();
    expect(isConditionTrue(member.status?.conditions, "Joined")).toBe(true);
  });

  it("reports which properties and resources the cluster has", () => {
    expect(member.status?.resourceUsage).toMatchObject({
      capacity: { cpu: "8", memory: "16Gi" },
      allocatable: { cpu: "7", memory: "14Gi" },
      available: { cpu: "6500m", memory: "13Gi" },
    });
    const value = (name: string) => member.status?.properties?.[name]?.value;
    expect(value("k8s.io/k8s-version")).toMatch(/^v1\./);
    expect(value("k8s.io/cluster-entrypoint")).toBe(fleet.members.get("a")?.config.server);
    expect(
      Buffer.from(value("k8s.io/cluster-certificate-authority-data") ?? "", "base64").toString(),
    ).toContain("BEGIN CERTIFICATE");
    for (const type of ["ClusterPropertyProviderStarted", "ClusterPropertyCollectionSucceeded"])
      expect(isConditionTrue(member.status?.conditions, type)).toBe(true);
  });

  it("removes a property that is no longer reported, and keeps the hub's own conditions", async () => {
    const status = {
      properties: { "example.com/gpus": { value: "4", observationTime: "2026-01-01T00:00:00Z" } },
      conditions: [
        {
          type: "Joined",
          status: "False",
          reason: "Lie",
          message: "",
          lastTransitionTime: "2026-01-01T00:00:00Z",
        },
      ],
    };
    const hub = fleet.client("hub");
    const key = objectKey(mailboxOf("a"), "a");
    const sees = (wanted: string | undefined) => (it: MemberCluster) =>
      it.status?.properties?.["example.com/gpus"]?.value === wanted;
    await hub.mergePatch(INTERNAL_MEMBER_CLUSTERS, key, { status }, { subresource: "status" });
    const told = await eventuallyOne(hub, MEMBER_CLUSTERS, objectKey(undefined, "a"), sees("4"));
    expect(isConditionTrue(told.status?.conditions, "Joined")).toBe(true);
    const without = { status: { properties: { "example.com/gpus": null } } };
    await hub.mergePatch(INTERNAL_MEMBER_CLUSTERS, key, without, { subresource: "status" });
    await eventuallyOne(hub, MEMBER_CLUSTERS, objectKey(undefined, "a"), sees(undefined));
  });
});
