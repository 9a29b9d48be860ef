import { describe, expect, it } from "vitest";
import { DELETE_STAGE } from "#api/placement.kubernetes-fleet.io/names.ts";
import type { StageConfig } from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import { indexAwaitedBy } from "./advance.ts";
import { FakeWorld, policyOf } from "./world.fake.ts";

const MINUTE_MS = 60_000;

function stage(name: string, more: Partial<StageConfig> = {}): StageConfig {
  return { name, labelSelector: { matchLabels: { stage: name } }, ...more };
}

/** Three clusters in stage "one", two in "two". */
function world(one: Partial<StageConfig> = {}, two: Partial<StageConfig> = {}): FakeWorld {
  const clusters = { a: "one", b: "one", c: "one", d: "two", e: "two" };
  const made = new FakeWorld(clusters, [stage("one", one), stage("two", two)]);
  made.settle();
  return made;
}

const DAY_MS = 86_400_000;

describe("a staged update run", () => {
  it("waits as long as it has to, and no longer, after the clock was set back by a day", () => {
    const fleet = world({ maxConcurrency: 3, afterStageTasks: [{ type: "TimedWait", waitTime: "10m" }] });
    for (const cluster of ["a", "b", "c"]) fleet.ready(cluster);
    fleet.settle();
    fleet.nowMs -= DAY_MS;
    fleet.settle();
    fleet.nowMs += 9 * MINUTE_MS;
    fleet.settle();
    expect(fleet.inFlight()).toEqual([]);
    fleet.nowMs += MINUTE_MS;
    fleet.settle();
    expect(fleet.inFlight()).toEqual(["d"]);
    fleet.nowMs -= DAY_MS;
    fleet.settle();
    fleet.nowMs += 6 * MINUTE_MS;
    fleet.settle();
    expect(fleet.says("Progressing")).toBe("False UpdateRunStuck");
  });

  it.each([DAY_MS, -DAY_MS])(
    "waits as long as it has to, and no longer, when the clock is set by %d ms while it waits",
    (byMs) => {
      const fleet = world({
        maxConcurrency: 3,
        progressDeadline: "10m",
        afterStageTasks: [{ type: "TimedWait", waitTime: "10m" }],
      });
      for (const cluster of ["a", "b"]) fleet.ready(cluster);
      fleet.settle();
      fleet.nowMs += 5 * MINUTE_MS;
      fleet.setClock(byMs);
      expect(fleet.says("Succeeded")).toBeUndefined();
      fleet.ready("c");
      fleet.settle();
      fleet.nowMs += 4 * MINUTE_MS;
      fleet.setClock(byMs);
      fleet.nowMs += 5 * MINUTE_MS;
      fleet.settle();
      expect(fleet.inFlight()).toEqual([]);
      fleet.nowMs += MINUTE_MS;
      fleet.settle();
      expect(fleet.inFlight()).toEqual(["d"]);
    },
  );

  it("updates the clusters of a stage one after another, then those of the next", () => {
    const fleet = world();
    const order: string[] = [];
    while (fleet.says("Succeeded") === undefined) {
      const [cluster = "", ...others] = fleet.inFlight();
      expect(others).toEqual([]);
      order.push(cluster);
      fleet.ready(cluster);
      fleet.settle();
    }
    expect(order).toEqual(["a", "b", "c", "d", "e"]);
    expect(fleet.says("Succeeded")).toBe("True UpdateRunSucceeded");
    expect(fleet.says("Progressing")).toBe("False UpdateRunSucceeded");
  });

  it("updates as many clusters at a time as maxConcurrency says, and starts one as soon as one is done", () => {
    const fleet = world({ maxConcurrency: 2 });
    expect(fleet.inFlight()).toEqual(["a", "b"]);
    fleet.ready("b");
    fleet.settle();
    expect(fleet.inFlight()).toEqual(["a", "c"]);
  });

  it("makes the binding of a cluster Bound with the snapshot, the overrides and the apply strategy", () => {
    const fleet = world();
    fleet.run = {
      ...fleet.run,
      status: {
        ...fleet.run.status,
        appliedStrategy: { type: "ServerSideApply" },
        stagesStatus: (fleet.run.status?.stagesStatus ?? []).map((it) => ({
          ...it,
          clusters: it.clusters.map((of) => ({ ...of, clusterResourceOverrideSnapshots: ["cro-1"] })),
        })),
      },
    };
    fleet.bindings.get("a");
    fleet.change("a", { clusterResourceOverrideSnapshots: ["cro-1"] });
    fleet.ready("a");
    const [change] = fleet.pass()?.bind ?? [];
    expect(change?.binding.spec.targetCluster).toBe("b");
    expect(change?.spec).toMatchObject({
      state: "Bound",
      resourceSnapshotName: "web-7-snapshot",
      resourceOverrideSnapshots: [],
      clusterResourceOverrideSnapshots: ["cro-1"],
      applyStrategy: { type: "ServerSideApply" },
    });
  });

  it.each([
    ["Applied and Available", ["Applied", "Available"], true],
    ["DiffReported", ["DiffReported"], true],
    ["Applied alone", ["Applied"], false],
    ["Available alone", ["Available"], false],
  ])("takes a cluster whose binding is %s for done: %s", (_, types, isDone) => {
    const fleet = world();
    fleet.report("a", ...types);
    fleet.settle();
    expect(fleet.says("Succeeded", "one", "a")).toBe(isDone ? "True ClusterUpdatingSucceeded" : undefined);
  });

  it("does not take conditions about an older spec of a binding for those of the new one", () => {
    const fleet = new FakeWorld({ a: "one" }, [stage("one")]);
    fleet.change("a", { state: "Bound", resourceSnapshotName: "web-6-snapshot" });
    fleet.ready("a");
    fleet.settle();
    expect(fleet.inFlight()).toEqual(["a"]);
  });

  it("does not touch a cluster that has the snapshot already", () => {
    const fleet = new FakeWorld({ a: "one", b: "one" }, [stage("one")]);
    for (const it of ["a", "b"]) fleet.change(it, { state: "Bound", resourceSnapshotName: "web-7-snapshot" });
    fleet.ready("a", "b");
    const before = [...fleet.bindings.values()];
    fleet.settle();
    expect(fleet.says("Succeeded")).toBe("True UpdateRunSucceeded");
    expect([...fleet.bindings.values()]).toEqual(before);
  });

  it("changes nothing before its state is Run, and nothing after it is over", () => {
    const fleet = new FakeWorld({ a: "one" }, [stage("one")]);
    fleet.setState("Initialize");
    fleet.settle();
    expect(fleet.says("Initialized")).toBe("True UpdateRunInitializedSuccessfully");
    expect(fleet.says("Progressing")).toBeUndefined();
    fleet.setState("Run");
    fleet.settle();
    fleet.ready("a");
    fleet.settle();
    const { status } = fleet.run;
    fleet.policy = policyOf("web", 1);
    fleet.setState("Stop");
    fleet.settle();
    expect(fleet.run.status).toEqual(status);
  });
});

