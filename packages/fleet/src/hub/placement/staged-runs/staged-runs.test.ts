import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  LATEST_SNAPSHOT_LABEL,
  PARENT_PLACEMENT_LABEL,
  RESOURCE_HASH_ANNOTATION,
  RESOURCE_INDEX_LABEL,
  PARENT_OVERRIDE_LABEL,
  UPDATE_RUN_FINALIZER,
  WORK_FINALIZER,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import { CLUSTER_RESOURCE_OVERRIDE_SNAPSHOTS } from "#api/placement.kubernetes-fleet.io/v1beta1/overrides.ts";
import type { StageConfig, StagedUpdateRun } from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { keyOf, type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { FakeKubeClient, type RecordedWrite } from "@fairlead/kube/client/client.fake.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import type { Controller } from "@fairlead/kube/types.ts";
import { bindingOf, condition, placementNamed, policyOf } from "#updates/staged/world.fake.ts";
import { createHubInformers } from "../../informers.ts";
import { createRolloutParts } from "../parts.ts";
import { createPlacementInformers } from "../informers.ts";
import { SCOPES } from "#api/placement.kubernetes-fleet.io/scopes.ts";
import { createStagedRuns } from "./controller.ts";

const PLACEMENT = "web";

describe.each(SCOPES.map((scope) => [scope.name, scope] as const))("runs of %s placements", (_, scope) => {
  const namespace = scope.name === "cluster" ? undefined : "apps";
  const runKey = objectKey(namespace, "run");
  let clock: FakeClock;
  let client: FakeKubeClient;
  let stop: AbortController;
  let controller: Controller;

  function placed<T extends KubeObject>(object: T): T {
    if (namespace !== undefined) object.metadata.namespace = namespace;
    return object;
  }

  async function start(): Promise<void> {
    stop = new AbortController();
    const deps = { clock, rng: seededRng(1), log: silentLogger, metrics: noMetrics };
    const informers = createPlacementInformers(client, deps);
    const of = informers[scope.name];
    for (const it of [informers.clusterOverrideSnapshots, informers.overrideSnapshots]) {
      it.start(stop.signal);
      await it.synced(stop.signal);
    }
    const { members } = createHubInformers(client, {}, deps);
    controller = createStagedRuns({
      ...createRolloutParts({ client, informers, members, deps }),
      of,
      snapshotNow: () =>
        Promise.resolve(of.resourceSnapshots.store.get(objectKey(namespace, "web-3-snapshot"))),
    });
    await controller.start(stop.signal);
  }

  async function end(): Promise<void> {
    stop.abort();
    await controller[Symbol.asyncDispose]();
  }

  function arrange(): void {
    clock = new FakeClock();
    client = new FakeKubeClient(clock);
    client.seed(scope.placements, placed(placementNamed(PLACEMENT)));
    client.seed(scope.policySnapshots, placed(policyOf(PLACEMENT)));
    const labels = {
      [PARENT_PLACEMENT_LABEL]: PLACEMENT,
      [RESOURCE_INDEX_LABEL]: "3",
      [LATEST_SNAPSHOT_LABEL]: "true",
    };
    const annotations = { [RESOURCE_HASH_ANNOTATION]: "h" };
    client.seed(
      scope.resourceSnapshots,
      placed({
        metadata: { name: "web-3-snapshot", labels, annotations },
        spec: { selectedResources: [{ apiVersion: "v1", kind: "Namespace", metadata: { name: "apps" } }] },
      }),
    );
    for (const [cluster, stage] of [
      ["a", "one"],
      ["b", "one"],
      ["c", "two"],
    ] as const)
      join(cluster, stage);
  }

  function join(cluster: string, stage: string): void {
    client.seed(MEMBER_CLUSTERS, {
      metadata: { name: cluster, labels: { stage } },
      spec: { identity: { kind: "User", name: cluster } },
    });
    const binding = bindingOf(PLACEMENT, cluster);
    delete binding.metadata.uid;
    client.seed(scope.bindings, placed(binding));
  }
  beforeEach(arrange);
  afterEach(() => end());

  function create(one: Partial<StageConfig> = {}, spec: Partial<StagedUpdateRun["spec"]> = {}): void {
    const stages = (["one", "two"] as const).map((name) => ({
      name,
      labelSelector: { matchLabels: { stage: name } },
      ...(name === "one" ? one : {}),
    }));
    client.seed(scope.strategies, placed({ metadata: { name: "by-stage" }, spec: { stages } }));
    client.seed(
      scope.runs,
      placed({
        metadata: { name: "run" },
        spec: {
          placementName: PLACEMENT,
          stagedRolloutStrategyName: "by-stage",
          state: "Run" as const,
          ...spec,
        },
      }),
    );
  }

  const bindingKey = (cluster: string): ObjectKey => objectKey(namespace, `${PLACEMENT}-${cluster}-x`);

  /** As the member reports it. */
  async function ready(cluster: string): Promise<void> {
    const { metadata } = await client.get(scope.bindings, bindingKey(cluster));
    const conditions = ["Applied", "Available"].map((it) => condition(it, "True", metadata.generation ?? 0));
    await client.mergePatch(
      scope.bindings,
      bindingKey(cluster),
      { status: { conditions } },
      { subresource: "status" },
    );
  }

  async function settle(): Promise<void> {
    await clock.advance(1000);
    await controller.idle(stop.signal);
    await clock.advance(0);
  }

  const run = (): StagedUpdateRun => {
    const [found] = client.objects(scope.runs);
    if (found === undefined) throw new Error("no run");
    return found;
  };
  const says = (type: string): string | undefined => {
    const found = findCondition(run().status?.conditions, type);
    return found === undefined ? undefined : `${found.status} ${found.reason}`;
  };
  const bound = (): string[] =>
    client
      .objects(scope.bindings)
      .flatMap(({ spec }) => (spec.state === "Bound" ? [spec.targetCluster] : []));

  it("roll the latest snapshot out, stage by stage", async () => {
    create();
    await start();
    const order: string[][] = [];
    for (const cluster of ["a", "b", "c"]) {
      await settle();
      order.push(bound());
      await ready(cluster);
    }
    await settle();
    expect(order).toEqual([["a"], ["a", "b"], ["a", "b", "c"]]);
    expect(says("Succeeded")).toBe("True UpdateRunSucceeded");
    expect(run().status).toMatchObject({
      policySnapshotIndexUsed: "0",
      policyObservedClusterCount: 3,
      resourceSnapshotIndexUsed: "3",
    });
    expect(client.objects(scope.bindings)[0]).toMatchObject({
      metadata: { finalizers: [WORK_FINALIZER] },
      spec: { resourceSnapshotName: "web-3-snapshot", applyStrategy: { type: "ClientSideApply" } },
    });
  });

  it("write the status once for each change, and nothing for a pass that changes nothing", async () => {
    create({ maxConcurrency: 2 });
    await start();
    await settle();
    const tally = (): Record<string, number> => {
      const counts: Record<string, number> = {};
      for (const { resource, subresource = "" } of client.writes.splice(0)) {
        const name = `${resource === scope.runs.plural ? "run" : "binding"}${subresource}`;
        counts[name] = (counts[name] ?? 0) + 1;
      }
      return counts;
    };
    // The finalizer; the stages; that two clusters started.
    expect(tally()).toEqual({ run: 1, runstatus: 2, binding: 2 });
    controller.enqueue(runKey);
    await settle();
    expect(tally()).toEqual({});
    await ready("a");
    await settle();
    expect(tally()).toEqual({ bindingstatus: 1, runstatus: 1 });
  });

  /** 102 clusters, 51 of them at a time, which answer one after another; returns how often the status was written. */
  async function updateMany(onAnswer: (cluster: string) => Promise<void> = async () => {}): Promise<number> {
    for (let at = 0; at < 100; at += 1) join(`m${at}`, "one");
    create({ maxConcurrency: "50%" });
    await start();
    await clock.advance(100);
    await controller.idle(stop.signal);
    const answered = new Set<string>();
    client.writes.splice(0);
    while (says("Succeeded") === undefined) {
      const cluster = bound().find((it) => !answered.has(it));
      if (cluster === undefined) throw new Error("no cluster is updated");
      answered.add(cluster);
      await ready(cluster);
      await onAnswer(cluster);
      await clock.advance(5);
      await controller.idle(stop.signal);
    }
    return client.writes.filter((it) => it.resource === scope.runs.plural && it.subresource === "status")
      .length;
  }

  it("over many clusters write the status in steps while these answer, and at once when a stage or the run is done", async () => {
    // One each for the end of the first stage and of the run.
    expect(await updateMany()).toBe(2);
    expect(says("Succeeded")).toBe("True UpdateRunSucceeded");
    const clusters = run().status?.stagesStatus?.flatMap((it) => it.clusters) ?? [];
    expect(clusters).toHaveLength(103);
    expect(clusters.every((it) => findCondition(it.conditions, "Succeeded")?.status === "True")).toBe(true);
  });

  it("over many clusters say how far these are a moment later, and continue from there if the run is edited", async () => {
    for (let at = 0; at < 100; at += 1) join(`m${at}`, "one");
    create({ maxConcurrency: "50%" });
    await start();
    await settle();
    const started = (): number =>
      run()
        .status?.stagesStatus?.flatMap((it) => it.clusters)
        .filter((it) => findCondition(it.conditions, "Started") !== undefined).length ?? 0;
    expect(started()).toBe(51);
    for (const it of bound().slice(0, 3)) await ready(it);
    await clock.advance(10);
    await controller.idle(stop.signal);
    expect([bound().length, started()]).toEqual([54, 51]);
    await client.mergePatch(scope.runs, runKey, { spec: { state: "Stop" } });
    await clock.advance(10);
    await controller.idle(stop.signal);
    expect([bound().length, started(), says("Progressing")]).toEqual([54, 54, "Unknown UpdateRunStopping"]);
    await ready(bound()[3] ?? "");
    await clock.advance(10);
    await controller.idle(stop.signal);
    const done = (): number =>
      run()
        .status?.stagesStatus?.flatMap((it) => it.clusters)
        .filter((it) => findCondition(it.conditions, "Succeeded") !== undefined).length ?? 0;
    expect(done()).toBe(3);
    await clock.advance(2000);
    await controller.idle(stop.signal);
    expect(done()).toBe(4);
  });

  it("over many clusters continue from the bindings where the program ended before it wrote how far they are", async () => {
    let answers = 0;
    await updateMany(async () => {
      answers += 1;
      if (answers !== 30) return;
      await end();
      await start();
    });
    expect(says("Succeeded")).toBe("True UpdateRunSucceeded");
    expect(bound()).toHaveLength(103);
  });

  it("wait while the scheduler cannot pick their clusters, without asking again, and start when it can", async () => {
    const policy = placed(policyOf(PLACEMENT));
    const setScheduled = (status: "True" | "False"): Promise<unknown> =>
      client.mergePatch(
        scope.policySnapshots,
        keyOf(policy),
        { status: { conditions: [condition("Scheduled", status, 1)] } },
        { subresource: "status" },
      );
    await setScheduled("False");
    create();
    await start();
    await settle();
    expect(says("Initialized")).toBe("Unknown UpdateRunWaiting");
    const timers = clock.pending;
    await setScheduled("True");
    await settle();
    expect(says("Initialized")).toBe("True UpdateRunInitializedSuccessfully");
    expect(bound()).not.toEqual([]);
    expect(timers).toBe(0);
  });

  it("wait for an approval, and accept it", async () => {
    create({ beforeStageTasks: [{ type: "Approval" }] });
    await start();
    await settle();
    expect(bound()).toEqual([]);
    expect(says("Progressing")).toBe("False UpdateRunWaiting");
    const key = objectKey(namespace, "run-before-one");
    const conditions = [condition("Approved", "True", 1)];
    await client.mergePatch(scope.approvals, key, { status: { conditions } }, { subresource: "status" });
    await settle();
    expect(bound()).toEqual(["a"]);
    const { status } = await client.get(scope.approvals, key);
    expect(findCondition(status?.conditions, "ApprovalAccepted")).toMatchObject({
      status: "True",
      reason: "ApprovalRequestApprovalAccepted",
    });
  });

  it("take their approvals with them when they are deleted", async () => {
    create({ beforeStageTasks: [{ type: "Approval" }] });
    await start();
    await settle();
    expect(run().metadata.finalizers).toEqual([UPDATE_RUN_FINALIZER]);
    const other = {
      metadata: { name: "other-before-one" },
      spec: { parentStageRollout: "other", targetStage: "one" },
    };
    client.seed(scope.approvals, placed(other));
    await client.delete(scope.runs, runKey);
    await settle();
    expect(client.objects(scope.runs)).toEqual([]);
    expect(client.objects(scope.approvals).map((it) => it.metadata.name)).toEqual(["other-before-one"]);
  });

  it("give each cluster the overrides that apply to it, as they are when the run is initialized", async () => {
    const labels = { [PARENT_OVERRIDE_LABEL]: "cro", [LATEST_SNAPSHOT_LABEL]: "true" };
    if (namespace !== undefined) return;
    client.seed(CLUSTER_RESOURCE_OVERRIDE_SNAPSHOTS, {
      metadata: { name: "cro-0", labels },
      spec: {
        overrideHash: "",
        overrideSpec: {
          clusterResourceSelectors: [{ group: "", version: "v1", kind: "Namespace", name: "apps" }],
          policy: {
            overrideRules: [
              {
                clusterSelector: {
                  clusterSelectorTerms: [{ labelSelector: { matchLabels: { stage: "one" } } }],
                },
              },
            ],
          },
        },
      },
    });
    create({}, { state: "Initialize" });
    await start();
    await settle();
    expect(run().status?.stagesStatus?.map((it) => it.clusters)).toEqual([
      [
        { clusterName: "a", clusterResourceOverrideSnapshots: ["cro-0"] },
        { clusterName: "b", clusterResourceOverrideSnapshots: ["cro-0"] },
      ],
      [{ clusterName: "c" }],
    ]);
  });

  it.each(["7", "latest"])(
    "fail to initialize for resource snapshot %s, which is not there",
    async (index) => {
      create({}, { resourceSnapshotIndex: index });
      await start();
      await settle();
      expect(says("Initialized")).toBe("False UpdateRunInitializedFailed");
    },
  );

  it("wait for bindings that their informer has not seen yet", async () => {
    const policy = placed(policyOf(PLACEMENT));
    await client.delete(scope.policySnapshots, keyOf(policy));
    policy.spec.policy = { placementType: "PickFixed", clusterNames: ["a", "b"] };
    client.seed(scope.policySnapshots, policy);
    client.deafTo.add(scope.bindings.plural);
    await start();
    await client.delete(scope.bindings, bindingKey("c"));
    create({}, { state: "Initialize" });
    await settle();
    expect(says("Initialized")).toBe("Unknown UpdateRunWaiting");
  });

  it("continue where they were when the program ends at any write", async () => {
    const isOwn = ({ resource, subresource }: RecordedWrite): boolean =>
      resource !== scope.bindings.plural || subresource === undefined;
    const approve = async (): Promise<void> => {
      const conditions = [condition("Approved", "True", 1)];
      const key = objectKey(namespace, "run-after-one");
      await client
        .mergePatch(scope.approvals, key, { status: { conditions } }, { subresource: "status" })
        .catch(() => {});
    };
    /** Until nothing happens any more, with members that answer and a user that approves; the approval is the last to come. */
    const proceed = async (): Promise<void> => {
      for (let round = 0; round < 6; round += 1) {
        // Not until it is idle: what fails is retried later and later.
        for (let turn = 0; turn < 10; turn += 1) await clock.advance(20);
        for (const it of bound()) await ready(it);
      }
    };
    let writes = 0;
    for (let lastWrite = 0; writes >= lastWrite; lastWrite += 1) {
      if (lastWrite > 0) arrange();
      create({ maxConcurrency: 2, afterStageTasks: [{ type: "Approval" }] });
      writes = 0;
      let isUp = true;
      // From one write on, none arrives.
      const ends = new FleetError("ABORTED", "the program ends");
      client.failNext(ends, (it) => isUp && isOwn(it) && (writes += 1) > lastWrite);
      for (let more = 0; more < 50; more += 1)
        client.failNext(ends, (it) => isUp && isOwn(it) && writes > lastWrite);
      await start();
      await proceed();
      isUp = false;
      await approve();
      isUp = true;
      await proceed();
      isUp = false;
      await end();
      await start();
      await proceed();
      await approve();
      await proceed();
      expect([lastWrite, says("Succeeded")]).toEqual([lastWrite, "True UpdateRunSucceeded"]);
      if (writes > lastWrite) await end();
    }
    // The finalizer, three bindings, an approval request and its acceptance, and the status after each.
    expect(writes).toBeGreaterThanOrEqual(9);
  });
});
