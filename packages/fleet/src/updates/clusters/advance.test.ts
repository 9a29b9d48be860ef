import { describe, expect, it } from "vitest";
import type { StrategySpec, UpdateState } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { ALLOWED_ACTIONS, TRANSITIONS } from "./states.ts";
import { group, UpdateWorld } from "./world.fake.ts";

/** Stages "one" with group g1 (a, b, c) and "two" with group g2 (d, e). */
function twoStages(change: (strategy: StrategySpec) => void = () => {}): UpdateWorld {
  const world = new UpdateWorld();
  const strategy: StrategySpec = {
    stages: [
      { name: "one", groups: [group(world, "g1", ["a", "b", "c"])] },
      { name: "two", groups: [group(world, "g2", ["d", "e"])] },
    ],
  };
  change(strategy);
  world.request({ strategy });
  world.settle();
  return world;
}
const stage = (strategy: StrategySpec, at = 0) => {
  const found = strategy.stages[at];
  if (found === undefined) throw new Error(`no stage ${at}`);
  return found;
};

describe("a run", () => {
  it("that was not started is planned only, with its members in their order", () => {
    const world = twoStages();
    expect(world.state).toBe("NotStarted");
    expect(world.states).toBe("a:NotStarted b:NotStarted c:NotStarted d:NotStarted e:NotStarted");
  });

  it("upgrades stages one after another, and members of a group one after another", () => {
    const world = twoStages();
    world.start();
    const seen: string[] = [];
    for (const name of ["a", "b", "c", "d", "e"]) {
      seen.push(world.states.replaceAll(/:(.)\w*/g, ":$1"));
      expect(world.state).toBe("Running");
      world.finish(name);
    }
    expect(seen).toEqual([
      "a:R b:N c:N d:N e:N",
      "a:C b:R c:N d:N e:N",
      "a:C b:C c:R d:N e:N",
      "a:C b:C c:C d:R e:N",
      "a:C b:C c:C d:C e:R",
    ]);
    expect(world.state).toBe("Completed");
    expect(world.status).toMatchObject({ outcome: "Succeeded", counts: { Completed: 5 }, failureCount: 0 });
  });

  it("without a strategy upgrades all members one after another, in one stage and one group", () => {
    const world = new UpdateWorld();
    for (const it of ["m10", "m2", "m1"]) world.add(it);
    world.start();
    expect(world.states).toBe("m1:Running m2:NotStarted m10:NotStarted");
    expect(world.status.stages).toHaveLength(1);
  });

  it("upgrades groups of a stage in parallel", () => {
    const world = new UpdateWorld();
    const groups = [group(world, "g1", ["a", "b"]), group(world, "g2", ["c", "d"])];
    world.request({ strategy: { stages: [{ name: "one", groups }] } });
    world.start();
    expect(world.states).toBe("a:Running b:NotStarted c:Running d:NotStarted");
  });

  it("copies its UpdateStrategy when it is seen first: later changes do not reach it", () => {
    const world = new UpdateWorld();
    world.strategy = { stages: [{ name: "one", groups: [group(world, "g1", ["a"])] }] };
    world.request({ updateStrategyName: "s" });
    world.settle();
    world.strategy = { stages: [{ name: "other", groups: [group(world, "g2", ["b"])] }] };
    world.start();
    expect(world.states).toBe("a:Running");
  });

  it("may be given another strategy until it starts", () => {
    const world = twoStages();
    world.request({ strategy: { stages: [{ name: "x", groups: [{ name: "g2" }] }] } });
    world.start();
    expect(world.states).toBe("d:Running e:NotStarted");
  });

  it("does not start with a strategy that cannot be carried out, and says why", () => {
    const world = new UpdateWorld();
    world.request({ updateStrategyName: "missing", state: "Run" });
    world.settle();
    expect(world.status.status).toEqual({
      state: "NotStarted",
      error: { code: "StrategyInvalid", message: "UpdateStrategy missing does not exist" },
    });
  });

  it("keeps its members when others join, and reports those in no group", () => {
    const world = twoStages();
    world.add("z");
    world.settle();
    expect(world.status.membersInNoGroup).toEqual(["z"]);
    world.start();
    world.add("y", { group: "g1" });
    world.settle();
    expect(world.states).not.toContain("y:");
  });

  it("passes over a member that has left, and fails one that leaves during its upgrade", () => {
    const world = twoStages((it) => (stage(it).maxAllowedFailures = "2"));
    stage(world.run.spec.strategy ?? { stages: [] }).groups = [{ name: "g1", maxAllowedFailures: "2" }];
    world.start();
    world.members.delete("a");
    world.members.delete("b");
    world.settle();
    expect(world.states).toMatch(/^a:Failed b:Skipped c:Running/);
  });
});

