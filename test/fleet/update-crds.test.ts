import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { UPDATE_CRDS } from "@fairlead/fleet/api/fairlead.dev/update-crds.ts";
import {
  AUTO_UPGRADE_PROFILES,
  type AutoUpgradeProfile,
  type Gate,
  GATES,
  type ManagedClusterUpdate,
  UPDATE_RUNS,
  UPDATE_STRATEGIES,
  type UpdateRun,
  type UpdateRunStatus,
  type UpdateStage,
  type UpdateState,
} from "@fairlead/fleet/api/fairlead.dev/v1alpha1/updates.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { installCrds } from "@fairlead/kube/definitions/crds.ts";
import { startCluster, type TestCluster, testDeps } from "../support/fleet.ts";

/** What the API server itself refuses of update runs, before any controller sees it. */

let cluster: TestCluster;
let count = 0;
beforeAll(async () => {
  cluster = await startCluster("hub", []);
  const options = { crds: UPDATE_CRDS, fieldManager: "test" };
  await installCrds(cluster.client, options, testDeps("test"), AbortSignal.timeout(20_000));
}, 30_000);
afterAll(() => cluster[Symbol.asyncDispose]());

const name = (): string => `n${(count += 1)}`;
const FULL: ManagedClusterUpdate = { upgrade: { type: "Full", kubernetesVersion: "1.34.1" } };
const group = { name: "g" };
const approval = { displayName: "go", type: "Approval" as const };
const start = { startDay: "Monday", startTime: "08:00", utcOffset: "+02:00" } as const;

const createStage = (stage: object) =>
  cluster.client.create(UPDATE_STRATEGIES, {
    metadata: { name: name() },
    spec: { stages: [stage as UpdateStage] },
  });
const createRun = (spec: object, called = name()) =>
  cluster.client.create(UPDATE_RUNS, { metadata: { name: called }, spec: spec as UpdateRun["spec"] });

const ofType = (upgrade: object) => ({ managedClusterUpdate: { upgrade } });

