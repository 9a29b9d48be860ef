import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { NODE_AGENTS, NODE_AGENTS_CONDITION } from "@fairlead/fleet/api/fairlead.dev/node-agents.ts";
import { CLUSTER_MESH_PROFILES } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { VERSION } from "@fairlead/base/version.ts";
import { DNS_SERVERS, MEMBER_AGENT } from "@fairlead/fleet/api/fairlead.dev/installed.ts";
import { memberManifests } from "@fairlead/fleet/cli/fleet/install/member-manifests.ts";
import { FLEET_SYSTEM_NAMESPACE } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { MEMBER_ACCESS, MEMBER_NODES_ACCESS } from "@fairlead/fleet/authz/programs.ts";
import {
  type DaemonSet,
  DAEMON_SETS,
  type Deployment,
  DEPLOYMENTS,
} from "@fairlead/kube/api/apps/v1/types.ts";
import { createMetrics } from "@fairlead/base/metrics.ts";
import { serveMetrics } from "@fairlead/base/program/metrics-server.ts";
import { PODS, SERVICE_ACCOUNTS } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import { userOf } from "../support/access.ts";
import { startFleet, type TestFleet } from "../support/fleet.ts";
import { addNode, createProfile, setProfile } from "../support/mesh.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";
import { rightsOf, superfluous } from "./rights.ts";

/** Members that install `fairlead node` as their profile says. No controller of DaemonSets runs: the test is one. */

const KEY = objectKey(FLEET_SYSTEM_NAMESPACE, NODE_AGENTS);
const PROFILE = objectKey(undefined, "site");
const LABELS = { "app.kubernetes.io/name": NODE_AGENTS };

let fleet: TestFleet;
const hub = () => fleet.client("hub");
const a = () => fleet.client("a");

beforeAll(async () => {
  fleet = await startFleet({ members: ["a", "b"], nodeImages: { a: "registry.example/fairlead" } });
  for (const name of ["a", "b"])
    await addNode(fleet.client(name), "n1", { address: "192.168.7.1", podCIDR: "10.9.0.0/24" });
  await createProfile(hub(), "site", { version: "0.2.0" });
  for (const name of ["a", "b"]) await setProfile(hub(), name, "site");
});
afterAll(() => fleet[Symbol.asyncDispose]());

const argsOf = (it: DaemonSet | undefined): readonly string[] =>
  it?.spec?.template.spec?.containers[0]?.args ?? [];
const imageOf = (it: DaemonSet | undefined): string | undefined =>
  it?.spec?.template.spec?.containers[0]?.image;

/** As the controller of DaemonSets reports it: this many of two nodes have the present template. */
async function rollOut(updated = 2): Promise<void> {
  const { metadata } = await a().get(DAEMON_SETS, KEY);
  const status = {
    observedGeneration: metadata.generation ?? 0,
    desiredNumberScheduled: 2,
    currentNumberScheduled: 2,
    updatedNumberScheduled: updated,
    numberMisscheduled: 0,
    numberReady: 2,
    numberAvailable: 2,
  };
  await a().mergePatch(DAEMON_SETS, KEY, { status }, { subresource: "status" });
}

/** What the profile says at last. */
async function reported(reason: string, message: string): Promise<void> {
  await eventuallyOne(hub(), CLUSTER_MESH_PROFILES, PROFILE, ({ status }) => {
    const condition = findCondition(status?.conditions, "NodeAgentsInstalled");
    return condition?.reason === reason && condition.message.includes(message);
  });
}