describe("states and actions", () => {
  const reached: Readonly<Record<UpdateState, () => UpdateWorld>> = {
    NotStarted: () => twoStages(),
    Running: () => started(),
    Pending: () => {
      const world = twoStages((it) => (stage(it).beforeGates = [{ displayName: "go", type: "Approval" }]));
      world.start();
      return world;
    },
    Stopping: () => {
      const world = started();
      world.request({ state: "Stop" });
      world.settle();
      return world;
    },
    Stopped: () => {
      const world = reached.Stopping();
      world.finish("a");
      return world;
    },
    Failed: () => {
      const world = started();
      world.finish("a", "Failed");
      return world;
    },
    Skipped: () => {
      const world = reached.Pending();
      world.skip({ type: "Stage", name: "one" }, { type: "Stage", name: "two" });
      return world;
    },
    Completed: () => {
      const world = started();
      for (const it of ["a", "b", "c", "d", "e"]) world.finish(it);
      return world;
    },
  };
  const started = (): UpdateWorld => {
    const world = twoStages();
    world.start();
    return world;
  };

  it.each(Object.keys(reached) as UpdateState[])("reaches %s", (state) => {
    expect(reached[state]().state).toBe(state);
  });

  it.each(["NotStarted", "Stopped", "Failed"] as const)("start in %s runs it", (state) => {
    expect(ALLOWED_ACTIONS[state]).toContain("start");
    const world = reached[state]();
    world.request({ state: "Run", attempt: 2 });
    world.settle();
    expect(world.state).toBe("Running");
  });

  it.each(["Completed", "Skipped"] as const)(
    "%s is final: a later start, stop and skip change nothing",
    (state) => {
      expect(ALLOWED_ACTIONS[state]).toEqual([]);
      expect(TRANSITIONS[state]).toEqual([]);
      const world = reached[state]();
      const before = world.states;
      world.request({ state: "Run", attempt: 7, skip: [{ type: "Stage", name: "two" }] });
      world.settle();
      world.request({ state: "Stop" });
      world.settle();
      expect([world.state, world.states]).toEqual([state, before]);
    },
  );

  it("Running stops by way of Stopping: members that are being upgraded finish, and no other is begun", () => {
    const world = reached.Stopping();
    expect(world.states).toMatch(/^a:Running b:NotStarted/);
    world.finish("a");
    expect(world.state).toBe("Stopped");
    expect(world.states).toMatch(/^a:Completed b:NotStarted/);
  });

  it("Pending stops at once, and continues where it was", () => {
    const world = reached.Pending();
    world.request({ state: "Stop" });
    world.settle();
    expect(world.state).toBe("Stopped");
    world.approve("go");
    expect(world.state).toBe("Stopped");
    world.start();
    expect(world.states).toMatch(/^a:Running/);
  });

  it("Failed starts again with the member that failed, and keeps what is done", () => {
    const world = started();
    world.finish("a");
    world.finish("b", "Failed");
    expect(world.state).toBe("Failed");
    expect(world.status).toMatchObject({ outcome: "Failed", failureCount: 1 });
    world.request({ attempt: 2 });
    world.settle();
    expect(world.states).toMatch(/^a:Completed b:Running c:NotStarted/);
    expect(world.member("b").operationId).toBe("uid-2");
    expect(world.status).not.toHaveProperty("outcome");
    for (const it of ["b", "c", "d", "e"]) world.finish(it);
    expect(world.status).toMatchObject({ outcome: "Succeeded", failureCount: 0 });
  });

  it("Stopped may become Failed when it starts again", () => {
    const world = reached.Stopped();
    world.start();
    world.finish("b", "Failed");
    expect(world.state).toBe("Failed");
  });

  it("of a member that waits let the next one try, and the group is Pending when all wait", () => {
    const world = twoStages();
    world.clusters.set("a", { problem: "the cluster does not answer" });
    world.start();
    expect(world.states).toMatch(/^a:Pending b:Running c:NotStarted/);
    expect(world.member("a").message).toBe("the cluster does not answer");
    world.finish("b");
    world.finish("c");
    expect(world.stageStates).toEqual(["Pending", "NotStarted"]);
    expect(world.state).toBe("Pending");
  });
});