describe("a stage", () => {
  it.each<[string, object]>([
    ["with groups", { name: "s", groups: [group] }],
    ["with a selector as text", { name: "s", memberSelector: { byLabel: "env in (prod),!old" } }],
    ["with concurrency in percent", { name: "s", groups: [{ ...group, maxConcurrency: "100%" }] }],
    ["with no failures allowed", { name: "s", groups: [group], maxAllowedFailures: "0" }],
    ["with all failures allowed", { name: "s", groups: [group], maxAllowedFailures: "100%" }],
    [
      "with a scheduled start",
      {
        name: "s",
        groups: [group],
        beforeGates: [{ displayName: "x", type: "ScheduledStart", scheduledStartConfiguration: start }],
      },
    ],
  ])("%s is accepted", async (_what, stage) => {
    await createStage(stage);
  });

  it.each<[string, object, string]>([
    ["a name with capitals", { name: "S", groups: [group] }, "name"],
    ["a name of 51 characters", { name: "s".repeat(51), groups: [group] }, "name"],
    ["neither groups nor selector", { name: "s" }, "groups or memberSelector is required"],
    ["no groups", { name: "s", groups: [] }, "groups"],
    ["a group twice", { name: "s", groups: [group, group] }, "groups"],
    [
      "51 groups",
      { name: "s", groups: Array.from({ length: 51 }, (_, at) => ({ name: `g${at}` })) },
      "groups",
    ],
    ["concurrency 0", { name: "s", groups: [group], maxConcurrency: "0" }, "maxConcurrency"],
    ["concurrency 0%", { name: "s", groups: [group], maxConcurrency: "0%" }, "maxConcurrency"],
    ["concurrency 101%", { name: "s", groups: [group], maxConcurrency: "101%" }, "maxConcurrency"],
    ["concurrency above 50", { name: "s", groups: [group], maxConcurrency: "51" }, "must be at most 50"],
    [
      "a group with more concurrency than its stage",
      { name: "s", maxConcurrency: "2", groups: [{ ...group, maxConcurrency: "3" }] },
      "maxConcurrency of a group must not be above that of its stage",
    ],
    ["failures of 101%", { name: "s", groups: [group], maxAllowedFailures: "101%" }, "maxAllowedFailures"],
    ["negative failures", { name: "s", groups: [group], maxAllowedFailures: "-1" }, "maxAllowedFailures"],
    [
      "a selector of two forms",
      { name: "s", memberSelector: { byLabel: "a=b", matchLabels: { a: "b" } } },
      "byLabel cannot be used with matchLabels or matchExpressions",
    ],
    ["a selector of 513 characters", { name: "s", memberSelector: { byLabel: "a".repeat(513) } }, "byLabel"],
    [
      "a scheduled start without a time",
      { name: "s", groups: [group], beforeGates: [{ displayName: "x", type: "ScheduledStart" }] },
      "scheduledStartConfiguration is required for ScheduledStart",
    ],
    [
      "an approval with a time",
      { name: "s", groups: [group], beforeGates: [{ ...approval, scheduledStartConfiguration: start }] },
      "forbidden for Approval",
    ],
    [
      "a scheduled start after it",
      {
        name: "s",
        groups: [group],
        afterGates: [{ displayName: "x", type: "ScheduledStart", scheduledStartConfiguration: start }],
      },
      "type ScheduledStart is for beforeGates",
    ],
    [
      "a gate without a name",
      { name: "s", groups: [group], beforeGates: [{ displayName: "", type: "Approval" }] },
      "displayName",
    ],
    [
      "a gate with a name of 101 characters",
      { name: "s", groups: [group], beforeGates: [{ displayName: "x".repeat(101), type: "Approval" }] },
      "displayName",
    ],
    ...[
      { ...start, startDay: "monday" },
      { ...start, startTime: "24:00" },
      { ...start, startTime: "8:00" },
      { ...start, utcOffset: "+14:30" },
      { ...start, utcOffset: "02:00" },
    ].map((configuration): [string, object, string] => [
      `a start ${Object.values(configuration).join(" ")}`,
      {
        name: "s",
        groups: [group],
        beforeGates: [
          { displayName: "x", type: "ScheduledStart", scheduledStartConfiguration: configuration },
        ],
      },
      "scheduledStartConfiguration",
    ]),
    [
      "a negative wait",
      { name: "s", groups: [group], afterStageWaitInSeconds: -1 },
      "afterStageWaitInSeconds",
    ],
  ])("with %s is refused", async (_what, stage, message) => {
    await expect(createStage(stage)).rejects.toThrow(message);
  });
});

