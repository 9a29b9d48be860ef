import * as fc from "fast-check";
import { expect, it } from "vitest";
import type {
  StageConfig,
  StagedUpdateRunStatus,
} from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { concurrencyOf, tolerance } from "./amounts.ts";
import { isFinal, statusOf } from "./conditions.ts";
import { isReady } from "./binding.ts";
import { FakeWorld } from "./world.fake.ts";

/** Whatever happens in whatever order, and wherever the program ends: what must hold of every run. */

const STAGES = ["one", "two", "three"];
const CLUSTERS = ["a", "b", "c", "d", "e", "f", "g", "h"];

const amount = fc.option(fc.oneof(fc.integer({ min: 1, max: 4 }), fc.constantFrom("1%", "50%", "100%")), {
  nil: undefined,
});
const stage = (name: string): fc.Arbitrary<StageConfig> =>
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

const cluster = fc.constantFrom(...CLUSTERS);
const event: fc.Arbitrary<Event> = fc.oneof(
  { weight: 10, arbitrary: fc.constant({ is: "pass" as const }) },
  { weight: 8, arbitrary: cluster.map((it) => ({ is: "ready" as const, cluster: it })) },
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
  cluster.map((it) => ({ is: "steal" as const, cluster: it })),
  cluster.map((it) => ({ is: "leave" as const, cluster: it })),
  fc.constant({ is: "policy" as const }),
);

const scenario = fc.record({
  stages: fc.tuple(...STAGES.map(stage)),
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
      return void fleet.pass();
    case "crash":
      return void fleet.pass({ loses: true });
    case "approve":
      for (const name of fleet.approvals.keys()) fleet.approve(name);
      return;
    case "run":
      return fleet.setState("Run");
    case "stop":
      return fleet.setState("Stop");
    case "time":
      fleet.nowMs += it.minutes * 60_000;
      return;
    case "policy":
      if (fleet.policy !== undefined)
        fleet.policy.metadata.labels = { "kubernetes-fleet.io/policy-index": "1" };
      return;
    case "ready":
      if (fleet.bindings.get(it.cluster)?.spec.state === "Bound") fleet.ready(it.cluster);
      return;
    case "steal":
      return fleet.change(it.cluster, { state: "Bound", resourceSnapshotName: "web-9-snapshot" });
    case "leave":
      return fleet.change(it.cluster, { state: "Unscheduled" });
    default:
      it satisfies never;
  }
}

/** What holds of the bindings and the status after every event. */
function check(fleet: FakeWorld, before: StagedUpdateRunStatus | undefined): void {
  const { status } = fleet.run;
  if (before !== undefined && (isFinal(before) || statusOf(before, "Initialized") === "False"))
    expect(status).toEqual(before);
  const configs = status?.stagedUpdateStrategySnapshot?.stages ?? [];
  let isOpen = false;
  for (const [at, one] of (status?.stagesStatus ?? []).entries()) {
    const config = configs[at] ?? { name: "" };
    // A stage starts when those before it have succeeded.
    if (isOpen) expect(one.clusters.filter((it) => statusOf(it, "Started") !== undefined)).toEqual([]);
    isOpen ||= statusOf(one, "Succeeded") !== "True";
    const flying = one.clusters.filter((it) => statusOf(it, "Started") === "True" && !isFinal(it));
    expect(flying.length).toBeLessThanOrEqual(concurrencyOf(config.maxConcurrency, one.clusters.length));
    const failed = one.clusters.filter((it) => statusOf(it, "Succeeded") === "False");
    if (statusOf(one, "Succeeded") === "True")
      expect(failed.length).toBeLessThanOrEqual(tolerance(config.maxFailures, one.clusters.length));
    const was = before?.stagesStatus?.[at];
    for (const it of one.clusters) {
      const earlier = was?.clusters.find((other) => other.clusterName === it.clusterName);
      if (earlier !== undefined && isFinal(earlier))
        expect(statusOf(it, "Succeeded")).toBe(statusOf(earlier, "Succeeded"));
    }
  }
  if (isOpen) expect(statusOf(status, "Succeeded")).not.toBe("True");
}

/** What holds of the writes of a pass. */
function checkWrites(fleet: FakeWorld, versions: ReadonlyMap<string, string>): void {
  const { plan } = fleet;
  if (plan === undefined) return;
  const { stagesStatus = [], stagedUpdateStrategySnapshot } = fleet.run.status ?? {};
  const unready = [...fleet.bindings.values()].filter(
    (it) => it.spec.resourceSnapshotName === "web-7-snapshot" && !isReady(it),
  );
  for (const { binding, spec } of plan.bind) {
    // What has the snapshot of the run gets another one only when it goes back.
    if (spec.resourceSnapshotName === "web-7-snapshot")
      expect(versions.get(binding.spec.targetCluster)).not.toBe("web-7-snapshot");
    const at = stagesStatus.findIndex((one) =>
      one.clusters.some((it) => it.clusterName === binding.spec.targetCluster),
    );
    const one = stagesStatus[at];
    const max = concurrencyOf(
      stagedUpdateStrategySnapshot?.stages[at]?.maxConcurrency,
      one?.clusters.length ?? 0,
    );
    const names = new Set(one?.clusters.map((it) => it.clusterName));
    // Of those that this run made unready: members that report nothing else count, whatever the status lost.
    const started = unready.filter(
      (it) => names.has(it.spec.targetCluster) && !THERE.has(it.spec.targetCluster),
    );
    const failed = one?.clusters.filter((it) => statusOf(it, "Succeeded") === "False").length ?? 0;
    expect(started.length).toBeLessThanOrEqual(max + failed);
  }
  if (plan.remove.length > 0)
    expect(stagesStatus.every((it) => statusOf(it, "Succeeded") === "True")).toBe(true);
}

const THERE = new Set<string>();

it("never updates too many clusters, stages out of order or a cluster twice, and ends once, whatever happens", () => {
  const ends: Record<string, number> = {};
  fc.assert(
    fc.property(scenario, ({ stages, stageOf, there, leaving, events }) => {
      const clusters = Object.fromEntries(CLUSTERS.map((it, at) => [it, stageOf[at] ?? "one"]));
      const fleet = new FakeWorld(
        { ...clusters, ...Object.fromEntries(leaving.map((it) => [it, "one"])) },
        stages,
      );
      THERE.clear();
      for (const it of there) {
        THERE.add(it);
        fleet.change(it, { state: "Bound", resourceSnapshotName: "web-7-snapshot" });
      }
      for (const it of leaving) fleet.change(it, { state: "Unscheduled" });
      for (const it of events.flat()) {
        const before = fleet.run.status;
        const versions = new Map(
          [...fleet.bindings].map(([name, { spec }]) => [name, spec.resourceSnapshotName]),
        );
        fleet.plan = undefined;
        act(fleet, it);
        check(fleet, before);
        checkWrites(fleet, versions);
      }
      const end = fleet.says("Succeeded") ?? fleet.says("Progressing") ?? "not started";
      ends[end] = (ends[end] ?? 0) + 1;
    }),
    { numRuns: 150 },
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
      const patient = stages.map(({ progressDeadline: _, ...it }) => it);
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
        CLUSTERS.map(() => "web-7-snapshot"),
      );
    }),
    { numRuns: 150 },
  );
});
