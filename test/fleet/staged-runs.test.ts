/** Staged update runs from the hub to members: real API servers, every controller, and the appliers of two members. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CONFIG_MAPS, NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  CLUSTER_RESOURCE_PLACEMENTS,
  CLUSTER_RESOURCE_SNAPSHOTS,
  RESOURCE_PLACEMENTS,
} from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import {
  APPROVAL_REQUESTS,
  type ApprovalRequest,
  CLUSTER_APPROVAL_REQUESTS,
  CLUSTER_STAGED_UPDATE_RUNS,
  CLUSTER_STAGED_UPDATE_STRATEGIES,
  STAGED_UPDATE_RUNS,
  STAGED_UPDATE_STRATEGIES,
  type StageConfig,
  type StagedUpdateRun,
} from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import { startFleet, type TestFleet } from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";

let fleet: TestFleet;
let hub: KubeClient;
/** As in the published samples: a stage that no cluster is in, too. */
const STAGES: StageConfig[] = [
  {
    name: "staging",
    labelSelector: { matchLabels: { environment: "staging" } },
    afterStageTasks: [{ type: "TimedWait", waitTime: "1h" }],
  },
  {
    name: "canary",
    labelSelector: { matchLabels: { environment: "canary" } },
    sortingLabelKey: "order",
    afterStageTasks: [{ type: "Approval" }],
  },
  {
    name: "production",
    labelSelector: { matchLabels: { environment: "production" } },
    sortingLabelKey: "order",
    maxConcurrency: "50%",
    afterStageTasks: [{ type: "TimedWait", waitTime: "1s" }],
  },
];

beforeAll(async () => {
  fleet = await startFleet({ members: ["a", "b"], placement: true });
  hub = fleet.client("hub");
  for (const [name, environment] of [
    ["a", "canary"],
    ["b", "production"],
  ] as const)
    await hub.mergePatch(MEMBER_CLUSTERS, named(name), { metadata: { labels: { environment, order: "1" } } });
  await hub.create(NAMESPACES, { metadata: { name: "web" } });
  await write("0");
  await hub.create(CLUSTER_RESOURCE_PLACEMENTS, {
    metadata: { name: "web" },
    spec: {
      resourceSelectors: [{ group: "", version: "v1", kind: "Namespace", name: "web" }],
      strategy: { type: "External", applyStrategy: { type: "ServerSideApply" } },
    },
  });
  await hub.create(CLUSTER_STAGED_UPDATE_STRATEGIES, {
    metadata: { name: "by-environment" },
    spec: { stages: STAGES },
  });
  await eventuallyOne(hub, CLUSTER_RESOURCE_PLACEMENTS, named("web"), (it) =>
    saysOf(it.status?.conditions, "ClusterResourcePlacementScheduled").startsWith("True"),
  );
}, 90_000);
afterAll(() => fleet[Symbol.asyncDispose]());

const named = (name: string): ObjectKey => objectKey(undefined, name);

async function write(version: string): Promise<void> {
  const metadata = { namespace: "web", name: "config" };
  await hub.apply(CONFIG_MAPS, { metadata, data: { version } }, { fieldManager: "test" });
}

function saysOf(conditions: readonly Condition[] | undefined, type: string): string {
  const found = conditions?.find((it) => it.type === type);
  return found === undefined ? "" : `${found.status} ${found.reason}`;
}

function says(run: StagedUpdateRun, type: string, stage?: string): string {
  const at =
    stage === undefined ? run.status : run.status?.stagesStatus?.find((it) => it.stageName === stage);
  return saysOf(at?.conditions, type);
}

async function start(name: string, spec: Partial<StagedUpdateRun["spec"]> = {}): Promise<void> {
  const stagedRolloutStrategyName = "by-environment";
  await hub.create(CLUSTER_STAGED_UPDATE_RUNS, {
    metadata: { name },
    spec: { placementName: "web", stagedRolloutStrategyName, state: "Run", ...spec },
  });
}

