import { compileHealth } from "@fairlead/fairlead/member/health.ts";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  AUTO_UPGRADE_PROFILES,
  CLUSTER_UPGRADES,
  type ClusterUpgrade,
  GATES,
  RELEASE_CATALOGS,
  UPDATE_GROUP_LABEL,
  UPDATE_RUNS,
  type UpdateRun,
  UPGRADER_ANNOTATION,
} from "@fairlead/fleet/api/fairlead.dev/v1alpha1/updates.ts";
import { MCS_SERVICE_IMPORTS } from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { FLEET_SYSTEM_NAMESPACE, mailboxOf } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { localUpgrader } from "@fairlead/fleet/updates/engines/local.ts";
import { CRON_JOBS, type Job, JOBS } from "@fairlead/kube/api/batch/v1/types.ts";
import { NODES } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import {
  deploy,
  ensureNamespace,
  exportBy,
  PATIENCE_MS,
  startFleet,
  type TestFleet,
} from "../support/fleet.ts";
import { SteppedClock } from "../support/stepped-clock.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";

/** Update runs from the hub to the Jobs that upgrade members. No controller of Jobs runs: the test is one. */

let fleet: TestFleet;
const hub = () => fleet.client("hub");
const MEMBERS = ["a", "b"];
const clock = new SteppedClock();
/** Addresses that do not answer other clusters. */
const unreachable = new Set<string>();
/** That of the API servers here. Nodes begin with an older one. */
let version = "";
let older = "";

beforeAll(async () => {
  fleet = await startFleet({
    members: MEMBERS,
    upgradable: MEMBERS,
    compileRule: compileHealth,
    leaseSeconds: 3600,
    clocks: Object.fromEntries(["hub", "hub/apiserver", ...MEMBERS].map((it) => [it, clock])),
    probe: () => (address) => Promise.resolve(unreachable.has(address) ? "silent" : "connected"),
  });
  const { gitVersion } = (await fleet.client("a").request("GET", "/version")) as { gitVersion: string };
  version = gitVersion.replace(/^v|\+.*$/g, "");
  older = version.replace(/\.(\d+)\.\d+$/, (_all, minor) => `.${Number(minor) - 1}.7`);
  for (const name of MEMBERS) {
    const client = fleet.client(name);
    await client.create(NODES, { metadata: { name: "n1" } });
    await setNode(name, older);
    const containers = [{ name: "upgrade", image: "example/upgrade", env: [{ name: "MINE", value: "1" }] }];
    const template = { spec: { restartPolicy: "Never" as const, containers } };
    await client.create(CRON_JOBS, {
      metadata: { namespace: FLEET_SYSTEM_NAMESPACE, name: "upgrade" },
      spec: { schedule: "0 0 1 1 *", suspend: true, jobTemplate: { spec: { template } } },
    });
    const labels = { [UPDATE_GROUP_LABEL]: name };
    const annotations = { [UPGRADER_ANNOTATION]: "Job:upgrade" };
    await hub().mergePatch(MEMBER_CLUSTERS, objectKey(undefined, name), {
      metadata: { labels, annotations },
    });
  }
});
afterAll(() => fleet[Symbol.asyncDispose]());

async function setNode(member: string, kubeletVersion: string): Promise<void> {
  const status = { nodeInfo: { kubeletVersion: `v${kubeletVersion}` } };
  const key = objectKey(undefined, "n1");
  await fleet.client(member).mergePatch(NODES, key, { status }, { subresource: "status" });
}

/** As the controller of Jobs does when the pods of a Job have ended. */
async function endJob(member: string, job: Job, result: "Complete" | "Failed"): Promise<void> {
  const now = new Date().toISOString();
  const [first, end] =
    result === "Complete"
      ? ["SuccessCriteriaMet", { completionTime: now, succeeded: 1 }]
      : ["FailureTarget", { failed: 1 }];
  const conditions = [first, result].map((type) => ({
    type,
    status: "True",
    lastTransitionTime: now,
    message: "the disk is full",
  }));
  const status = { startTime: now, ...end, uncountedTerminatedPods: {}, conditions };
  await fleet.client(member).mergePatch(JOBS, keyOf(job), { status }, { subresource: "status" });
}

