import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { NODE_AGENTS } from "@fairlead/fleet/api/fairlead.dev/node-agents.ts";
import { CLUSTER_MESH_PROFILES, MESH_NETWORKS } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import {
  CLUSTER_UPGRADES,
  GATES,
  RELEASE_CATALOGS,
  UPDATE_GROUP_LABEL,
  UPDATE_RUNS,
  type UpdateRun,
  UPGRADER_ANNOTATION,
} from "@fairlead/fleet/api/fairlead.dev/v1alpha1/updates.ts";
import { FLEET_SYSTEM_NAMESPACE, mailboxOf } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { type DaemonSet, DAEMON_SETS } from "@fairlead/kube/api/apps/v1/types.ts";
import { NODES } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import { startFleet, type TestFleet } from "../support/fleet.ts";
import { addNode, createProfile, setProfile } from "../support/mesh.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";

/** Update runs of our own programs. No controller of DaemonSets runs: the test is one. */

const KEY = objectKey(FLEET_SYSTEM_NAMESPACE, NODE_AGENTS);
const PROFILE = objectKey(undefined, "site");
const MEMBERS = ["a", "b"];

let fleet: TestFleet;
const hub = () => fleet.client("hub");

beforeAll(async () => {
  const image = "registry.example/fairlead";
  const nodeImages = { a: image, b: image };
  fleet = await startFleet({ members: MEMBERS, nodeImages, exposeNodeMetrics: true });
  await createProfile(hub(), "site", { version: "0.1.0" });
  for (const [at, name] of MEMBERS.entries()) {
    await addNode(fleet.client(name), "n1", { address: "192.168.7.1", podCIDR: `10.${9 + at}.0.0/24` });
    await setProfile(hub(), name, "site");
    const metadata = { labels: { [UPDATE_GROUP_LABEL]: name } };
    await hub().mergePatch(MEMBER_CLUSTERS, objectKey(undefined, name), { metadata });
  }
  for (const it of MEMBERS) await rollOut(it, "0.1.0");
  await reported("0.1.0 in 2 members");
});
afterAll(() => fleet[Symbol.asyncDispose]());

const versionOf = (it: DaemonSet): string =>
  (it.spec?.template.spec?.containers[0]?.image ?? "").split(":").at(-1) ?? "";

/** As the controller of DaemonSets reports it when all nodes have the template, once that has a version. */
async function rollOut(member: string, version: string): Promise<void> {
  const client = fleet.client(member);
  const { metadata } = await eventuallyOne(client, DAEMON_SETS, KEY, (it) => versionOf(it) === version);
  const status = {
    observedGeneration: metadata.generation ?? 0,
    desiredNumberScheduled: 1,
    currentNumberScheduled: 1,
    updatedNumberScheduled: 1,
    numberMisscheduled: 0,
    numberReady: 1,
    numberAvailable: 1,
  };
  await client.mergePatch(DAEMON_SETS, KEY, { status }, { subresource: "status" });
}

/** What the profile says of the agents at last. */
async function reported(message: string): Promise<void> {
  await eventuallyOne(
    hub(),
    CLUSTER_MESH_PROFILES,
    PROFILE,
    ({ status }) => findCondition(status?.conditions, "NodeAgentsInstalled")?.message === message,
  );
}

const versions = () =>
  Promise.all(MEMBERS.map(async (it) => versionOf(await fleet.client(it).get(DAEMON_SETS, KEY))));

async function startRun(
  name: string,
  upgrade: UpdateRun["spec"]["managedClusterUpdate"]["upgrade"],
): Promise<void> {
  await hub().create(UPDATE_RUNS, {
    metadata: { name },
    spec: {
      strategy: {
        stages: [
          { name: "one", groups: [{ name: "a" }], afterGates: [{ displayName: "fine", type: "Approval" }] },
          { name: "two", groups: [{ name: "b" }] },
        ],
      },
      managedClusterUpdate: { upgrade },
      state: "Run",
    },
  });
}

const until = (name: string, isSo: (run: UpdateRun) => boolean): Promise<UpdateRun> =>
  eventuallyOne(hub(), UPDATE_RUNS, objectKey(undefined, name), isSo);

const pinOf = async (member: string) =>
  (await hub().find(CLUSTER_UPGRADES, objectKey(mailboxOf(member), member)))?.spec.components;

async function restart(what: { stop(): Promise<void>; start(): void } | undefined): Promise<void> {
  await what?.stop();
  what?.start();
}

it("node agents serve metrics on all addresses of their node where the member exposes them", async () => {
  const { spec } = await fleet.client("a").get(DAEMON_SETS, KEY);
  expect(spec?.template.spec?.containers[0]?.args).toContain("--metrics=:8085");
});