it.each([
  ["the one that it names, before it is initialized", "Initialize", { resourceSnapshotIndex: "3" }, [3]],
  ["the one that was picked", "Run", {}, [7]],
] as const)("a run that is not over awaits a resource snapshot: %s", (_, state, spec, awaited) => {
  const fleet = new FakeWorld({ a: "one" }, [stage("one")]);
  Object.assign(fleet.run.spec, spec);
  if (state === "Run") fleet.settle();
  expect(indexAwaitedBy(fleet.run)).toEqual(awaited);
  fleet.object = undefined;
  fleet.settle();
  expect(indexAwaitedBy(fleet.run)).toEqual([]);
});

describe("a stage", () => {
  it("without clusters is skipped with its tasks", () => {
    const fleet = new FakeWorld({ d: "two" }, [
      stage("one", { afterStageTasks: [{ type: "Approval" }] }),
      stage("two"),
    ]);
    fleet.settle();
    expect(fleet.says("Succeeded", "one")).toBe("True StageUpdatingSkippedNoClusters");
    expect(fleet.stage("one").startTime).toBeUndefined();
    expect(fleet.approvals.size).toBe(0);
    expect(fleet.inFlight()).toEqual(["d"]);
  });

  it("says when it started, what it does, and when it ended", () => {
    const fleet = world();
    expect(fleet.says("Progressing", "one")).toBe("True StageUpdatingStarted");
    expect(fleet.stage("one").startTime).toBe("2026-01-01T00:00:00Z");
    expect(fleet.says("Started", "one", "a")).toBe("True ClusterUpdatingStarted");
    expect(fleet.says("Progressing", "two")).toBeUndefined();
    fleet.nowMs += MINUTE_MS;
    for (const it of ["a", "b", "c"]) {
      fleet.ready(it);
      fleet.settle();
    }
    expect(fleet.says("Progressing", "one")).toBe("False StageUpdatingSucceeded");
    expect(fleet.says("Succeeded", "one")).toBe("True StageUpdatingSucceeded");
    expect(fleet.stage("one").endTime).toBe("2026-01-01T00:01:00Z");
  });

  it("that waits for a cluster for more than 5 minutes makes the run stuck, until the cluster is done", () => {
    const fleet = world();
    expect(fleet.pass()?.wakeMs).toEqual([fleet.nowMs + 5 * MINUTE_MS]);
    fleet.nowMs += 5 * MINUTE_MS;
    fleet.settle();
    expect(fleet.says("Progressing")).toBe("False UpdateRunStuck");
    expect(findCondition(fleet.run.status?.conditions, "Progressing")?.message).toContain("for a;");
    fleet.ready("a");
    fleet.settle();
    expect(fleet.says("Progressing")).toBe("True UpdateRunProgressing");
  });
});