/** As a user does. */
async function approve(of: Resource<ApprovalRequest>, key: ObjectKey): Promise<void> {
  await eventuallyOne(hub, of, key, () => true);
  const condition = {
    type: "Approved",
    status: "True",
    reason: "Good",
    message: "",
    lastTransitionTime: NOW,
  };
  await hub.mergePatch(of, key, { status: { conditions: [condition] } }, { subresource: "status" });
}
const NOW = "2026-01-01T00:00:00Z";

const runOf = (name: string, isEnough: (run: StagedUpdateRun) => boolean): Promise<StagedUpdateRun> =>
  eventuallyOne(hub, CLUSTER_STAGED_UPDATE_RUNS, named(name), isEnough);
const versionIn = async (member: string): Promise<string | undefined> =>
  (await fleet.client(member).find(CONFIG_MAPS, objectKey("web", "config")))?.data?.["version"];

describe("a run", () => {
  it("is initialized, and changes nothing before its state is Run", async () => {
    await start("first", { state: "Initialize" });
    const run = await runOf("first", (it) => says(it, "Initialized") !== "");
    expect(says(run, "Initialized")).toBe("True UpdateRunInitializedSuccessfully");
    expect(run.status?.stagesStatus?.map((it) => it.clusters.map((of) => of.clusterName))).toEqual([
      [],
      ["a"],
      ["b"],
    ]);
    expect(run.status).toMatchObject({
      resourceSnapshotIndexUsed: "0",
      appliedStrategy: { type: "ServerSideApply" },
    });
    expect(await versionIn("a")).toBeUndefined();
  });

  it("updates stage by stage, and waits for the approval between them", async () => {
    await hub.mergePatch(CLUSTER_STAGED_UPDATE_RUNS, named("first"), { spec: { state: "Run" } });
    const waiting = await runOf("first", (it) => says(it, "Progressing") === "False UpdateRunWaiting");
    expect(says(waiting, "Succeeded", "staging")).toBe("True StageUpdatingSkippedNoClusters");
    expect(says(waiting, "Progressing", "canary")).toBe("False StageUpdatingWaiting");
    expect([await versionIn("a"), await versionIn("b")]).toEqual(["0", undefined]);
    await approve(CLUSTER_APPROVAL_REQUESTS, named("first-after-canary"));
    const run = await runOf("first", (it) => says(it, "Succeeded") !== "");
    expect(says(run, "Succeeded")).toBe("True UpdateRunSucceeded");
    expect(saysOf(run.status?.deletionStageStatus?.conditions, "Succeeded")).toBe(
      "True StageUpdatingSucceeded",
    );
    expect(await versionIn("b")).toBe("0");
    const approval = await hub.get(CLUSTER_APPROVAL_REQUESTS, named("first-after-canary"));
    expect(saysOf(approval.status?.conditions, "ApprovalAccepted")).toBe(
      "True ApprovalRequestApprovalAccepted",
    );
    await eventuallyOne(
      hub,
      CLUSTER_RESOURCE_PLACEMENTS,
      named("web"),
      (it) =>
        it.status?.observedResourceIndex === "0" &&
        saysOf(it.status.conditions, "ClusterResourcePlacementAvailable") === "True ResourceAvailable",
    );
  });

  it("of changed content makes a snapshot of it, and another run goes back to the older one", async () => {
    await write("1");
    // A run that is created before the hub has seen the change would roll out what was there.
    await eventuallyOne(hub, CONFIG_MAPS, objectKey("web", "config"), (it) => it.data?.["version"] === "1");
    await start("second");
    await approve(CLUSTER_APPROVAL_REQUESTS, named("second-after-canary"));
    await runOf("second", (it) => says(it, "Succeeded") === "True UpdateRunSucceeded");
    expect([await versionIn("a"), await versionIn("b")]).toEqual(["1", "1"]);
    expect((await hub.list(CLUSTER_RESOURCE_SNAPSHOTS)).items.map((it) => it.metadata.name)).toEqual([
      "web-0-snapshot",
      "web-1-snapshot",
    ]);
    await start("back", { resourceSnapshotIndex: "0" });
    await approve(CLUSTER_APPROVAL_REQUESTS, named("back-after-canary"));
    await runOf("back", (it) => says(it, "Succeeded") === "True UpdateRunSucceeded");
    expect([await versionIn("a"), await versionIn("b")]).toEqual(["0", "0"]);
  });

  it("that another run of the placement overtakes is aborted", async () => {
    await hub.create(CLUSTER_STAGED_UPDATE_STRATEGIES, {
      metadata: { name: "stuck" },
      spec: { stages: [{ name: "all", labelSelector: {} }] },
    });
    // The cluster cannot become available: its agent is not there.
    await fleet.agents.get("a")?.stop();
    await start("third", { resourceSnapshotIndex: "1", stagedRolloutStrategyName: "stuck" });
    await runOf("third", (it) => it.status?.stagesStatus?.[0]?.clusters[0]?.conditions !== undefined);
    await start("fourth", { resourceSnapshotIndex: "0", stagedRolloutStrategyName: "stuck" });
    const third = await runOf("third", (it) => says(it, "Succeeded") !== "");
    expect(says(third, "Succeeded")).toBe("False UpdateRunFailed");
    expect(saysOf(third.status?.stagesStatus?.[0]?.clusters[0]?.conditions, "Succeeded")).toBe(
      "False ClusterUpdatingFailed",
    );
    fleet.agents.get("a")?.start();
    await runOf("fourth", (it) => says(it, "Succeeded") === "True UpdateRunSucceeded");
  });

  it("that is deleted takes its approval requests with it", async () => {
    await hub.delete(CLUSTER_STAGED_UPDATE_RUNS, named("first"));
    await eventually(hub, CLUSTER_STAGED_UPDATE_RUNS, (all) =>
      all.every((it) => it.metadata.name !== "first"),
    );
    const names = (await hub.list(CLUSTER_APPROVAL_REQUESTS)).items.map((it) => it.metadata.name);
    expect(names).toEqual(["back-after-canary", "second-after-canary"]);
  });
});

