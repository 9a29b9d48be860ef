import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  INTERNAL_MEMBER_CLUSTERS,
  type MemberCluster,
  MEMBER_CLUSTERS,
} from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { mailboxOf } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { CLUSTER_PROFILES } from "@fairlead/fleet/api/multicluster.x-k8s.io/cluster-profiles.ts";
import { WORKS } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { leaveFleet } from "@fairlead/fleet/cli/fleet/leave.ts";
import { CONFIG_MAPS, NAMESPACES, NODES, PODS, SERVICE_ACCOUNTS } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { findCondition, isConditionTrue } from "@fairlead/kube/objects/conditions.ts";
import { PATIENCE_MS, startFleet, testDeps, type TestFleet } from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";

let fleet: TestFleet;
let member: MemberCluster;

beforeAll(async () => {
  fleet = await startFleet({ members: ["a"], placement: true, collectNamespaces: true });
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
});
afterAll(() => fleet[Symbol.asyncDispose]());

describe("the agent that applies what is placed", () => {
  it("reports that it joined and that the cluster is healthy, with a heartbeat", () => {
    const agent = member.status?.agentStatus?.find((it) => it.type === "MemberAgent");
    expect(agent?.conditions).toMatchObject([
      { type: "Joined", status: "True", reason: "InternalMemberClusterJoined" },
      { type: "Healthy", status: "True", reason: "InternalMemberClusterHealthy" },
    ]);
    expect(agent?.lastReceivedHeartbeat).toBeDefined();
    // By which placements and overrides select it.
    expect(member.metadata.labels).toMatchObject({
      "kubernetes-fleet.io/member-name": "a",
      "fleet.azure.com/member-name": "a",
    });
    expect(isConditionTrue(member.status?.conditions, "Joined")).toBe(true);
    expect(findCondition(member.status?.conditions, "ReadyToJoin")).toMatchObject({
      status: "True",
      reason: "MemberClusterReadyToJoin",
    });
  });

  it("cannot join while the hub cannot make its mailbox, and can once that is possible", async () => {
    const hub = fleet.client("hub");
    const mailbox = objectKey(undefined, mailboxOf("late"));
    await hub.create(NAMESPACES, {
      metadata: { name: mailboxOf("late"), finalizers: ["example.com/of-an-earlier-member"] },
    });
    await hub.delete(NAMESPACES, mailbox);
    await hub.create(MEMBER_CLUSTERS, {
      metadata: { name: "late" },
      spec: { identity: { kind: "User", name: "late", apiGroup: "rbac.authorization.k8s.io" } },
    });
    const reasonIs = (reason: string) =>
      eventuallyOne(
        hub,
        MEMBER_CLUSTERS,
        objectKey(undefined, "late"),
        ({ status }) => findCondition(status?.conditions, "ReadyToJoin")?.reason === reason,
      );
    const { status } = await reasonIs("MemberClusterNotReadyToJoin");
    expect(findCondition(status?.conditions, "ReadyToJoin")?.message).toContain("being terminated");
    await hub.mergePatch(NAMESPACES, mailbox, { metadata: { finalizers: null } });
    await reasonIs("MemberClusterReadyToJoin");
    await hub.delete(MEMBER_CLUSTERS, objectKey(undefined, "late"));
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

  it("reports the namespaces of the cluster, by which ResourcePlacements pick it", () => {
    expect(member.status?.namespaces).toMatchObject({ work: "", "kube-system": "" });
    expect(isConditionTrue(member.status?.conditions, "NamespaceCollectionSucceeded")).toBe(true);
  });

  it("is in the inventory as a ClusterProfile, until its MemberCluster is deleted", async () => {
    const hub = fleet.client("hub");
    const key = objectKey("fleet-system", "a");
    const profile = await eventuallyOne(hub, CLUSTER_PROFILES, key, (it) =>
      isConditionTrue(it.status?.conditions, "ControlPlaneHealthy"),
    );
    expect(profile.metadata.labels).toEqual({ "x-k8s.io/cluster-manager": "KubeFleet" });
    expect(profile.spec).toEqual({ displayName: "a", clusterManager: { name: "KubeFleet" } });
    expect(profile.status?.version?.kubernetes).toMatch(/^v1\./);
    expect(profile.status?.accessProviders).toMatchObject([
      { name: "KubeFleet", cluster: { server: fleet.members.get("a")?.config.server } },
    ]);
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
    const reported = await eventuallyOne(hub, MEMBER_CLUSTERS, objectKey(undefined, "a"), sees("4"));
    expect(isConditionTrue(reported.status?.conditions, "Joined")).toBe(true);
    const without = { status: { properties: { "example.com/gpus": null } } };
    await hub.mergePatch(INTERNAL_MEMBER_CLUSTERS, key, without, { subresource: "status" });
    await eventuallyOne(hub, MEMBER_CLUSTERS, objectKey(undefined, "a"), sees(undefined));
  });

  it("leaves: its Works end, although nothing removes their finalizers, and what they applied stays", async () => {
    const hub = fleet.client("hub");
    const work = { namespace: mailboxOf("a"), name: "foreign", finalizers: ["example.com/never"] };
    const manifests = [
      { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "placed", namespace: "work" } },
    ];
    await hub.create(WORKS, { metadata: work, spec: { workload: { manifests } } });
    await eventuallyOne(fleet.client("a"), CONFIG_MAPS, objectKey("work", "placed"), () => true);
    await leaveFleet(
      { name: "a", hub: fleet.hub.config, member: fleet.members.get("a")!.config },
      testDeps("leave"),
      AbortSignal.timeout(PATIENCE_MS),
    );
    expect(
      (await hub.list(WORKS, { namespace: mailboxOf("a") })).items.flatMap(
        (it) => it.metadata.finalizers ?? [],
      ),
    ).toEqual([]);
    await eventually(hub, CLUSTER_PROFILES, (all) => all.length === 0);
    expect(await fleet.client("a").find(CONFIG_MAPS, objectKey("work", "placed"))).toBeDefined();
  });
});
