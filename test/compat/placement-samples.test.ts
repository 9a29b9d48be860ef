/**
 * KubeFleet's published samples of placements and staged update runs, taken to the conditions that they end in. The manifests are
 * equal to the published ones, which a test compares where they are at hand.
 */

import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { CUSTOM_RESOURCE_DEFINITIONS } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Condition, KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { PLACEMENT_EVICTIONS } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/overrides.ts";
import {
  CLUSTER_RESOURCE_BINDINGS,
  CLUSTER_RESOURCE_PLACEMENT_STATUSES,
  CLUSTER_RESOURCE_PLACEMENTS,
  type Placement,
} from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import {
  type ApprovalRequest,
  CLUSTER_APPROVAL_REQUESTS,
  CLUSTER_STAGED_UPDATE_RUNS,
  type StagedUpdateRun,
} from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { startFleet, type TestFleet } from "../support/fleet.ts";
import { SteppedClock } from "../support/stepped-clock.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";

const published = fileURLToPath(
  new URL("../../../shared/peers/kubefleet-dev+kubefleet/examples/", import.meta.url),
);
const samples = new Map(
  parseAllDocuments(readFileSync(new URL("placement-samples.yaml", import.meta.url), "utf8")).map((it) => {
    const { file, manifest } = it.toJS() as { readonly file: string; readonly manifest: KubeObject };
    return [file, manifest] as const;
  }),
);

let fleet: TestFleet;
let hub: KubeClient;
const clock = new SteppedClock();
const HOUR_MS = 3_600_000;
const LABELS = {
  a: { color: "blue", env: "canary", environment: "staging" },
  b: { color: "red", env: "prod", environment: "canary", "test-key": "test-value2" },
  c: { color: "green", env: "prod", environment: "production", order: "1" },
};
const DEFINITION = "testresources.test.kubernetes-fleet.io";

beforeAll(async () => {
  fleet = await startFleet({
    members: ["a", "b", "c"],
    placement: true,
    clocks: { hub: clock, "hub/apiserver": clock },
  });
  hub = fleet.client("hub");
  for (const [name, labels] of Object.entries(LABELS))
    await hub.mergePatch(MEMBER_CLUSTERS, named(name), {
      metadata: { labels: { ...labels, taint: "any" } },
    });
  await hub.create(NAMESPACES, { metadata: { name: "test-namespace" } });
  await hub.create(NAMESPACES, { metadata: { name: "test-ns" } });
  await hub.create(CUSTOM_RESOURCE_DEFINITIONS, {
    metadata: { name: DEFINITION },
    spec: {
      group: "test.kubernetes-fleet.io",
      scope: "Namespaced",
      names: {
        kind: "TestResource",
        listKind: "TestResourceList",
        plural: "testresources",
        singular: "testresource",
      },
      versions: [
        { name: "v1alpha1", served: true, storage: true, schema: { openAPIV3Schema: { type: "object" } } },
      ],
    },
  });
}, 90_000);
afterAll(() => fleet[Symbol.asyncDispose]());

const named = (name: string): ObjectKey => objectKey(undefined, name);

/** As kubectl does. */
async function apply(file: string): Promise<KubeObject> {
  const manifest = samples.get(file);
  if (manifest === undefined) throw new Error(`no sample ${file}`);
  const { apiVersion = "", kind = "" } = manifest;
  const plural =
    kind === "ClusterStagedUpdateStrategy" ? "clusterstagedupdatestrategies" : `${kind.toLowerCase()}s`;
  return (await hub.request("POST", `/apis/${apiVersion}/${plural}`, manifest)) as KubeObject;
}

const said = (conditions: readonly Condition[] | undefined): string[] =>
  (conditions ?? []).map(
    (it) => `${it.type.replace("ClusterResourcePlacement", "")}=${it.status} ${it.reason}`,
  );
const has = (conditions: readonly Condition[] | undefined, wanted: string): boolean =>
  said(conditions).includes(wanted);

const SCHEDULED = "Scheduled=True SchedulingPolicyFulfilled";
const AVAILABLE = "Available=True ResourceAvailable";
/** The reference's chain of conditions, of a placement and of each of its clusters. */
const PLACEMENT_CHAIN = [
  SCHEDULED,
  "RolloutStarted=True RolloutStarted",
  "Overridden=True NoOverrideSpecified",
  "WorkSynchronized=True WorkSynchronized",
  "Applied=True ApplySucceeded",
  AVAILABLE,
];
const CLUSTER_CHAIN = [
  "Scheduled=True Scheduled",
  "RolloutStarted=True RolloutStarted",
  "Overridden=True NoOverrideSpecified",
  "WorkSynchronized=True AllWorkSynced",
  "Applied=True AllWorkHaveBeenApplied",
  "Available=True AllWorkAreAvailable",
];

async function remove(name: string): Promise<void> {
  await hub.delete(CLUSTER_RESOURCE_PLACEMENTS, named(name));
  await eventually(hub, CLUSTER_RESOURCE_PLACEMENTS, (all) => all.every((it) => it.metadata.name !== name));
}