describe("a run", () => {
  const images = (...versions: readonly string[]) => ({
    upgrade: { type: "NodeImageOnly" },
    nodeImageSelection: {
      type: "Custom",
      customNodeImageVersions: versions.map((version) => ({ version })),
    },
  });

  it.each<[string, object]>([
    ["of all members", { managedClusterUpdate: FULL }],
    ["of node images", { managedClusterUpdate: { upgrade: { type: "NodeImageOnly" } } }],
    [
      "of chosen node images",
      { managedClusterUpdate: images("ubuntu-2404-20260801", "windows-2025-20260801") },
    ],
    ["with a strategy by name", { managedClusterUpdate: FULL, updateStrategyName: "s" }],
  ])("%s is accepted", async (_what, spec) => {
    await createRun(spec);
  });

  it.each<[string, object, string]>([
    [
      "two strategies",
      {
        managedClusterUpdate: FULL,
        updateStrategyName: "s",
        strategy: { stages: [{ name: "s", groups: [group] }] },
      },
      "updateStrategyName and strategy cannot be used together",
    ],
    ["no stages", { managedClusterUpdate: FULL, strategy: { stages: [] } }, "stages"],
    [
      "a stage twice",
      {
        managedClusterUpdate: FULL,
        strategy: {
          stages: [
            { name: "s", groups: [group] },
            { name: "s", groups: [{ name: "h" }] },
          ],
        },
      },
      "stages",
    ],
    ["no version", { managedClusterUpdate: { upgrade: { type: "Full" } } }, "kubernetesVersion is required"],
    [
      "no version for the control plane",
      { managedClusterUpdate: { upgrade: { type: "ControlPlaneOnly" } } },
      "kubernetesVersion is required",
    ],
    ["no version of our programs", ofType({ type: "Components" }), "componentsVersion is required"],
    [
      "a version of Kubernetes for our programs",
      ofType({ type: "Components", componentsVersion: "0.2.0", kubernetesVersion: "1.34.1" }),
      "forbidden for NodeImageOnly and Components",
    ],
    [
      "a version of our programs for Kubernetes",
      ofType({ type: "Full", componentsVersion: "0.2.0", kubernetesVersion: "1.34.1" }),
      "componentsVersion is required for Components, and forbidden otherwise",
    ],
    [
      "a version of our programs that is not one",
      ofType({ type: "Components", componentsVersion: "latest" }),
      "componentsVersion",
    ],
    [
      "node images for our programs",
      {
        managedClusterUpdate: {
          upgrade: { type: "Components", componentsVersion: "0.2.0" },
          nodeImageSelection: { type: "Latest" },
        },
      },
      "nodeImageSelection is forbidden for Components",
    ],
    [
      "a version for node images",
      { managedClusterUpdate: { upgrade: { type: "NodeImageOnly", kubernetesVersion: "1.34.1" } } },
      "forbidden for NodeImageOnly",
    ],
    [
      "a version without a patch",
      { managedClusterUpdate: { upgrade: { type: "Full", kubernetesVersion: "1.34" } } },
      "kubernetesVersion",
    ],
    ["an unknown type", { managedClusterUpdate: { upgrade: { type: "Some" } } }, "type"],
    ["no chosen images", { managedClusterUpdate: images() }, "customNodeImageVersions"],
    [
      "two images of a family",
      { managedClusterUpdate: images("ubuntu-2404-20260801", "ubuntu-2404-20260901") },
      "one version for each family",
    ],
    [
      "chosen images that are not asked for",
      {
        managedClusterUpdate: {
          ...FULL,
          nodeImageSelection: { type: "Latest", customNodeImageVersions: [{ version: "u-1" }] },
        },
      },
      "forbidden otherwise",
    ],
  ])("with %s is refused", async (_what, spec, message) => {
    await expect(createRun(spec)).rejects.toThrow(message);
  });

  it.each(["a".repeat(51), "a.b"])("with the name %s is refused", async (called) => {
    await expect(createRun({ managedClusterUpdate: FULL }, called)).rejects.toThrow("metadata.name");
  });
});

describe("of a run in state", () => {
  async function inState(state: UpdateState, spec: object = {}): Promise<UpdateRun> {
    const run = await createRun({ managedClusterUpdate: FULL, ...spec });
    const startTime = state === "NotStarted" ? {} : { startTime: "2026-11-23T12:00:00Z" };
    const status: UpdateRunStatus = { status: { state, ...startTime }, stages: [], failureCount: 0 };
    return cluster.client.update(UPDATE_RUNS, { ...run, status }, { subresource: "status" });
  }
  const change = ({ metadata }: UpdateRun, spec: object) =>
    cluster.client.mergePatch(UPDATE_RUNS, objectKey(undefined, metadata.name), { spec });
  const skip = [{ type: "Member", name: "a" }];

  it.each<[UpdateState, boolean, boolean, boolean]>([
    ["NotStarted", true, true, false],
    ["Running", false, true, true],
    ["Pending", false, true, true],
    ["Stopping", false, false, false],
    ["Stopped", true, false, false],
    ["Failed", true, false, false],
    ["Skipped", false, false, false],
    ["Completed", false, false, false],
  ])("%s: start %s, stop %s, skip %s", async (state, starts, stops, skips) => {
    const outcome = async (made: Promise<UpdateRun>, spec: object): Promise<boolean> =>
      change(await made, spec).then(
        () => true,
        () => false,
      );
    expect([
      await outcome(inState(state, { state: state === "NotStarted" ? "Initialize" : "Stop" }), {
        state: "Run",
      }),
      await outcome(inState(state, { state: "Run" }), { state: "Stop" }),
      await outcome(inState(state, { state: "Run" }), { skip }),
    ]).toEqual([starts, stops, skips]);
    const again = await outcome(inState(state, { state: "Run" }), { attempt: 2 });
    expect(again).toBe(starts);
  });

  it("Running: the strategy and what is upgraded do not change any more", async () => {
    const run = await inState("Running", { state: "Run", updateStrategyName: "s" });
    await expect(change(run, { updateStrategyName: "t" })).rejects.toThrow("strategy of a run cannot change");
    await expect(
      change(run, { updateStrategyName: null, strategy: { stages: [{ name: "s", groups: [group] }] } }),
    ).rejects.toThrow("strategy of a run cannot change");
    await expect(
      change(run, { managedClusterUpdate: { upgrade: { kubernetesVersion: "1.34.2" } } }),
    ).rejects.toThrow("managedClusterUpdate cannot change");
  });

  it("NotStarted: the profile that made it cannot be changed", async () => {
    const run = await inState("NotStarted", { autoUpgradeProfileName: "p" });
    await expect(change(run, { autoUpgradeProfileName: "q" })).rejects.toThrow(
      "autoUpgradeProfileName cannot change",
    );
  });

  it("NotStarted: strategy and version may be edited", async () => {
    const run = await inState("NotStarted", { updateStrategyName: "s" });
    await change(run, { updateStrategyName: "t" });
    await change(run, { managedClusterUpdate: { upgrade: { kubernetesVersion: "1.34.2" } } });
  });

  it("Running: skipped targets cannot be removed", async () => {
    const run = await inState("Running", { state: "Run", skip: [...skip, ...skip] });
    await expect(change(run, { skip })).rejects.toThrow("can only get more entries");
  });
});