describe("tasks", () => {
  const approval = { beforeStageTasks: [{ type: "Approval" as const }] };

  it("before a stage let it start only when it is approved", () => {
    const fleet = world(approval);
    expect(fleet.inFlight()).toEqual([]);
    expect(fleet.says("Progressing")).toBe("False UpdateRunWaiting");
    expect(fleet.says("Progressing", "one")).toBe("False StageUpdatingWaiting");
    expect(fleet.stage("one").startTime).toBeUndefined();
    expect(fleet.approvals.get("run-before-one")).toEqual({
      metadata: {
        name: "run-before-one",
        labels: {
          "kubernetes-fleet.io/targetupdaterun": "run",
          "kubernetes-fleet.io/targetUpdatingStage": "one",
          "kubernetes-fleet.io/taskType": "beforeStage",
          "kubernetes-fleet.io/isLatestUpdateRunApproval": "true",
        },
      },
      spec: { parentStageRollout: "run", targetStage: "one" },
    });
    const [task] = fleet.stage("one").beforeStageTaskStatus ?? [];
    expect(task).toMatchObject({ type: "Approval", approvalRequestName: "run-before-one" });
    expect(task?.conditions).toMatchObject([
      { type: "ApprovalRequestCreated", status: "True", reason: "StageTaskApprovalRequestCreated" },
    ]);
    fleet.approve("run-before-one");
    fleet.settle();
    expect(fleet.inFlight()).toEqual(["a"]);
    expect(fleet.says("Progressing")).toBe("True UpdateRunProgressing");
    expect(fleet.stage("one").beforeStageTaskStatus?.[0]?.conditions).toMatchObject([
      { type: "ApprovalRequestCreated" },
      { type: "ApprovalRequestApproved", status: "True", reason: "StageTaskApprovalRequestApproved" },
    ]);
    expect(fleet.approvals.get("run-before-one")?.status?.conditions).toMatchObject([
      { type: "Approved" },
      { type: "ApprovalAccepted", status: "True" },
    ]);
  });

  it("after a stage hold the next one until both are done", () => {
    const fleet = world({
      maxConcurrency: "100%",
      afterStageTasks: [{ type: "Approval" }, { type: "TimedWait", waitTime: "1h" }],
    });
    fleet.ready("a", "b", "c");
    fleet.settle();
    expect(fleet.says("Progressing")).toBe("False UpdateRunWaiting");
    expect(fleet.approvals.get("run-after-one")?.metadata.labels?.["kubernetes-fleet.io/taskType"]).toBe(
      "afterStage",
    );
    expect(fleet.pass()?.wakeMs).toEqual([fleet.nowMs + 60 * MINUTE_MS]);
    fleet.approve("run-after-one");
    fleet.nowMs += 59 * MINUTE_MS;
    fleet.settle();
    expect(fleet.inFlight()).toEqual([]);
    fleet.nowMs += MINUTE_MS;
    fleet.settle();
    expect(fleet.inFlight()).toEqual(["d"]);
    expect(fleet.stage("one").afterStageTaskStatus?.[1]?.conditions).toMatchObject([
      { type: "WaitTimeElapsed", status: "True", reason: "AfterStageTaskWaitTimeElapsed" },
    ]);
  });

  it("wait from the end of the last cluster, also if the run was stopped in between", () => {
    const fleet = world({ maxConcurrency: 3, afterStageTasks: [{ type: "TimedWait", waitTime: "10m" }] });
    fleet.ready("a", "b", "c");
    fleet.settle();
    fleet.setState("Stop");
    fleet.nowMs += 10 * MINUTE_MS;
    fleet.settle();
    expect(fleet.says("Progressing")).toBe("False UpdateRunStopped");
    fleet.setState("Run");
    fleet.settle();
    expect(fleet.inFlight()).toEqual(["d"]);
  });

  it("are approved by a request that was made and approved before it was due", () => {
    const fleet = new FakeWorld({ a: "one" }, [stage("one", approval)]);
    fleet.approve("run-before-one");
    fleet.settle();
    expect(fleet.inFlight()).toEqual(["a"]);
  });

  it("stay approved when the approval is withdrawn or its request is deleted", () => {
    const fleet = world(approval);
    fleet.approve("run-before-one");
    fleet.settle();
    fleet.approvals.clear();
    fleet.setState("Stop");
    fleet.ready("a");
    fleet.settle();
    fleet.setState("Run");
    fleet.settle();
    expect(fleet.inFlight()).toEqual(["b"]);
    expect(fleet.approvals.size).toBe(0);
  });

  it("abort the run where the request of that name is for another run", () => {
    const fleet = new FakeWorld({ a: "one" }, [stage("one", approval)]);
    fleet.approve("run-before-one");
    fleet.approvals.set("run-before-one", {
      metadata: { name: "run-before-one" },
      spec: { parentStageRollout: "other", targetStage: "one" },
    });
    fleet.settle();
    expect(fleet.says("Succeeded")).toBe("False UpdateRunFailed");
    expect(fleet.inFlight()).toEqual([]);
  });
});