describe("a failure", () => {
  it("of one member stops the run by default: what is in flight finishes, and the run is Failed", () => {
    const world = twoStages((it) => (stage(it).groups = [{ name: "g1", maxConcurrency: "2" }]));
    world.start();
    world.finish("a", "Failed");
    expect(world.state).toBe("Stopping");
    expect(world.states).toMatch(/^a:Failed b:Running c:NotStarted/);
    world.finish("b");
    expect(world.state).toBe("Failed");
    expect(world.states).toBe("a:Failed b:Completed c:NotStarted d:NotStarted e:NotStarted");
    expect(world.member("a").status.error).toEqual({ code: "UpgradeFailed", message: "node does not boot" });
  });

  it("within the limits of group and stage does not stop it, and the outcome tells", () => {
    const world = twoStages((it) =>
      Object.assign(stage(it), {
        maxAllowedFailures: "1",
        groups: [{ name: "g1", maxAllowedFailures: "1" }],
      }),
    );
    world.start();
    world.finish("a", "Failed");
    for (const it of ["b", "c", "d", "e"]) world.finish(it);
    expect(world.state).toBe("Completed");
    expect(world.status).toMatchObject({
      outcome: "CompletedWithFailures",
      failureCount: 1,
      counts: { Completed: 4, Failed: 1 },
    });
  });

  it("of all members, within the limits, is Completed with the outcome Failed", () => {
    const world = twoStages((it) => {
      it.stages = [
        { ...stage(it), maxAllowedFailures: "100%", groups: [{ name: "g1", maxAllowedFailures: "100%" }] },
      ];
    });
    world.start();
    for (const it of ["a", "b", "c"]) world.finish(it, "Failed");
    expect([world.state, world.status.outcome]).toEqual(["Completed", "Failed"]);
  });

  it("above the limit of a group stops that group only; the stage then fails", () => {
    const world = new UpdateWorld();
    const groups = [group(world, "g1", ["a", "b"]), group(world, "g2", ["c", "d"])];
    world.request({ strategy: { stages: [{ name: "one", groups, maxAllowedFailures: "5" }] } });
    world.start();
    world.finish("a", "Failed");
    expect(world.states).toBe("a:Failed b:NotStarted c:Running d:NotStarted");
    world.finish("c");
    expect(world.states).toBe("a:Failed b:NotStarted c:Completed d:Running");
    world.finish("d");
    expect(world.status.status.error?.message).toBe("stage one: group g1: 1 members failed, 0 may fail");
    expect(world.state).toBe("Failed");
  });

  it("above the limit of a stage stops all its groups", () => {
    const world = new UpdateWorld();
    const groups = [
      { ...group(world, "g1", ["a", "b"]), maxAllowedFailures: "2" },
      { ...group(world, "g2", ["c", "d"]), maxAllowedFailures: "2" },
    ];
    world.request({ strategy: { stages: [{ name: "one", groups }] } });
    world.start();
    world.finish("a", "Failed");
    expect(world.state).toBe("Stopping");
    world.finish("c", "Failed");
    expect(world.states).toBe("a:Failed b:NotStarted c:Failed d:NotStarted");
    expect(world.status).toMatchObject({ failureCount: 2, stages: [{ failureCount: 2 }] });
  });

  it("is what a success is that did not reach the target", () => {
    const world = twoStages();
    world.clusters.set("a", {
      kubernetesVersion: "1.33.4",
      nodes: [{ name: "n1", kubernetesVersion: "1.33.4", ready: true }],
    });
    world.start();
    const id = world.member("a").operationId ?? "";
    world.clusters.set("a", {
      kubernetesVersion: "1.34.1",
      nodes: [{ name: "n1", kubernetesVersion: "1.33.4", ready: true }],
      operation: { id, state: "Succeeded" },
    });
    world.settle();
    expect(world.member("a").status.error).toEqual({
      code: "TargetNotReached",
      message: "the engine reports success, but node n1 has version 1.33.4",
    });
  });

  it("waits for the report of a member whose engine reports for itself, and fails after a minute without it", () => {
    const ended = (reports: boolean) => {
      const world = new UpdateWorld();
      world.add("a", { upgrader: "External" });
      world.start();
      const operation = { id: world.member("a").operationId ?? "", state: "Succeeded" as const };
      world.clusters.set("a", { kubernetesVersion: "1.33.4", nodes: [], operation });
      world.settle();
      expect(world.states).toBe("a:Running");
      expect(world.againAtMs).toBe(world.nowMs + 60_000);
      if (reports) world.clusters.set("a", { kubernetesVersion: "1.34.1", nodes: [], operation });
      world.later(reports ? 1000 : 60_000);
      return world.member("a").status;
    };
    expect(ended(true)).toMatchObject({ state: "Completed" });
    expect(ended(false)).toMatchObject({ state: "Failed", error: { code: "TargetNotReached" } });
  });
});