async function jobFor(member: string, operation: string): Promise<Job> {
  const isFor = (it: Job): boolean =>
    it.metadata.annotations?.["fairlead.dev/upgrade-operation"] === operation;
  const jobs = await eventually(fleet.client(member), JOBS, (all) => all.some(isFor));
  const found = jobs.find(isFor);
  if (found === undefined) throw new Error("unreachable");
  return found;
}

/** A run of stages "canary" (member a, then an approval) and "all" (member b). */
async function startRun(name: string): Promise<string> {
  const { metadata } = await hub().create(UPDATE_RUNS, {
    metadata: { name },
    spec: {
      strategy: {
        stages: [
          {
            name: "canary",
            groups: [{ name: "a" }],
            afterGates: [{ displayName: "the canary is fine", type: "Approval" }],
          },
          { name: "all", groups: [{ name: "b" }] },
        ],
      },
      managedClusterUpdate: { upgrade: { type: "Full", kubernetesVersion: version } },
      state: "Run",
    },
  });
  return metadata.uid ?? "";
}

const until = (name: string, isSo: (run: UpdateRun) => boolean): Promise<UpdateRun> =>
  eventuallyOne(hub(), UPDATE_RUNS, objectKey(undefined, name), isSo);

async function restartHub(): Promise<void> {
  await fleet.hubProgram.stop();
  fleet.hubProgram.start();
}