describe("stopping", () => {
  it("lets clusters that have started finish, and starts no others", () => {
    const fleet = world({ maxConcurrency: 2 });
    fleet.setState("Stop");
    fleet.settle();
    expect(fleet.says("Progressing")).toBe("Unknown UpdateRunStopping");
    expect(fleet.says("Progressing", "one")).toBe("Unknown StageUpdatingStopping");
    fleet.ready("a");
    fleet.settle();
    expect(fleet.inFlight()).toEqual(["b"]);
    fleet.ready("b");
    fleet.settle();
    expect(fleet.says("Progressing")).toBe("False UpdateRunStopped");
    expect(fleet.says("Progressing", "one")).toBe("False StageUpdatingStopped");
    expect(fleet.says("Succeeded")).toBeUndefined();
    fleet.setState("Run");
    fleet.settle();
    expect(fleet.inFlight()).toEqual(["c"]);
    expect(fleet.says("Progressing")).toBe("True UpdateRunProgressing");
  });
});

describe("the last stage", () => {
  it("removes the bindings of clusters that the placement has left, after all others", () => {
    const fleet = new FakeWorld({ a: "one", z: "one" }, [stage("one")]);
    fleet.change("z", { state: "Unscheduled" });
    fleet.settle();
    expect(fleet.stage(DELETE_STAGE).clusters).toEqual([{ clusterName: "z" }]);
    expect(fleet.bindings.has("z")).toBe(true);
    fleet.ready("a");
    fleet.settle();
    expect(fleet.bindings.has("z")).toBe(false);
    expect(fleet.says("Succeeded", DELETE_STAGE, "z")).toBe("True ClusterUpdatingSucceeded");
    expect(fleet.says("Succeeded", DELETE_STAGE)).toBe("True StageUpdatingSucceeded");
    expect(fleet.says("Succeeded")).toBe("True UpdateRunSucceeded");
  });
});