describe("skip", () => {
  it("of a member passes it over; one that is being upgraded finishes", () => {
    const world = twoStages();
    world.start();
    world.skip({ type: "Member", name: "a" }, { type: "Member", name: "b" });
    expect(world.states).toMatch(/^a:Running b:Skipped c:NotStarted/);
    world.finish("a");
    expect(world.states).toMatch(/^a:Completed b:Skipped c:Running/);
  });

  it("of a group skips its members and gates", () => {
    const world = twoStages((it) => {
      stage(it, 1).groups = [{ name: "g2", beforeGates: [{ displayName: "go", type: "Approval" }] }];
    });
    world.start();
    world.skip({ type: "Group", name: "g2" });
    expect(world.stageStates).toEqual(["Running", "Skipped"]);
    expect(world.status.stages[1]?.groups[0]?.beforeGates?.[0]?.status.state).toBe("Skipped");
  });

  it("of a stage skips its wait and its gates", () => {
    const world = twoStages((it) =>
      Object.assign(stage(it, 1), {
        afterStageWaitInSeconds: 60,
        afterGates: [{ displayName: "after", type: "Approval" }],
      }),
    );
    world.start();
    world.skip({ type: "Stage", name: "two" });
    const [, two] = world.status.stages;
    expect([
      two?.status.state,
      two?.afterStageWaitStatus?.status.state,
      two?.afterGates?.[0]?.status.state,
    ]).toEqual(["Skipped", "Skipped", "Skipped"]);
    for (const it of ["a", "b", "c"]) world.finish(it);
    expect([world.state, world.status.outcome]).toEqual(["Completed", "Succeeded"]);
  });

  it("of a wait ends it at once; it is named by its stage", () => {
    const world = twoStages((it) => (stage(it).afterStageWaitInSeconds = 3600));
    world.start();
    for (const it of ["a", "b", "c"]) world.finish(it);
    expect(world.stageStates).toEqual(["Running", "NotStarted"]);
    world.skip({ type: "AfterStageWait", name: "one" });
    expect(world.states).toMatch(/d:Running/);
  });
});

