import { describe, expect, it } from "vitest";
import type { ClusterUpgradeStatus, UpdateStage } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { UpdateWorld } from "./world.fake.ts";

const DAY_MS = 86_400_000;
const SECOND_MS = 1000;
const HEALTHY = { nodes: 3, readyNodes: 3, servicesWithoutEndpoints: 0 };

/** One stage of members a and b, one after another. */
function world(stage: Partial<UpdateStage> = {}): UpdateWorld {
  const it = new UpdateWorld();
  for (const name of ["a", "b"]) it.add(name, {}, { measurements: HEALTHY });
  it.request({ strategy: { stages: [{ name: "s", memberSelector: { byLabel: "" }, ...stage }] } });
  it.start();
  return it;
}

function measure(it: UpdateWorld, name: string, readyNodes: number): void {
  const cluster = it.clusters.get(name) as ClusterUpgradeStatus;
  it.clusters.set(name, { ...cluster, measurements: { ...HEALTHY, readyNodes } });
  it.settle();
}

describe("after the clock was set back by a day", () => {
  it("the wait after a stage takes as long as it is, and no longer", () => {
    const it = world({ afterStageWaitInSeconds: 600 });
    for (const name of ["a", "b"]) it.finish(name);
    it.later(-DAY_MS);
    it.later(599 * SECOND_MS);
    expect(it.state).toBe("Running");
    it.later(SECOND_MS);
    expect(it.state).toBe("Completed");
  });

  it("a member is watched as long as its stage says", () => {
    const it = world({ health: { watchSeconds: 300 } });
    it.finish("a");
    it.later(-DAY_MS);
    expect(it.member("a").message).toBe("upgraded; watched until 2026-11-22T12:05:00Z");
    it.later(300 * SECOND_MS);
    expect(it.states).toBe("a:Completed b:Running");
  });

  it("a fault is tolerated as long as its stage says", () => {
    const it = world({ health: { watchSeconds: 300, toleratedSeconds: 60 } });
    it.finish("a");
    measure(it, "a", 1);
    it.later(-DAY_MS);
    it.later(59 * SECOND_MS);
    expect(it.member("a").status.state).toBe("Running");
    it.later(SECOND_MS);
    expect(it.member("a").status.error).toMatchObject({ code: "Unhealthy" });
  });

  it("a rollback that does not end has failed after an hour", () => {
    const it = world({ health: { watchSeconds: 300, toleratedSeconds: 0, onFailure: "Rollback" } });
    it.finish("a");
    measure(it, "a", 1);
    expect(it.member("a").rollback).toMatchObject({ state: "Running" });
    it.later(-DAY_MS);
    it.later(3599 * SECOND_MS);
    expect(it.member("a").rollback).toMatchObject({ state: "Running" });
    it.later(SECOND_MS);
    expect(it.member("a").rollback).toMatchObject({ state: "Failed" });
  });

  it("a scheduled start is the next one from now", () => {
    const it = new UpdateWorld();
    it.add("a");
    it.nowMs += DAY_MS;
    const monday = { startDay: "Monday", startTime: "15:30", utcOffset: "Z" } as const;
    const gate = { displayName: "go", type: "ScheduledStart", scheduledStartConfiguration: monday } as const;
    const stage = { name: "s", memberSelector: { byLabel: "" }, beforeGates: [gate] };
    it.request({ strategy: { stages: [stage] } });
    it.start();
    expect(it.againAtMs).toBe(Date.parse("2026-11-30T15:30:00Z"));
    it.later(-DAY_MS);
    expect(it.againAtMs).toBe(Date.parse("2026-11-23T15:30:00Z"));
    it.later(3.5 * 3600 * SECOND_MS);
    expect(it.states).toBe("a:Running");
  });

  it("a maintenance window opens by the clock as it is", () => {
    const it = new UpdateWorld();
    it.add("a", { schedules: { kubernetes: "Monday 11:00Z 4h", nodeOS: undefined } });
    it.nowMs += DAY_MS;
    it.request({ strategy: { stages: [{ name: "s", memberSelector: { byLabel: "" } }] } });
    it.start();
    expect(it.member("a").message).toContain("opens at 2026-11-30T11:00:00Z");
    it.later(-DAY_MS);
    expect(it.states).toBe("a:Running");
  });

  it("what is over keeps its times, and a second pass changes nothing", () => {
    const it = world();
    it.finish("a");
    const { startTime, completedTime } = it.member("a").status;
    it.later(-DAY_MS);
    expect(it.member("a").status).toMatchObject({ startTime, completedTime });
    expect(it.member("b").status.startTime).toBe("2026-11-22T12:00:00Z");
    expect(it.pass()).toBe(false);
  });
});

describe.each([
  ["ahead", DAY_MS],
  ["back", -DAY_MS],
])("when the clock is set %s by a day while a run is looked at", (_, jumpMs) => {
  it("the wait after a stage takes the rest of its time, and the run shows how long it has taken", () => {
    const it = world({ afterStageWaitInSeconds: 600 });
    for (const name of ["a", "b"]) it.finish(name);
    it.later(300 * SECOND_MS);
    it.setClock(jumpMs);
    it.later(299 * SECOND_MS);
    expect(it.state).toBe("Running");
    it.later(SECOND_MS);
    expect(it.state).toBe("Completed");
    const { startTime = "", completedTime = "" } = it.status.status;
    expect(Date.parse(completedTime) - Date.parse(startTime)).toBe(600 * SECOND_MS);
  });

  it("a member is watched, a fault tolerated and a rollback awaited for the rest of the time", () => {
    const health = { watchSeconds: 300, toleratedSeconds: 60, onFailure: "Rollback" } as const;
    const it = world({ health });
    it.finish("a");
    it.later(200 * SECOND_MS);
    it.setClock(jumpMs);
    expect(it.member("a").status.state).toBe("Running");
    measure(it, "a", 1);
    it.later(30 * SECOND_MS);
    it.setClock(jumpMs);
    expect(it.member("a").rollback).toBeUndefined();
    it.later(30 * SECOND_MS);
    expect(it.member("a").rollback).toMatchObject({ state: "Running" });
    it.later(1800 * SECOND_MS);
    it.setClock(jumpMs);
    it.later(1799 * SECOND_MS);
    expect(it.member("a").rollback).toMatchObject({ state: "Running" });
    it.later(SECOND_MS);
    expect(it.member("a").rollback).toMatchObject({ state: "Failed" });
  });
});

it("a scheduled start and a maintenance window go by the time of day when the clock is set ahead", () => {
  const it = new UpdateWorld();
  it.add("a", { schedules: { kubernetes: "Tuesday 12:00Z 1h", nodeOS: undefined } });
  // It is Monday, 12:00.
  const scheduledStartConfiguration = {
    startDay: "Tuesday",
    startTime: "11:00",
    utcOffset: "+00:00",
  } as const;
  const gate = { displayName: "later", type: "ScheduledStart" as const, scheduledStartConfiguration };
  const stage = { name: "s", memberSelector: { byLabel: "" }, beforeGates: [gate] };
  it.request({ strategy: { stages: [stage] } });
  it.start();
  expect(it.states).toBe("a:NotStarted");
  it.setClock(DAY_MS);
  expect(it.states).toBe("a:Running");
});