describe("an update run of type Components", () => {
  it("upgrades the agents of one member's nodes, waits for an approval, and upgrades those of the next", async () => {
    await startRun("programs", { type: "Components", componentsVersion: "0.1.1" });
    await rollOut("a", "0.1.1");
    await restart(fleet.hubProgram);
    const [gate] = await eventually(hub(), GATES, (all) => all.length === 1);
    await reported(
      "0.1.0 in 1 members, 0.1.1 in 1 members; update runs upgraded members; spec.version is 0.1.0",
    );
    expect(await versions()).toEqual(["0.1.1", "0.1.0"]);
    await hub().mergePatch(GATES, objectKey(undefined, gate?.metadata.name ?? ""), {
      spec: { state: "Completed" },
    });
    await rollOut("b", "0.1.1");
    const done = await until("programs", (it) => it.status?.outcome !== undefined);
    expect(done.status).toMatchObject({ outcome: "Succeeded", counts: { Completed: 2 } });
    await hub().delete(UPDATE_RUNS, keyOf(done));
  });

  it("leaves a version that lasts: over its own end, restarts, and upgrades of Kubernetes", async () => {
    const upgrade = { type: "ControlPlaneOnly" as const, kubernetesVersion: "1.36.99" };
    const metadata = { annotations: { [UPGRADER_ANNOTATION]: "External" } };
    await hub().mergePatch(MEMBER_CLUSTERS, objectKey(undefined, "a"), { metadata });
    await startRun("kubernetes", upgrade);
    const begun = await until(
      "kubernetes",
      (it) => it.status?.stages[0]?.groups[0]?.members[0]?.operationId !== undefined,
    );
    await eventuallyOne(
      hub(),
      CLUSTER_UPGRADES,
      objectKey(mailboxOf("a"), "a"),
      (it) => it.spec.operation !== undefined,
    );
    for (const it of [fleet.hubProgram, ...fleet.agents.values()]) await restart(it);
    await hub().delete(UPDATE_RUNS, keyOf(begun));
    expect(await pinOf("a")).toMatchObject({ version: "0.1.1", profile: "site", over: "0.1.0" });
    const [network] = (await fleet.client("a").list(MESH_NETWORKS)).items;
    expect(network?.spec.version).toBe("0.1.1");
    expect(await versions()).toEqual(["0.1.1", "0.1.1"]);
    // The engine ends.
    const { spec } = await hub().get(CLUSTER_UPGRADES, objectKey(mailboxOf("a"), "a"));
    const operation = { id: spec.operation?.id ?? "", state: "Succeeded" as const };
    await hub().mergePatch(
      CLUSTER_UPGRADES,
      objectKey(mailboxOf("a"), "a"),
      { status: { operation } },
      { subresource: "status" },
    );
  });

  it("leaves a version that the profile takes over when it follows, without a write in the members", async () => {
    const generations = () =>
      Promise.all(
        MEMBERS.map(async (it) => (await fleet.client(it).get(DAEMON_SETS, KEY)).metadata.generation),
      );
    const before = await generations();
    await hub().mergePatch(CLUSTER_MESH_PROFILES, PROFILE, { spec: { version: "0.1.1" } });
    await reported("0.1.1 in 2 members");
    await eventually(hub(), CLUSTER_UPGRADES, (all) => all.every((it) => it.spec.components === undefined));
    expect(await generations()).toEqual(before);
  });

  it("is refused for a release that the hub does not know, and nothing changes", async () => {
    await startRun("unknown", { type: "Components", componentsVersion: "0.2.0" });
    const { status } = await until("unknown", (it) => it.status?.outcome !== undefined);
    expect(status?.stages[0]?.groups[0]?.members[0]?.status.error).toMatchObject({ code: "ReleaseUnknown" });
    expect(await pinOf("a")).toBeUndefined();
  });

  it.each([
    ["while the hub runs", "0.1.3"],
    ["while the hub is away", "0.1.4"],
  ])(
    "that is deleted %s, in a rollout that does not end, leaves the member to the next run",
    async (when, version) => {
      await startRun("endless", { type: "Components", componentsVersion: "0.1.2" });
      await eventuallyOne(fleet.client("a"), DAEMON_SETS, KEY, (it) => versionOf(it) === "0.1.2");
      const isAway = when === "while the hub is away";
      if (isAway) await fleet.hubProgram.stop();
      await hub().delete(UPDATE_RUNS, objectKey(undefined, "endless"));
      if (isAway) fleet.hubProgram.start();
      await startRun("next", { type: "Components", componentsVersion: version });
      await rollOut("a", version);
      const { status } = await until("next", (it) => it.status?.stages[0]?.status.state === "Pending");
      expect(status?.counts).toEqual({ Completed: 1, NotStarted: 1 });
      expect(await versions()).toEqual([version, "0.1.1"]);
      await hub().delete(UPDATE_RUNS, objectKey(undefined, "next"));
    },
  );
});

describe("an update run of Kubernetes", () => {
  it("is refused for a version that the member's program does not support, as it reports itself", async () => {
    // The API servers here have the version already; their nodes do not.
    const { gitVersion } = (await fleet.client("a").request("GET", "/version")) as { gitVersion: string };
    const version = gitVersion.replace(/^v|\+.*$/g, "");
    const status = { nodeInfo: { kubeletVersion: "v1.35.2" } };
    await fleet
      .client("a")
      .mergePatch(NODES, objectKey(undefined, "n1"), { status }, { subresource: "status" });
    await hub().create(RELEASE_CATALOGS, {
      metadata: { name: "tried" },
      spec: { components: [{ version: "0.1.0", kubernetes: { from: "1.25", to: "1.35" } }] },
    });
    await startRun("newer", { type: "Full", kubernetesVersion: version });
    const { status: ended } = await until("newer", (it) => it.status?.outcome !== undefined);
    expect(ended?.stages[0]?.groups[0]?.members[0]?.status.error).toEqual({
      code: "NotSupported",
      message: `fairlead hub has version 0.1.0, which supports Kubernetes 1.25 to 1.35, not ${version}: upgrade it first`,
    });
  });
});
