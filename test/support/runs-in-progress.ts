/** Update runs of both kinds in the middle: members finish them on whichever hub the fleet is then. */

import { expect } from "vitest";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  GATES,
  UPDATE_GROUP_LABEL,
  UPDATE_RUNS,
  UPGRADER_ANNOTATION,
} from "@fairlead/fleet/api/fairlead.dev/v1alpha1/updates.ts";
import { CLUSTER_RESOURCE_PLACEMENTS } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import {
  CLUSTER_APPROVAL_REQUESTS,
  CLUSTER_STAGED_UPDATE_RUNS,
  CLUSTER_STAGED_UPDATE_STRATEGIES,
} from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { CRON_JOBS, type Job, JOBS } from "@fairlead/kube/api/batch/v1/types.ts";
import { CONFIG_MAPS, NAMESPACES, NODES } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import type { TestFleet } from "./fleet.ts";
import { eventually, eventuallyOne } from "./waiting.ts";

const named = (name: string) => objectKey(undefined, name);
const config = objectKey("web", "config");

export class RunsInProgress {
  readonly #fleet: Pick<TestFleet, "client">;
  readonly #members: readonly string[];
  readonly #version: string;
  readonly #job: Job;

  private constructor(
    fleet: Pick<TestFleet, "client">,
    members: readonly string[],
    version: string,
    job: Job,
  ) {
    this.#fleet = fleet;
    this.#members = members;
    this.#version = version;
    this.#job = job;
  }

  /**
   * An update run whose first member is being upgraded by a Job, and a staged run that waits for an approval after its first stage. The
   * first of `members` is in the first stage of both, the second one is upgraded after it.
   */
  static async start(
    hub: KubeClient,
    fleet: Pick<TestFleet, "client">,
    members: readonly string[],
  ): Promise<RunsInProgress> {
    const [first = "", second = ""] = members;
    const { gitVersion } = (await fleet.client(first).request("GET", "/version")) as { gitVersion: string };
    const version = gitVersion.replace(/^v|\+.*$/g, "");
    for (const name of members) {
      await equip(fleet.client(name), version);
      const labels = { [UPDATE_GROUP_LABEL]: name, stage: name === first ? "canary" : "all" };
      const annotations = { [UPGRADER_ANNOTATION]: "Job:upgrade" };
      await hub.mergePatch(MEMBER_CLUSTERS, named(name), { metadata: { labels, annotations } });
    }
    await startStaged(hub);
    await startUpgrade(hub, { first, second, version });
    await eventuallyOne(fleet.client(first), CONFIG_MAPS, config, () => true);
    await eventually(hub, CLUSTER_APPROVAL_REQUESTS, (all) => all.length === 1);
    const [job] = await eventually(fleet.client(first), JOBS, (all) => all.length === 1);
    if (job === undefined) throw new Error("unreachable");
    return new RunsInProgress(fleet, members, version, job);
  }