describe("a run is aborted for good when", () => {
  const causes: readonly [string, (fleet: FakeWorld) => void, RegExp][] = [
    ["the placement disappears", (it) => void (it.object = undefined), /does not exist/],
    ["the policy changes", (it) => void (it.policy = policyOf("web", 1)), /the policy changed/],
    [
      "the policy asks for more clusters",
      ({ policy }) =>
        void (policy !== undefined && (policy.spec.policy = { placementType: "PickN", numberOfClusters: 6 })),
      /asks for 6 clusters/,
    ],
    ["a cluster joins", (it) => it.join("f", { stage: "two" }), /joined the placement.*: f/],
    ["a cluster leaves", (it) => it.change("d", { state: "Unscheduled" }), /left the placement.*: d/],
    [
      "its cluster gets another snapshot",
      (it) => it.change("a", { resourceSnapshotName: "web-8-snapshot" }),
      /another update run/,
    ],
    [
      "its cluster gets other overrides",
      (it) => it.change("a", { clusterResourceOverrideSnapshots: ["x"] }),
      /another update run/,
    ],
    [
      "the placement is rolled out by itself",
      ({ object }) => void (object !== undefined && (object.spec.strategy = { type: "RollingUpdate" })),
      /not External/,
    ],
  ];
  it.each(causes)("%s", (_, happens, message) => {
    const fleet = world();
    happens(fleet);
    const before = [...fleet.bindings.values()];
    fleet.settle();
    expect(fleet.says("Succeeded")).toBe("False UpdateRunFailed");
    expect(fleet.says("Progressing")).toBe("False UpdateRunFailed");
    expect(fleet.says("Succeeded", "one")).toBe("False StageUpdatingFailed");
    expect(findCondition(fleet.run.status?.conditions, "Succeeded")?.message).toMatch(message);
    expect([...fleet.bindings.values()]).toEqual(before);
    fleet.ready("a");
    fleet.settle();
    expect(fleet.says("Succeeded", "one", "b")).toBeUndefined();
  });

  it("another run takes its binding: the cluster has failed", () => {
    const fleet = world();
    fleet.change("a", { resourceSnapshotName: "web-8-snapshot" });
    fleet.settle();
    expect(fleet.says("Succeeded", "one", "a")).toBe("False ClusterUpdatingFailed");
  });

  it("not while one latest policy snapshot takes the place of another", () => {
    const fleet = world();
    fleet.policy = undefined;
    fleet.ready("a");
    fleet.settle();
    expect(fleet.inFlight()).toEqual(["b"]);
  });

  it("not for what a cluster that is done gets afterwards", () => {
    const fleet = world();
    fleet.ready("a");
    fleet.settle();
    fleet.change("a", { resourceSnapshotName: "web-8-snapshot" });
    fleet.settle();
    expect(fleet.inFlight()).toEqual(["b"]);
  });

  it("not for an edited strategy: it was copied", () => {
    const fleet = world();
    fleet.strategy.spec.stages = [];
    fleet.ready("a");
    fleet.settle();
    expect(fleet.inFlight()).toEqual(["b"]);
  });
});