describe("a gate", () => {
  const create = (state: Gate["spec"]["state"]) =>
    cluster.client.create(GATES, {
      metadata: { name: name() },
      spec: {
        displayName: "go",
        gateType: "Approval",
        target: { id: "uid", updateRunProperties: { name: "run", stage: "s", timing: "Before" } },
        state,
      },
    });
  const change = ({ metadata }: Gate, spec: object) =>
    cluster.client.mergePatch(GATES, objectKey(undefined, metadata.name), { spec });

  it("that is Pending can be completed", async () => {
    await change(await create("Pending"), { state: "Completed" });
  });
  it.each(["Completed", "Skipped"] as const)("that is %s does not change", async (state) => {
    await expect(change(await create(state), { state: "Pending" })).rejects.toThrow("does not change");
  });
  it("cannot be moved to another run", async () => {
    await expect(change(await create("Pending"), { target: { id: "other" } })).rejects.toThrow(
      "only state can be changed",
    );
  });
});

describe("a profile", () => {
  const create = (spec: object) =>
    cluster.client.create(AUTO_UPGRADE_PROFILES, {
      metadata: { name: name() },
      spec: spec as AutoUpgradeProfile["spec"],
    });

  it.each<[string, object]>([
    ["Rapid", { channel: "Rapid", nodeImageSelection: { type: "Consistent" } }],
    [
      "with long-term support",
      { channel: "TargetKubernetesVersion", targetKubernetesVersion: "1.33", longTermSupport: true },
    ],
  ])("%s is accepted", async (_what, spec) => {
    await create(spec);
  });
  it.each<[string, object, string]>([
    [
      "without the version that it is for",
      { channel: "TargetKubernetesVersion" },
      "targetKubernetesVersion is required",
    ],
    [
      "with a version that it is not for",
      { channel: "Stable", targetKubernetesVersion: "1.33" },
      "forbidden otherwise",
    ],
    [
      "with a patch",
      { channel: "TargetKubernetesVersion", targetKubernetesVersion: "1.33.1" },
      "targetKubernetesVersion",
    ],
    [
      "Rapid with long-term support",
      { channel: "Rapid", longTermSupport: true },
      "longTermSupport is for channel",
    ],
    [
      "with chosen images",
      { channel: "Rapid", nodeImageSelection: { type: "Custom" } },
      "nodeImageSelection",
    ],
  ])("%s is refused", async (_what, spec, message) => {
    await expect(create(spec)).rejects.toThrow(message);
  });
});