const ended = (name: string): Promise<Placement> =>
  eventuallyOne(hub, CLUSTER_RESOURCE_PLACEMENTS, named(name), (it) => has(it.status?.conditions, AVAILABLE));
const clustersOf = ({ status }: Placement): string[] =>
  (status?.placementStatuses ?? []).map((it) => it.clusterName ?? "").toSorted();

/** Whether the one object that is selected is in the cluster. */
async function isIn(cluster: string, { status }: Placement): Promise<boolean> {
  const [selected] = status?.selectedResources ?? [];
  if (selected === undefined) throw new Error("nothing is selected");
  const of = selected.kind === "Namespace" ? NAMESPACES : CUSTOM_RESOURCE_DEFINITIONS;
  return (await fleet.client(cluster).find<KubeObject>(of, named(selected.name))) !== undefined;
}

it.skipIf(!existsSync(published)).each([...samples.keys()])(
  "the manifest %s is the published one (skipped where that is not at hand)",
  (file) => {
    expect(samples.get(file)).toEqual(parse(readFileSync(`${published}${file}`, "utf8")));
  },
);

it("test-crp1.yaml is refused, as by KubeFleet: PickN without a number of clusters", async () => {
  await expect(apply("test-crp1.yaml")).rejects.toThrow(/numberOfClusters/);
});

describe("a placement", () => {
  it.each([
    ["test-crp2.yaml", ["a", "b", "c"]],
    ["test-crp3.yaml", ["a", "b", "c"]],
    // No member has the properties that it sorts by: of equals, the larger names.
    ["test-crp4.yaml", ["b", "c"]],
    ["test-crp5.yaml", ["a", "b", "c"]],
    ["test-crp6.yaml", ["a", "b"]],
    ["test-crp7.yaml", ["b"]],
  ])("of %s is available in %j, and then gone", async (file, clusters) => {
    const { name } = (await apply(file)).metadata;
    const placement = await ended(name);
    expect(said(placement.status?.conditions)).toEqual(PLACEMENT_CHAIN);
    expect(clustersOf(placement)).toEqual(clusters);
    for (const it of placement.status?.placementStatuses ?? [])
      expect(said(it.conditions)).toEqual(CLUSTER_CHAIN);
    for (const cluster of Object.keys(LABELS))
      expect(await isIn(cluster, placement)).toBe(clusters.includes(cluster));
    await remove(name);
    for (const cluster of clusters)
      await eventually(fleet.client(cluster), CUSTOM_RESOURCE_DEFINITIONS, (all) =>
        all.every((it) => it.metadata.name !== DEFINITION),
      );
  });

  it("of test-crp8.yaml tolerates a taint, for which others leave the cluster out", async () => {
    await hub.mergePatch(MEMBER_CLUSTERS, named("c"), {
      spec: { taints: [{ key: "test-key1", value: "v", effect: "NoSchedule" }] },
    });
    await apply("test-crp8.yaml");
    expect(clustersOf(await ended("crp-8"))).toEqual(["a", "b", "c"]);
    await remove("crp-8");
    await apply("test-crp2.yaml");
    const unfulfilled = await ended("crp-2");
    expect(said(unfulfilled.status?.conditions)).toEqual([
      "Scheduled=False SchedulingPolicyUnfulfilled",
      ...PLACEMENT_CHAIN.slice(1),
    ]);
    expect(
      said(unfulfilled.status?.placementStatuses?.find((it) => it.clusterName === undefined)?.conditions),
    ).toEqual(["Scheduled=False ScheduleFailed"]);
    const all = await eventually(hub, CLUSTER_RESOURCE_BINDINGS, (them) => them.length === 2);
    expect(all.map((it) => it.spec.targetCluster).toSorted()).toEqual(["a", "b"]);
    await remove("crp-2");
    await hub.mergePatch(MEMBER_CLUSTERS, named("c"), { spec: { taints: null } });
  });

  it("of test-crp9.yaml shows its status in the namespace, too", async () => {
    await apply("test-crp9.yaml");
    const placement = await ended("crp-9");
    expect(said(placement.status?.conditions)).toEqual([
      ...PLACEMENT_CHAIN,
      "StatusSynced=True StatusSyncSucceeded",
    ]);
    const key = objectKey("test-ns", "crp-9");
    const shown = await eventuallyOne(hub, CLUSTER_RESOURCE_PLACEMENT_STATUSES, key, (it) =>
      has(it.sourceStatus?.conditions, AVAILABLE),
    );
    expect(shown.sourceStatus?.placementStatuses).toEqual(placement.status?.placementStatuses);
    await remove("crp-9");
  });
});

it("the eviction of test-crp-eviction.yaml is invalid where there is no such placement; the budget is taken", async () => {
  await apply("test-crp-disruptionbudget.yaml");
  await apply("test-crp-eviction.yaml");
  const eviction = await eventuallyOne(
    hub,
    PLACEMENT_EVICTIONS,
    named("test-crp-eviction"),
    (it) => it.status?.conditions !== undefined,
  );
  expect(said(eviction.status?.conditions)).toEqual(["Valid=False ClusterResourcePlacementEvictionInvalid"]);
});