  /** No upgrade begins a second time. */
  async finish(hub: KubeClient): Promise<void> {
    const [first = "", second = "", ...others] = this.#members;
    const [client, next] = [this.#fleet.client(first), this.#fleet.client(second)];
    await setNode(client, this.#version);
    await endJob(client, this.#job);
    const [gate] = await eventually(hub, GATES, (all) => all.length === 1);
    await hub.mergePatch(GATES, named(gate?.metadata.name ?? ""), { spec: { state: "Completed" } });
    await eventually(next, JOBS, (all) => all.length === 1);
    expect((await client.list(JOBS)).items.map((it) => it.metadata.uid)).toEqual([this.#job.metadata.uid]);
    const [request] = (await hub.list(CLUSTER_APPROVAL_REQUESTS)).items;
    const condition = {
      type: "Approved",
      status: "True",
      reason: "Good",
      message: "",
      lastTransitionTime: NOW,
    };
    await hub.mergePatch(
      CLUSTER_APPROVAL_REQUESTS,
      named(request?.metadata.name ?? ""),
      { status: { conditions: [condition] } },
      { subresource: "status" },
    );
    for (const name of [second, ...others])
      await eventuallyOne(this.#fleet.client(name), CONFIG_MAPS, config, () => true);
  }
}

const NOW = "2026-01-01T00:00:00Z";

/** A node of the previous minor version, and the Job that upgrades it. */
async function equip(client: KubeClient, version: string): Promise<void> {
  await client.create(NODES, { metadata: { name: "n1" } });
  await setNode(
    client,
    version.replace(/\.(\d+)\.\d+$/, (_all, minor) => `.${Number(minor) - 1}.7`),
  );
  const containers = [{ name: "upgrade", image: "example/upgrade" }];
  const jobTemplate = { spec: { template: { spec: { restartPolicy: "Never" as const, containers } } } };
  await client.create(CRON_JOBS, {
    metadata: { namespace: "fleet-system", name: "upgrade" },
    spec: { schedule: "0 0 1 1 *", suspend: true, jobTemplate },
  });
}

async function setNode(client: KubeClient, kubeletVersion: string): Promise<void> {
  const status = { nodeInfo: { kubeletVersion: `v${kubeletVersion}` } };
  await client.mergePatch(NODES, named("n1"), { status }, { subresource: "status" });
}

async function startStaged(hub: KubeClient): Promise<void> {
  await hub.create(NAMESPACES, { metadata: { name: "web" } });
  await hub.create(CONFIG_MAPS, { metadata: { namespace: "web", name: "config" }, data: { v: "0" } });
  await hub.create(CLUSTER_RESOURCE_PLACEMENTS, {
    metadata: { name: "web" },
    spec: {
      resourceSelectors: [{ group: "", version: "v1", kind: "Namespace", name: "web" }],
      strategy: { type: "External" },
    },
  });
  const stage = (name: string) => ({ name, labelSelector: { matchLabels: { stage: name } } });
  const stages = [{ ...stage("canary"), afterStageTasks: [{ type: "Approval" as const }] }, stage("all")];
  await hub.create(CLUSTER_STAGED_UPDATE_STRATEGIES, { metadata: { name: "canary" }, spec: { stages } });
  await eventuallyOne(
    hub,
    CLUSTER_RESOURCE_PLACEMENTS,
    named("web"),
    (it) =>
      it.status?.conditions?.some(
        ({ type, status }) => type === "ClusterResourcePlacementScheduled" && status === "True",
      ) === true,
  );
  await hub.create(CLUSTER_STAGED_UPDATE_RUNS, {
    metadata: { name: "staged" },
    spec: { placementName: "web", stagedRolloutStrategyName: "canary", state: "Run" },
  });
}

async function startUpgrade(
  hub: KubeClient,
  { first, second, version }: { readonly first: string; readonly second: string; readonly version: string },
): Promise<void> {
  const afterGates = [{ displayName: "fine", type: "Approval" as const }];
  const stages = [
    { name: "canary", groups: [{ name: first }], afterGates },
    { name: "all", groups: [{ name: second }] },
  ];
  await hub.create(UPDATE_RUNS, {
    metadata: { name: "nodes" },
    spec: {
      strategy: { stages },
      managedClusterUpdate: { upgrade: { type: "Full", kubernetesVersion: version } },
      state: "Run",
    },
  });
}

/** As the controller of Jobs does when the pods of a Job have ended. */
async function endJob(client: KubeClient, job: Job): Promise<void> {
  const conditions = ["SuccessCriteriaMet", "Complete"].map((type) => ({
    type,
    status: "True",
    lastTransitionTime: NOW,
  }));
  const times = { startTime: NOW, completionTime: NOW };
  const status = { ...times, succeeded: 1, uncountedTerminatedPods: {}, conditions };
  await client.mergePatch(JOBS, keyOf(job), { status }, { subresource: "status" });
}