it("a run of a ResourcePlacement continues when the hub starts again", async () => {
  const namespace = "web";
  await hub.create(RESOURCE_PLACEMENTS, {
    metadata: { namespace, name: "own" },
    spec: {
      resourceSelectors: [{ group: "", version: "v1", kind: "ConfigMap", name: "own" }],
      strategy: { type: "External" },
    },
  });
  await hub.create(CONFIG_MAPS, { metadata: { namespace, name: "own" }, data: { version: "0" } });
  const stages: StageConfig[] = [
    { name: "all", labelSelector: {}, maxConcurrency: 2, beforeStageTasks: [{ type: "Approval" }] },
  ];
  await hub.create(STAGED_UPDATE_STRATEGIES, { metadata: { namespace, name: "all" }, spec: { stages } });
  await hub.create(STAGED_UPDATE_RUNS, {
    metadata: { namespace, name: "run" },
    spec: { placementName: "own", stagedRolloutStrategyName: "all", state: "Run" },
  });
  await eventuallyOne(hub, APPROVAL_REQUESTS, objectKey(namespace, "run-before-all"), () => true);
  await fleet.hubProgram.stop();
  await approve(APPROVAL_REQUESTS, objectKey(namespace, "run-before-all"));
  fleet.hubProgram.start();
  const key = objectKey(namespace, "run");
  await eventuallyOne(
    hub,
    STAGED_UPDATE_RUNS,
    key,
    (it) => says(it, "Succeeded") === "True UpdateRunSucceeded",
  );
  for (const member of ["a", "b"])
    expect(await fleet.client(member).find(CONFIG_MAPS, objectKey(namespace, "own"))).toBeDefined();
});