describe("the staged update run of the samples", () => {
  const run = (name: string, type: string): Promise<StagedUpdateRun> =>
    eventuallyOne(hub, CLUSTER_STAGED_UPDATE_RUNS, named(name), (it) =>
      (it.status?.conditions ?? []).some((of) => of.type === type),
    );
  const stageOf = ({ status }: StagedUpdateRun, name: string): string[] =>
    said(status?.stagesStatus?.find((it) => it.stageName === name)?.conditions);
  const waits = (stage: string): Promise<StagedUpdateRun> =>
    eventuallyOne(hub, CLUSTER_STAGED_UPDATE_RUNS, named("example-run"), (it) =>
      stageOf(it, stage).includes("Progressing=False StageUpdatingWaiting"),
    );
  async function approve(name: string): Promise<void> {
    await eventuallyOne(hub, CLUSTER_APPROVAL_REQUESTS, named(name));
    const approved = (samples.get("stagedupdaterun/approvalRequest.yaml") as ApprovalRequest).status
      ?.conditions;
    const conditions = approved?.map((it) => ({
      ...it,
      reason: "Good",
      message: "",
      lastTransitionTime: "2026-01-01T00:00:00Z",
    }));
    await hub.mergePatch(
      CLUSTER_APPROVAL_REQUESTS,
      named(name),
      { status: { conditions } },
      { subresource: "status" },
    );
  }

  it("cannot be initialized while there is no resource snapshot 0: a run without an index makes it", async () => {
    await apply("stagedupdaterun/example-crp.yaml");
    await apply("stagedupdaterun/updateStrategy.yaml");
    await eventuallyOne(hub, CLUSTER_RESOURCE_PLACEMENTS, named("example-placement"), (it) =>
      has(it.status?.conditions, SCHEDULED),
    );
    await apply("stagedupdaterun/clusterStagedUpdateRun.yaml");
    const failed = await run("example-run", "Initialized");
    expect(said(failed.status?.conditions)).toEqual(["Initialized=False UpdateRunInitializedFailed"]);
    await hub.delete(CLUSTER_STAGED_UPDATE_RUNS, named("example-run"));
    const { stagedRolloutStrategyName, placementName } = failed.spec;
    await hub.create(CLUSTER_STAGED_UPDATE_RUNS, {
      metadata: { name: "first" },
      spec: { stagedRolloutStrategyName, placementName },
    });
    await run("first", "Initialized");
  });

  it("waits an hour after staging, for an approval after canary, and for both after production", async () => {
    await eventually(hub, CLUSTER_STAGED_UPDATE_RUNS, (all) =>
      all.every((it) => it.metadata.name !== "example-run"),
    );
    await apply("stagedupdaterun/clusterStagedUpdateRun.yaml");
    const initialized = await run("example-run", "Initialized");
    expect(said(initialized.status?.conditions)).toEqual([
      "Initialized=True UpdateRunInitializedSuccessfully",
    ]);
    expect(initialized.status?.stagesStatus?.map((it) => it.clusters.map((of) => of.clusterName))).toEqual([
      ["a"],
      ["b"],
      ["c"],
    ]);
    await hub.mergePatch(CLUSTER_STAGED_UPDATE_RUNS, named("example-run"), { spec: { state: "Run" } });
    await waits("staging");
    clock.skip(HOUR_MS);
    await waits("canary");
    // As KubeFleet names it today: the sample of an approval has the name of an earlier version.
    await approve("example-run-after-canary");
    await waits("production");
    await approve("example-run-after-production");
    clock.skip(HOUR_MS);
    const over = await run("example-run", "Succeeded");
    expect(said(over.status?.conditions)).toEqual([
      "Initialized=True UpdateRunInitializedSuccessfully",
      "Progressing=False UpdateRunSucceeded",
      "Succeeded=True UpdateRunSucceeded",
    ]);
    for (const stage of ["staging", "canary", "production"])
      expect(stageOf(over, stage)).toEqual([
        "Progressing=False StageUpdatingSucceeded",
        "Succeeded=True StageUpdatingSucceeded",
      ]);
    for (const it of over.status?.stagesStatus?.flatMap((of) => of.clusters) ?? [])
      expect(said(it.conditions)).toEqual([
        "Started=True ClusterUpdatingStarted",
        "Succeeded=True ClusterUpdatingSucceeded",
      ]);
    const placement = await eventuallyOne(
      hub,
      CLUSTER_RESOURCE_PLACEMENTS,
      named("example-placement"),
      (it) => has(it.status?.conditions, AVAILABLE),
    );
    expect(said(placement.status?.conditions)).toEqual(PLACEMENT_CHAIN);
    const approval = await hub.get(CLUSTER_APPROVAL_REQUESTS, named("example-run-after-canary"));
    expect(said(approval.status?.conditions)).toContain(
      "ApprovalAccepted=True ApprovalRequestApprovalAccepted",
    );
  });
});