describe("an update run", () => {
  it("upgrades members stage by stage, waits for an approval, and survives restarts of the hub at each step", async () => {
    const uid = await startRun("nodes");
    const job = await jobFor("a", `${uid}-1`);
    await restartHub();
    expect(job.spec?.template.spec?.containers[0]?.env).toEqual([
      { name: "MINE", value: "1" },
      { name: "FAIRLEAD_UPGRADE_TYPE", value: "Full" },
      { name: "FAIRLEAD_KUBERNETES_VERSION", value: version },
      { name: "FAIRLEAD_NODE_IMAGES" },
    ]);
    await setNode("a", version);
    await endJob("a", job, "Complete");
    const [gate] = await eventually(hub(), GATES, (all) => all.length === 1);
    expect(gate?.spec).toMatchObject({ displayName: "the canary is fine", state: "Pending" });
    await restartHub();
    const held = await until("nodes", (it) => it.status?.status.state === "Pending");
    expect(held.status?.stages.map((it) => it.status.state)).toEqual(["Pending", "NotStarted"]);
    expect(await fleet.client("b").list(JOBS)).toMatchObject({ items: [] });
    const name = gate?.metadata.name ?? "";
    await hub().mergePatch(GATES, objectKey(undefined, name), { spec: { state: "Completed" } });
    const second = await jobFor("b", `${uid}-1`);
    await restartHub();
    await setNode("b", version);
    await endJob("b", second, "Complete");
    const done = await until("nodes", (it) => it.status?.outcome !== undefined);
    expect(done.status).toMatchObject({ outcome: "Succeeded", counts: { Completed: 2 } });
    for (const member of MEMBERS) expect((await fleet.client(member).list(JOBS)).items).toHaveLength(1);
  });

  it("whose Job fails is Failed with the Job's message, and tries that member again at the next attempt", async () => {
    await setNode("a", older);
    await setNode("b", older);
    const reported = (kubelet: string) =>
      eventuallyOne(
        hub(),
        CLUSTER_UPGRADES,
        objectKey(mailboxOf("a"), "a"),
        (it) => it.status?.nodes?.[0]?.kubernetesVersion === kubelet,
      );
    await reported(older);
    const uid = await startRun("again");
    await endJob("a", await jobFor("a", `${uid}-1`), "Failed");
    const failed = await until("again", (it) => it.status?.status.state === "Failed");
    expect(failed.status?.stages[0]?.groups[0]?.members[0]?.status.error).toEqual({
      code: "UpgradeFailed",
      message: "the disk is full",
    });
    await hub().mergePatch(UPDATE_RUNS, keyOf(failed), { spec: { attempt: 2 } });
    await setNode("a", version);
    await endJob("a", await jobFor("a", `${uid}-2`), "Complete");
    await until("again", (it) => it.status?.status.state === "Pending");
    await hub().delete(UPDATE_RUNS, keyOf(failed));
    await eventually(hub(), GATES, (all) => all.every((it) => it.spec.target.id !== uid));
  });

  it("with a health check measures members until it has ended, and fails one whose services lose their endpoints", async () => {
    const upgrade = (isSo: (it: ClusterUpgrade) => boolean) =>
      eventuallyOne(hub(), CLUSTER_UPGRADES, objectKey(mailboxOf("a"), "a"), isSo);
    await setNode("a", older);
    await upgrade((it) => it.status?.nodes?.[0]?.kubernetesVersion === older);
    await deploy(fleet.client("a"), { name: "shop", addresses: ["10.0.0.7"] });
    const health = {
      toleratedSeconds: 0,
      rules: [
        {
          name: "shop is there",
          expression: "object.now.servicesWithoutEndpoints <= object.before.servicesWithoutEndpoints",
        },
      ],
    };
    await hub().create(UPDATE_RUNS, {
      metadata: { name: "judged" },
      spec: {
        strategy: { stages: [{ name: "one", groups: [{ name: "a" }], health }] },
        managedClusterUpdate: { upgrade: { type: "Full", kubernetesVersion: version } },
        state: "Run",
      },
    });
    await until(
      "judged",
      // The server itself may have some, as Service kubernetes.
      (it) => Number(it.status?.stages[0]?.groups[0]?.members[0]?.before?.["readyEndpoints"]) >= 1,
    );
    const key = objectKey("work", "shop-abcde");
    const endpoints = [{ addresses: ["10.0.0.7"], conditions: { ready: false } }];
    await fleet.client("a").mergePatch(ENDPOINT_SLICES, key, { endpoints });
    const ended = await until("judged", (it) => it.status?.outcome !== undefined);
    expect(ended.status?.stages[0]?.groups[0]?.members[0]?.status.error).toEqual({
      code: "Unhealthy",
      message: "shop is there",
    });
    await upgrade((it) => it.spec.measure === undefined);
  });

  it("fails a member whose services others cannot reach, stops its Job and leads it back", async ({
    onTestFinished,
  }) => {
    // Ten seconds in one, in small steps; not past the end of the probing before the upgrade while its report is on the way.
    let isProbed = false;
    let skippedMs = 0;
    const hurry = setInterval(() => {
      if (!isProbed && skippedMs >= 20_000) return;
      clock.skip(1000);
      skippedMs += 1000;
    }, 100);
    onTestFinished(() => clearInterval(hurry));
    const a = fleet.client("a");
    const address = "10.0.0.8";
    const key = objectKey(FLEET_SYSTEM_NAMESPACE, "upgrade");
    await a.mergePatch(CRON_JOBS, key, {
      metadata: { annotations: { "fairlead.dev/can-roll-back": "true" } },
    });
    await deploy(a, { name: "web", addresses: [address] });
    await ensureNamespace(fleet.client("b"), "work");
    await exportBy("mcs", a, { namespace: "work", name: "web" });
    await eventually(fleet.client("b"), MCS_SERVICE_IMPORTS, (all) =>
      all.some((it) => it.metadata.name === "web"),
    );
    // Members of a fleet of two have one prober only.
    const health = { toleratedSeconds: 0, flows: { minProbers: 1 }, onFailure: "Rollback" as const };
    const { metadata } = await hub().create(UPDATE_RUNS, {
      metadata: { name: "probed" },
      spec: {
        strategy: { stages: [{ name: "one", groups: [{ name: "a" }], health }] },
        managedClusterUpdate: { upgrade: { type: "Full", kubernetesVersion: version } },
        state: "Run",
      },
    });
    const memberOf = (it: UpdateRun) => it.status?.stages[0]?.groups[0]?.members[0];
    const prober = objectKey(mailboxOf("b"), "b");
    await eventuallyOne(hub(), CLUSTER_UPGRADES, prober, ({ status }) =>
      (status?.flows ?? []).some((it) => it.tried >= 20),
    );
    isProbed = true;
    const job = await jobFor("a", `${metadata.uid}-1`);
    const begun = await until("probed", (it) => memberOf(it)?.before !== undefined);
    expect(memberOf(begun)?.before).toMatchObject({ probers: 1, failedFlowsPerMille: 0 });
    unreachable.add(address);
    const failing = await until("probed", (it) => memberOf(it)?.rollback !== undefined);
    expect(memberOf(failing)?.message).toMatch(/work\/web 10\.0\.0\.8 port 8080: no connection$/);
    await eventuallyOne(a, JOBS, keyOf(job), (it) => it.spec?.suspend === true);
    // The API server of this test has but one version: that of nodes is what the Jobs could change.
    await setNode("a", version);
    await endJob("a", await jobFor("a", `${metadata.uid}-1-rollback`), "Complete");
    const ended = await until("probed", (it) => it.status?.outcome !== undefined);
    expect(memberOf(ended)?.rollback).toMatchObject({ state: "Succeeded" });
    expect(ended.status).toMatchObject({ outcome: "Failed", rolledBack: 1 });
    await eventuallyOne(
      hub(),
      CLUSTER_UPGRADES,
      objectKey(mailboxOf("b"), "b"),
      (it) => it.spec.probes === undefined && it.status?.flows === undefined,
    );
  });

  it("that is deleted while its member is away is not begun when the member is back, and finishes if it has begun", async () => {
    const key = objectKey(mailboxOf("b"), "b");
    const upgrade = (isSo: (it: ClusterUpgrade) => boolean) =>
      eventuallyOne(hub(), CLUSTER_UPGRADES, key, isSo);
    const agent = fleet.agents.get("b");
    await setNode("b", older);
    await upgrade((it) => it.status?.nodes?.[0]?.kubernetesVersion === older);
    for (const isBegun of [false, true]) {
      await agent?.stop();
      const { metadata } = await hub().create(UPDATE_RUNS, {
        metadata: { name: "away" },
        spec: {
          strategy: { stages: [{ name: "one", groups: [{ name: "b" }] }] },
          managedClusterUpdate: { upgrade: { type: "Full", kubernetesVersion: version } },
          state: "Run",
        },
      });
      const id = `${metadata.uid}-1`;
      await upgrade((it) => it.spec.operation?.id === id);
      if (isBegun) {
        // The member begins and dies before it reports so.
        const upgrader = localUpgrader("Job:upgrade", fleet.client("b"), () => Promise.resolve({}));
        const target = { type: "Full" as const, kubernetesVersion: version };
        await upgrader.start({ id, target }, AbortSignal.timeout(PATIENCE_MS));
      }
      await hub().delete(UPDATE_RUNS, objectKey(undefined, "away"));
      await upgrade((it) => it.spec.operation?.withdrawn === true);
      agent?.start();
      const { status } = await upgrade((it) => it.status?.operation?.id === id);
      expect(status?.operation?.state).toBe(isBegun ? "Running" : "Failed");
      const jobs = (await fleet.client("b").list(JOBS)).items.filter(
        (it) => it.metadata.annotations?.["fairlead.dev/upgrade-operation"] === id,
      );
      expect(jobs).toHaveLength(isBegun ? 1 : 0);
      for (const job of jobs) {
        await setNode("b", version);
        await endJob("b", job, "Complete");
        await upgrade((it) => it.status?.operation?.state === "Succeeded");
      }
    }
  });

  it("that is deleted before a program has taken its upgrade leaves the member to the next run at once; what a program has taken continues", async () => {
    const key = objectKey(mailboxOf("b"), "b");
    const upgrade = (isSo: (it: ClusterUpgrade) => boolean) =>
      eventuallyOne(hub(), CLUSTER_UPGRADES, key, isSo);
    const engine = (name: string) =>
      hub().mergePatch(MEMBER_CLUSTERS, objectKey(undefined, "b"), {
        metadata: { annotations: { [UPGRADER_ANNOTATION]: name } },
      });
    await engine("External");
    await setNode("b", older);
    await upgrade((it) => it.status?.nodes?.[0]?.kubernetesVersion === older);
    const start = async (name: string): Promise<string> => {
      const { metadata } = await hub().create(UPDATE_RUNS, {
        metadata: { name },
        spec: {
          strategy: { stages: [{ name: "one", groups: [{ name: "b" }] }] },
          managedClusterUpdate: { upgrade: { type: "Full", kubernetesVersion: version } },
          state: "Run",
        },
      });
      return `${metadata.uid}-1`;
    };
    const first = await start("withdrawn");
    await upgrade((it) => it.spec.operation?.id === first);
    await hub().delete(UPDATE_RUNS, objectKey(undefined, "withdrawn"));
    expect((await upgrade((it) => it.spec.operation?.stop === true)).spec.operation?.id).toBe(first);
    const second = await start("taken");
    await upgrade((it) => it.spec.operation?.id === second);
    const report = (state: "Running" | "Succeeded") =>
      hub().mergePatch(
        CLUSTER_UPGRADES,
        key,
        { status: { operation: { id: second, state } } },
        { subresource: "status" },
      );
    await report("Running");
    await hub().delete(UPDATE_RUNS, objectKey(undefined, "taken"));
    const third = await start("waits");
    const waiting = await until(
      "waits",
      (it) => it.status?.stages[0]?.groups[0]?.members[0]?.status.state === "Pending",
    );
    expect(waiting.status?.stages[0]?.groups[0]?.members[0]?.message).toBe(
      `another upgrade of the cluster is in progress: ${second}`,
    );
    const { operation } = (await hub().get(CLUSTER_UPGRADES, key)).spec;
    expect([operation?.id, operation?.stop]).toEqual([second, undefined]);
    await report("Succeeded");
    await upgrade((it) => it.spec.operation?.id === third);
    await hub().delete(UPDATE_RUNS, objectKey(undefined, "waits"));
    await upgrade((it) => it.spec.operation?.stop === true);
    await engine("Job:upgrade");
  });

  it("is created and started by a profile when a catalog has a newer version", async () => {
    await hub().create(AUTO_UPGRADE_PROFILES, {
      metadata: { name: "rapid" },
      spec: { channel: "Rapid", nodeImageSelection: { type: "Latest" } },
    });
    const newer = version.replace(/\d+$/, "99");
    // One that was not started, as "fairlead updaterun create --from-profile" makes it, holds nothing.
    await hub().create(UPDATE_RUNS, {
      metadata: { name: "draft" },
      spec: {
        autoUpgradeProfileName: "rapid",
        managedClusterUpdate: { upgrade: { type: "Full", kubernetesVersion: newer } },
      },
    });
    await until("draft", (it) => it.status !== undefined);
    await hub().create(RELEASE_CATALOGS, {
      metadata: { name: "all" },
      spec: { kubernetesVersions: [{ version }, { version: newer }] },
    });
    const profile = await eventuallyOne(
      hub(),
      AUTO_UPGRADE_PROFILES,
      objectKey(undefined, "rapid"),
      (it) => it.status?.lastTriggerStatus !== undefined,
    );
    expect(profile.status).toMatchObject({
      lastTriggerStatus: "Succeeded",
      lastTriggerUpgradeVersions: [newer],
    });
    const [run] = await eventually(hub(), UPDATE_RUNS, (all) =>
      all.some((it) => it.spec.autoUpgradeProfileName === "rapid" && it.status?.status.state === "Running"),
    );
    expect(run).toBeDefined();
    await hub().delete(AUTO_UPGRADE_PROFILES, keyOf(profile));
  });
});