describe("deadlines", () => {
  it("let a cluster fail, and with it the stage and the run", () => {
    const fleet = world({ progressDeadline: "2m" });
    fleet.nowMs += 2 * MINUTE_MS;
    fleet.settle();
    expect(fleet.says("Succeeded", "one", "a")).toBe("False ClusterUpdatingFailed");
    expect(fleet.says("Succeeded", "one")).toBe("False StageUpdatingFailed");
    expect(fleet.says("Succeeded")).toBe("False UpdateRunFailed");
    expect(findCondition(fleet.run.status?.conditions, "Succeeded")?.message).toBe(
      "1 of 3 clusters of stage one failed: a",
    );
    expect(fleet.says("Started", "one", "b")).toBeUndefined();
  });

  it("let as many clusters fail as are tolerated", () => {
    const fleet = world({ progressDeadline: "2m", maxFailures: 1 });
    fleet.nowMs += 2 * MINUTE_MS;
    fleet.settle();
    expect(fleet.inFlight()).toEqual(["b"]);
    fleet.ready("b");
    fleet.settle();
    fleet.ready("c");
    fleet.settle();
    expect(fleet.inFlight()).toEqual(["d"]);
    expect(fleet.says("Succeeded", "one")).toBe("True StageUpdatingSucceeded");
  });

  it("give the place of a failed cluster to another one when the failure is in the status", () => {
    const fleet = world({ progressDeadline: "2m", maxFailures: 1 });
    fleet.ready("a");
    fleet.settle();
    fleet.nowMs += 2 * MINUTE_MS;
    // How far the clusters are is not written yet: after the crash, b has its time again.
    fleet.pass({ loses: true });
    fleet.settle();
    expect(fleet.inFlight()).toEqual(["b"]);
    expect(fleet.bindings.get("c")?.spec.state).toBe("Scheduled");
    fleet.nowMs += 2 * MINUTE_MS;
    fleet.settle();
    expect(fleet.inFlight()).toEqual(["c"]);
  });

  it("wait for clusters that are in flight before the stage has failed", () => {
    const fleet = world({ maxConcurrency: 2, progressDeadline: "2m" });
    fleet.nowMs += MINUTE_MS;
    fleet.ready("a");
    fleet.settle();
    expect(fleet.inFlight()).toEqual(["b", "c"]);
    fleet.nowMs += MINUTE_MS;
    fleet.settle();
    expect(fleet.inFlight()).toEqual(["c"]);
    expect(fleet.says("Succeeded", "one")).toBeUndefined();
    fleet.ready("c");
    fleet.settle();
    expect(fleet.says("Succeeded", "one", "c")).toBe("True ClusterUpdatingSucceeded");
    expect(fleet.says("Succeeded")).toBe("False UpdateRunFailed");
  });

  it("give the clusters of the failed stage back what they had, if asked to", () => {
    const fleet = new FakeWorld({ a: "one", b: "one", c: "one", d: "two" }, [
      stage("one", { maxConcurrency: 2, progressDeadline: "2m", onFailure: "Rollback" }),
      stage("two"),
    ]);
    for (const it of ["a", "c"]) fleet.change(it, { state: "Bound", resourceSnapshotName: "web-6-snapshot" });
    fleet.settle();
    fleet.ready("a");
    fleet.settle();
    fleet.nowMs += 2 * MINUTE_MS;
    fleet.settle();
    const snapshots = [...fleet.bindings.values()].map((it) => it.spec.resourceSnapshotName);
    expect(snapshots).toEqual(["web-6-snapshot", "web-7-snapshot", "web-6-snapshot", ""]);
    expect(fleet.says("RolledBack", "one", "a")).toBe("True ClusterRolledBack");
    expect(fleet.says("RolledBack", "one", "b")).toBe("False ClusterNotRolledBack");
    expect(fleet.says("Succeeded")).toBe("False UpdateRunFailed");
  });

  it.each([
    "{",
    "[]",
    '{"run":"uid-run"}',
    '{"run":"uid-other","version":{"resourceSnapshotName":"web-1-snapshot"}}',
  ])("leave a cluster alone whose binding does not say what it had: %s", (text) => {
    const fleet = new FakeWorld({ a: "one" }, [
      stage("one", { progressDeadline: "2m", onFailure: "Rollback" }),
    ]);
    fleet.change("a", { state: "Bound", resourceSnapshotName: "web-6-snapshot" });
    fleet.settle();
    const binding = fleet.bindings.get("a");
    if (binding !== undefined) binding.metadata.annotations = { "fairlead.dev/before-update-run": text };
    fleet.nowMs += 2 * MINUTE_MS;
    fleet.settle();
    expect(fleet.says("RolledBack", "one", "a")).toBe("False ClusterNotRolledBack");
    expect(fleet.bindings.get("a")?.spec.resourceSnapshotName).toBe("web-7-snapshot");
  });
});