describe("the node agents of a profile", () => {
  it("are installed from the member's own repository in the version of the profile, where the member may", async () => {
    const daemonSet = await eventuallyOne(a(), DAEMON_SETS, KEY);
    expect(imageOf(daemonSet)).toBe("registry.example/fairlead:0.2.0");
    await reported("NotEnabled", "a: installing 0.2.0: its latest generation is not observed");
    await reported("NotEnabled", "b: its agent does not install fairlead node; run fairlead join");
    expect((await fleet.client("b").list(DAEMON_SETS)).items).toEqual([]);
    await setProfile(hub(), "b", null);
  });

  it("serve metrics to their own node alone", async () => {
    const flag = argsOf(await a().get(DAEMON_SETS, KEY)).find((it) => it.startsWith("--metrics=")) ?? "";
    // Any port: others may have the agent's own.
    const address = flag.replace(/^--metrics=(.*):8085$/, "$1:0");
    await using server = await serveMetrics({ metrics: createMetrics(), checks: [], address });
    const read = (host: string) => fetch(`http://${host}:${server.port}/metrics`);
    expect((await read("127.0.0.1")).status).toBe(200);
    await expect(read("127.0.0.2")).rejects.toMatchObject({ cause: { code: "ECONNREFUSED" } });
  });

  it("are reported as installed when all nodes run them, by the member and by the profile", async () => {
    await rollOut();
    await reported("Installed", "0.2.0 in 1 members");
    const { status } = await hub().get(MEMBER_CLUSTERS, objectKey(undefined, "a"));
    const conditions = (status?.agentStatus ?? []).flatMap((it) => it.conditions ?? []);
    expect(findCondition(conditions, NODE_AGENTS_CONDITION)).toMatchObject({
      status: "True",
      message: "0.2.0 on 2 nodes",
    });
  });

  it("are upgraded, and the node on which they do not start is named with the reason", async () => {
    await hub().mergePatch(CLUSTER_MESH_PROFILES, PROFILE, { spec: { version: "0.3.0" } });
    await eventuallyOne(a(), DAEMON_SETS, KEY, (it) => imageOf(it)?.endsWith(":0.3.0") === true);
    const metadata = { namespace: FLEET_SYSTEM_NAMESPACE, name: "fairlead-node-x", labels: LABELS };
    const containers = [{ name: "node", image: "registry.example/fairlead:0.3.0" }];
    // A controller of the cluster makes one.
    await a().create(SERVICE_ACCOUNTS, { metadata: { namespace: FLEET_SYSTEM_NAMESPACE, name: "default" } });
    await a().create(PODS, { metadata, spec: { nodeName: "n1", containers } });
    const waiting = { reason: "ErrImagePull", message: "manifest unknown" };
    const containerStatuses = [
      { name: "node", ready: false, restartCount: 0, image: "", imageID: "", state: { waiting } },
    ];
    await a().mergePatch(
      PODS,
      objectKey(FLEET_SYSTEM_NAMESPACE, "fairlead-node-x"),
      { status: { phase: "Pending", containerStatuses } },
      { subresource: "status" },
    );
    await rollOut(1);
    await reported(
      "NodesNotReady",
      "a: installing 0.3.0: 1 of 2 nodes are updated; n1: ErrImagePull: manifest unknown",
    );
    await rollOut();
    await reported("Installed", "0.3.0 in 1 members");
  });

  it("are upgraded together with the DNS servers that join installed, and with no others", async () => {
    const key = objectKey(FLEET_SYSTEM_NAMESPACE, DNS_SERVERS);
    const imagesOf = (it: Deployment) => it.spec?.template.spec?.containers.map(({ image }) => image);
    const manifests = memberManifests({
      image: "registry.example/fairlead:0.3.0",
      imagePullPolicy: "IfNotPresent",
      replicas: 2,
      dns: true,
    });
    const dns = manifests.find(({ of, object }) => of === DEPLOYMENTS && keyOf(object) === key)?.object;
    const made = await a().create(DEPLOYMENTS, dns as Deployment);
    await hub().mergePatch(CLUSTER_MESH_PROFILES, PROFILE, { spec: { version: "0.3.1" } });
    const upgraded = await eventuallyOne(a(), DEPLOYMENTS, key, (it) =>
      (imagesOf(it)?.[0] ?? "").endsWith("fairlead:0.3.1"),
    );
    const container = { ...made.spec!.template.spec!.containers[0]!, image: imagesOf(upgraded)![0]! };
    expect(upgraded.spec?.template.spec?.containers).toEqual([container]);
    const labels = { "app.kubernetes.io/managed-by": "Helm" };
    await a().mergePatch(DEPLOYMENTS, key, { metadata: { labels } });
    await hub().mergePatch(CLUSTER_MESH_PROFILES, PROFILE, { spec: { version: "0.3.0" } });
    await eventuallyOne(a(), DAEMON_SETS, KEY, (it) => imageOf(it)?.endsWith(":0.3.0") === true);
    await rollOut();
    await reported("Installed", "0.3.0 in 1 members");
    expect(imagesOf(await a().get(DEPLOYMENTS, key))).toEqual(["registry.example/fairlead:0.3.1"]);
  });

  it("are followed by the member's agent that join installed, and are reported when all its copies run the version", async () => {
    const key = objectKey(FLEET_SYSTEM_NAMESPACE, MEMBER_AGENT);
    const manifests = memberManifests({
      image: `registry.example/fairlead:${VERSION}`,
      imagePullPolicy: "IfNotPresent",
      replicas: 2,
      dns: false,
      nodes: true,
    });
    const agent = manifests.find(({ of, object }) => of === DEPLOYMENTS && keyOf(object) === key)?.object;
    const copies = (of: number) => ({
      replicas: 2,
      updatedReplicas: of,
      readyReplicas: 2,
      availableReplicas: 2,
    });
    const report = async (updated: number) => {
      const { metadata } = await a().get(DEPLOYMENTS, key);
      const status = { observedGeneration: metadata.generation ?? 0, ...copies(updated) };
      await a().mergePatch(DEPLOYMENTS, key, { status }, { subresource: "status" });
      // Looked at again with each change of the agents.
      await a().mergePatch(DAEMON_SETS, KEY, { metadata: { annotations: { updated: String(updated) } } });
    };
    await hub().mergePatch(CLUSTER_MESH_PROFILES, PROFILE, { spec: { version: "0.3.3" } });
    await eventuallyOne(a(), DAEMON_SETS, KEY, (it) => imageOf(it)?.endsWith(":0.3.3") === true);
    await a().create(DEPLOYMENTS, agent as Deployment);
    const imageOfAgent = (it: Deployment) => it.spec?.template.spec?.containers[0]?.image;
    expect(imageOfAgent(await a().get(DEPLOYMENTS, key))).toBe(`registry.example/fairlead:${VERSION}`);
    await rollOut();
    await eventuallyOne(
      a(),
      DEPLOYMENTS,
      key,
      (it) => imageOfAgent(it) === "registry.example/fairlead:0.3.3",
    );
    await report(1);
    await reported("Installing", "a: installing 0.3.3: fairlead member: 1 of 2 pods are updated");
    await report(2);
    await reported("Installed", "0.3.3 in 1 members");
    await a().delete(DEPLOYMENTS, key);
    await hub().mergePatch(CLUSTER_MESH_PROFILES, PROFILE, { spec: { version: "0.3.0" } });
    await eventuallyOne(a(), DAEMON_SETS, KEY, (it) => imageOf(it)?.endsWith(":0.3.0") === true);
    await rollOut();
  });

  it("stay as they are when a user has made another DaemonSet, which is named", async () => {
    const own = await a().get(DAEMON_SETS, KEY);
    const metadata = { namespace: FLEET_SYSTEM_NAMESPACE, name: "other", labels: LABELS };
    await a().create(DAEMON_SETS, { metadata, spec: { ...own.spec!, selector: { matchLabels: LABELS } } });
    await hub().mergePatch(CLUSTER_MESH_PROFILES, PROFILE, { spec: { version: "0.4.0" } });
    await reported(
      "InstalledOtherwise",
      "a: DaemonSet fleet-system/other of a user runs registry.example/fairlead:0.3.0",
    );
    expect(imageOf(await a().get(DAEMON_SETS, KEY))).toBe("registry.example/fairlead:0.3.0");
    await a().delete(DAEMON_SETS, objectKey(FLEET_SYSTEM_NAMESPACE, "other"));
    await eventuallyOne(a(), DAEMON_SETS, KEY, (it) => imageOf(it)?.endsWith(":0.4.0") === true);
    await rollOut();
  });

  it("remove the network from the nodes when the member leaves the profile, and are deleted after that", async () => {
    await setProfile(hub(), "a", null);
    await eventuallyOne(a(), DAEMON_SETS, KEY, (it) => argsOf(it).includes("--remove"));
    await rollOut(1);
    await eventuallyOne(hub(), MEMBER_CLUSTERS, objectKey(undefined, "a"), ({ status }) => {
      const conditions = (status?.agentStatus ?? []).flatMap((it) => it.conditions ?? []);
      return (
        findCondition(conditions, NODE_AGENTS_CONDITION)?.message.includes("1 of 2 nodes are updated") ===
        true
      );
    });
    expect(await a().find(DAEMON_SETS, KEY)).toBeDefined();
    await rollOut();
    await eventually(a(), DAEMON_SETS, (all) => all.length === 0);
  });

  it("take every permission that the member is granted for them", () => {
    const asked = fleet.members.get("a")?.asked.all() ?? [];
    const accesses = MEMBER_NODES_ACCESS.system;
    const rights = rightsOf([
      { where: "fleet-system", accesses, isIn: (it) => it === FLEET_SYSTEM_NAMESPACE },
    ]);
    const used = asked.filter((it) => it.isAllowed && it.user === userOf(MEMBER_ACCESS));
    // Servers before Kubernetes 1.34 stream no first state: informers list.
    expect(superfluous(rights, used)).toEqual(["fleet-system list apps daemonsets"]);
  });
});
