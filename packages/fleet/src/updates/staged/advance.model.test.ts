import * as fc from "fast-check";
import { expect, it } from "vitest";
import { POLICY_INDEX_LABEL } from "#api/placement.kubernetes-fleet.io/names.ts";
import type {
  StageConfig,
  StagedUpdateRunStatus,
  StageUpdatingStatus,
} from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { concurrencyOf, tolerance } from "./amounts.ts";
import { isFinal, statusOf } from "./conditions.ts";
import { isReady } from "./binding.ts";
import { FakeWorld } from "./world.fake.ts";

/** Whatever happens in whatever order, and wherever the program ends: what must hold of every run. */

const STAGES = ["one", "two", "three"];
const SNAPSHOT = "web-7-snapshot";
const CLUSTERS = ["a", "b", "c", "d", "e", "f", "g", "h"];

const amount = fc.option(fc.oneof(fc.integer({ min: 1, max: 4 }), fc.constantFrom("1%", "50%", "100%")), {
  nil: undefined,
});
const anyStage = (name: string): fc.Arbitrary<StageConfig> =>
  fc
    .record({
      maxConcurrency: amount,
      isApprovedBefore: fc.boolean(),
      isApprovedAfter: fc.boolean(),
      waits: fc.boolean(),
      deadline: fc.boolean(),
      maxFailures: fc.integer({ min: 0, max: 2 }),
      onFailure: fc.constantFrom("Stop" as const, "Rollback" as const),
    })
    .map((it) => ({
      name,
      labelSelector: { matchLabels: { stage: name } },
      ...(it.maxConcurrency === undefined ? {} : { maxConcurrency: it.maxConcurrency }),
      ...(it.isApprovedBefore ? { beforeStageTasks: [{ type: "Approval" as const }] } : {}),
      afterStageTasks: [
        ...(it.isApprovedAfter ? [{ type: "Approval" as const }] : []),
        ...(it.waits ? [{ type: "TimedWait" as const, waitTime: "1m" }] : []),
      ],
      ...(it.deadline
        ? { progressDeadline: "3m", maxFailures: it.maxFailures, onFailure: it.onFailure }
        : {}),
    }));

type Event =
  | { readonly is: "pass" | "crash" | "approve" | "run" | "stop" | "policy" }
  | { readonly is: "time"; readonly minutes: number }
  | { readonly is: "ready" | "steal" | "leave"; readonly cluster: string };

const anyCluster = fc.constantFrom(...CLUSTERS);
const event: fc.Arbitrary<Event> = fc.oneof(
  { weight: 10, arbitrary: fc.constant({ is: "pass" as const }) },
  { weight: 8, arbitrary: anyCluster.map((it) => ({ is: "ready" as const, cluster: it })) },
  {
    weight: 4,
    arbitrary: fc.constantFrom({ is: "crash" as const }, { is: "approve" as const }, { is: "run" as const }),
  },
  {
    weight: 2,
    arbitrary: fc.integer({ min: 1, max: 6 }).map((minutes) => ({ is: "time" as const, minutes })),
  },
  { weight: 1, arbitrary: fc.constant({ is: "stop" as const }) },
);
/** Those that abort a run: few, so that most sequences get far. */
const blow: fc.Arbitrary<Event> = fc.oneof(
  anyCluster.map((it) => ({ is: "steal" as const, cluster: it })),
  anyCluster.map((it) => ({ is: "leave" as const, cluster: it })),
  fc.constant({ is: "policy" as const }),
);

const scenario = fc.record({
  stages: fc.tuple(...STAGES.map(anyStage)),
  stageOf: fc.array(fc.constantFrom(...STAGES), { minLength: CLUSTERS.length, maxLength: CLUSTERS.length }),
  /** Clusters that have the snapshot of the run already, and those of them that are ready. */
  there: fc.subarray(CLUSTERS),
  leaving: fc.subarray(["x", "y"]),
  events: fc.tuple(
    fc.array(event, { maxLength: 120, size: "max" }),
    fc.array(blow, { maxLength: 1 }),
    fc.array(event, { maxLength: 40 }),
  ),
});

function act(fleet: FakeWorld, it: Event): void {
  switch (it.is) {
    case "pass":
    case "crash":
      return void fleet.pass({ loses: it.is === "crash" });
    case "approve":
      for (const name of fleet.approvals.keys()) fleet.approve(name);
      return;
    case "run":
    case "stop":
      return fleet.setState(it.is === "run" ? "Run" : "Stop");
    case "time":
      fleet.nowMs += it.minutes * 60_000;
      return;
    case "policy":
      if (fleet.policy !== undefined) fleet.policy.metadata.labels = { [POLICY_INDEX_LABEL]: "1" };
      return;
    default:
      return actOn(fleet, it);
  }
}

function actOn(fleet: FakeWorld, { is, cluster: name }: Extract<Event, { cluster: string }>): void {
  if (is === "steal") fleet.change(name, { state: "Bound", resourceSnapshotName: "web-9-snapshot" });
  else if (is === "leave") fleet.change(name, { state: "Unscheduled" });
  else if (fleet.bindings.get(name)?.spec.state === "Bound") fleet.ready(name);
}

type Stage = readonly [status: StageUpdatingStatus, config: StageConfig];

function stagesOf(fleet: FakeWorld): Stage[] {
  const { stagesStatus = [], stagedUpdateStrategySnapshot } = fleet.run.status ?? {};
  return stagesStatus.map((it, at) => [it, stagedUpdateStrategySnapshot?.stages[at] ?? { name: "" }]);
}

const failures = ([{ clusters }]: Stage): number =>
  clusters.filter((it) => statusOf(it, "Succeeded") === "False").length;