describe("waits and gates", () => {
  it("after a stage begin together, and both have to end", () => {
    const world = twoStages((it) =>
      Object.assign(stage(it), {
        afterStageWaitInSeconds: 600,
        afterGates: [{ displayName: "checked", type: "Approval" }],
      }),
    );
    world.start();
    for (const it of ["a", "b", "c"]) world.finish(it);
    const [one] = world.status.stages;
    expect([one?.afterStageWaitStatus?.status.state, one?.afterGates?.[0]?.status.state]).toEqual([
      "Running",
      "Pending",
    ]);
    expect(world.againAtMs).toBe(world.nowMs + 600_000);
    world.later(600_000);
    expect(world.stageStates).toEqual(["Pending", "NotStarted"]);
    world.approve("checked");
    expect(world.stageStates).toEqual(["Completed", "Running"]);
  });

  it("an approval alone does not end the wait", () => {
    const world = twoStages((it) =>
      Object.assign(stage(it), {
        afterStageWaitInSeconds: 600,
        afterGates: [{ displayName: "checked", type: "Approval" }],
      }),
    );
    world.start();
    for (const it of ["a", "b", "c"]) world.finish(it);
    world.approve("checked");
    expect(world.stageStates).toEqual(["Running", "NotStarted"]);
    world.later(599_000);
    expect(world.stageStates).toEqual(["Running", "NotStarted"]);
    world.later(1000);
    expect(world.stageStates).toEqual(["Completed", "Running"]);
  });

  it("a wait keeps counting while the run is stopped", () => {
    const world = twoStages((it) => (stage(it).afterStageWaitInSeconds = 600));
    world.start();
    for (const it of ["a", "b", "c"]) world.finish(it);
    world.request({ state: "Stop" });
    world.settle();
    expect(world.status.stages[0]?.afterStageWaitStatus?.status.state).toBe("Stopped");
    world.later(700_000);
    world.start();
    expect(world.stageStates).toEqual(["Completed", "Running"]);
  });

  it("before a group hold that group alone", () => {
    const world = new UpdateWorld();
    const gate = { displayName: "go", type: "Approval" as const };
    const groups = [{ ...group(world, "g1", ["a"]), beforeGates: [gate] }, group(world, "g2", ["b"])];
    world.request({ strategy: { stages: [{ name: "one", groups }] } });
    world.start();
    expect(world.states).toBe("a:NotStarted b:Running");
    expect(world.status.stages[0]?.groups[0]?.status.state).toBe("Pending");
    world.approve("go");
    expect(world.states).toBe("a:Running b:Running");
  });

  it("after a group hold the stage", () => {
    const world = twoStages((it) => {
      stage(it).groups = [{ name: "g1", afterGates: [{ displayName: "ok", type: "Approval" }] }];
    });
    world.start();
    for (const it of ["a", "b", "c"]) world.finish(it);
    expect(world.state).toBe("Pending");
    world.approve("ok");
    expect(world.states).toMatch(/d:Running/);
  });

  it("a gate is made when it is reached, so that it cannot be approved before", () => {
    const world = twoStages((it) => (stage(it, 1).beforeGates = [{ displayName: "go", type: "Approval" }]));
    world.start();
    expect(world.gates.size).toBe(0);
    for (const it of ["a", "b", "c"]) world.finish(it);
    const [[id, spec] = []] = world.gates;
    expect(id).toMatch(/^[\da-f]{8}-[\da-f]{4}-8[\da-f]{3}-a[\da-f]{3}-[\da-f]{12}$/);
    expect(spec).toEqual({
      displayName: "go",
      gateType: "Approval",
      state: "Pending",
      target: { id: "uid", updateRunProperties: { name: "run", stage: "two", timing: "Before" } },
    });
  });

  const monday = {
    displayName: "monday",
    type: "ScheduledStart" as const,
    scheduledStartConfiguration: { startDay: "Monday" as const, startTime: "15:30", utcOffset: "+01:00" },
  };

  it("a scheduled start completes by itself when its time comes next, and the Gate tells when", () => {
    const world = twoStages((it) => (stage(it).beforeGates = [monday]));
    world.start();
    const dueMs = Date.parse("2026-11-23T14:30:00Z");
    expect([...world.gates.values()].map((it) => it.scheduledStartTime)).toEqual(["2026-11-23T14:30:00Z"]);
    expect(world.againAtMs).toBe(dueMs);
    world.later(dueMs - world.nowMs - 1000);
    expect(world.state).toBe("Pending");
    world.later(1000);
    expect(world.states).toMatch(/^a:Running/);
    expect([...world.gates.values()].map((it) => it.state)).toEqual(["Completed"]);
  });

  it("a scheduled start completes by hand as well", () => {
    const world = twoStages((it) => (stage(it).beforeGates = [monday]));
    world.start();
    world.approve("monday");
    expect(world.states).toMatch(/^a:Running/);
  });
});