/** What holds of the status after every event. */
function check(fleet: FakeWorld, before: StagedUpdateRunStatus | undefined): void {
  const { status } = fleet.run;
  if (before !== undefined && (isFinal(before) || statusOf(before, "Initialized") === "False"))
    expect(status).toEqual(before);
  const stages = stagesOf(fleet);
  const open = stages.findIndex(([it]) => statusOf(it, "Succeeded") !== "True");
  // A stage starts when those before it have succeeded.
  for (const [it] of stages.slice(open < 0 ? stages.length : open + 1))
    expect(it.clusters.filter((cluster) => statusOf(cluster, "Started") !== undefined)).toEqual([]);
  if (open >= 0) expect(statusOf(status, "Succeeded")).not.toBe("True");
  for (const stage of stages) checkStage(stage);
  for (const was of (before?.stagesStatus ?? []).flatMap((it) => it.clusters.filter(isFinal))) {
    const now = stages.flatMap(([it]) => it.clusters).find((it) => it.clusterName === was.clusterName);
    expect(statusOf(now, "Succeeded")).toBe(statusOf(was, "Succeeded"));
  }
}

function checkStage(stage: Stage): void {
  const [{ clusters }, config] = stage;
  const flying = clusters.filter((it) => statusOf(it, "Started") === "True" && !isFinal(it));
  expect(flying.length).toBeLessThanOrEqual(concurrencyOf(config.maxConcurrency, clusters.length));
  if (statusOf(stage[0], "Succeeded") === "True")
    expect(failures(stage)).toBeLessThanOrEqual(tolerance(config.maxFailures, clusters.length));
}

/** What holds of the writes of a pass, whether or not it wrote its status. @param there - Clusters that had the snapshot before. */
function checkWrites(
  fleet: FakeWorld,
  versions: ReadonlyMap<string, string>,
  there: ReadonlySet<string>,
): void {
  const { plan } = fleet;
  if (plan === undefined) return;
  for (const { binding, spec } of plan.bind)
    // What has the snapshot of the run gets another one only when it goes back.
    if (spec.resourceSnapshotName === SNAPSHOT)
      expect(versions.get(binding.spec.targetCluster)).not.toBe(SNAPSHOT);
  // What is taken from a cluster that was ready is not in progress.
  const unready = [...fleet.bindings.values()].flatMap((it) =>
    it.spec.state === "Bound" && it.spec.resourceSnapshotName === SNAPSHOT && !isReady(it)
      ? [it.spec.targetCluster]
      : [],
  );
  for (const stage of stagesOf(fleet)) {
    const [{ clusters }, config] = stage;
    const own = new Set(clusters.map((it) => it.clusterName));
    // Members report nothing else than that they are ready: these are the clusters that the run keeps busy.
    const busy = unready.filter((it) => own.has(it) && !there.has(it));
    expect(busy.length).toBeLessThanOrEqual(
      concurrencyOf(config.maxConcurrency, clusters.length) + failures(stage),
    );
  }
  if (plan.remove.length > 0)
    expect(plan.status.stagesStatus?.every((it) => statusOf(it, "Succeeded") === "True")).toBe(true);
}

it("never updates too many clusters, stages out of order or a cluster twice, and ends once, whatever happens", () => {
  const ends: Record<string, number> = {};
  fc.assert(
    fc.property(scenario, ({ stages, stageOf, there, leaving, events }) => {
      const clusters = Object.fromEntries(CLUSTERS.map((it, at) => [it, stageOf[at] ?? "one"]));
      const fleet = new FakeWorld(
        { ...clusters, ...Object.fromEntries(leaving.map((it) => [it, "one"])) },
        stages,
      );
      for (const it of there) fleet.change(it, { state: "Bound", resourceSnapshotName: SNAPSHOT });
      for (const it of leaving) fleet.change(it, { state: "Unscheduled" });
      for (const it of events.flat()) {
        const before = it.is === "crash" ? fleet.written : fleet.run.status;
        const versions = new Map(
          [...fleet.bindings].map(([name, { spec }]) => [name, spec.resourceSnapshotName]),
        );
        fleet.plan = undefined;
        act(fleet, it);
        check(fleet, before);
        checkWrites(fleet, versions, new Set(there));
      }
      const end = fleet.says("Succeeded") ?? fleet.says("Progressing") ?? "not started";
      ends[end] = (ends[end] ?? 0) + 1;
    }),
    { numRuns: 300 },
  );
  // The sequences reach what they are about.
  expect(Object.keys(ends)).toEqual(
    expect.arrayContaining(["True UpdateRunSucceeded", "False UpdateRunFailed", "False UpdateRunWaiting"]),
  );
});

it("succeeds after any sequence that does not abort it, when members report, users approve and time passes", () => {
  fc.assert(
    fc.property(scenario, ({ stages, stageOf, events }) => {
      const clusters = Object.fromEntries(CLUSTERS.map((it, at) => [it, stageOf[at] ?? "one"]));
      const patient = stages.map(({ progressDeadline: _deadline, ...it }) => it);
      const fleet = new FakeWorld(clusters, patient);
      for (const it of events[0]) act(fleet, it);
      fleet.setState("Run");
      for (let round = 0; round < 40 && fleet.says("Succeeded") === undefined; round += 1) {
        for (const it of [
          ...CLUSTERS.map((name) => ({ is: "ready" as const, cluster: name })),
          { is: "approve" as const },
        ])
          act(fleet, it);
        fleet.nowMs += 60_000;
        fleet.settle();
      }
      expect(fleet.says("Succeeded")).toBe("True UpdateRunSucceeded");
      expect([...fleet.bindings.values()].map((it) => it.spec.resourceSnapshotName)).toEqual(
        CLUSTERS.map(() => SNAPSHOT),
      );
    }),
    { numRuns: 150 },
  );
});
