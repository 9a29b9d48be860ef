import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { createMetrics } from "@fairlead/base/metrics.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  CLUSTER_RESOURCE_PLACEMENTS,
  type Placement,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { CLUSTER_STAGED_UPDATE_RUNS } from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { fakeMember } from "#placement/scheduling/cluster.fake.ts";
import { condition } from "#placement/rollout/binding.fake.ts";
import { FakeWorld } from "#updates/staged/world.fake.ts";
import { WorkMetrics } from "#member/work/metrics.ts";
import { createPlacementInformers } from "./informers.ts";
import {
  approvalLatencies,
  createPlacementMetrics,
  evictionSample,
  placementSample,
  stageDurations,
} from "./metrics.ts";
import { Cycles } from "./scheduler/cycles.ts";

const placement = (...conditions: readonly string[]): Placement => ({
  metadata: { name: "web", generation: 2 },
  spec: { resourceSelectors: [] },
  status: { conditions: conditions.map(condition) },
});
const DONE = ["Scheduled", "RolloutStarted", "Overridden", "WorkSynchronized", "Applied", "Available"];

it.each<[what: string, of: Placement, series: readonly string[]]>([
  ["nothing was reported", placement(), ["Scheduled", "nil", "nil"]],
  ["clusters are missing", placement("Scheduled=False U"), ["Scheduled", "False", "U"]],
  [
    "a step is open",
    placement("Scheduled=True S", "RolloutStarted=Unknown R"),
    ["RolloutStarted", "Unknown", "R"],
  ],
  ["a condition is of an earlier generation", placement("Scheduled=True S ^"), ["Scheduled", "nil", "nil"]],
  ["all is done", placement(...DONE.map((it) => `${it}=True R`)), ["Completed", "True", "Completed"]],
])("a placement where %s has a series of that condition", (_, of, series) => {
  const { conditionType, status, reason, ...labels } = placementSample(of, "").labels;
  expect([conditionType, status, reason]).toEqual(series);
  expect(labels).toEqual({ namespace: "", name: "web", generation: "2" });
});

it.each([
  [[], "false", "unknown"],
  [["Valid=False I"], "true", "false"],
  [["Valid=True V"], "false", "unknown"],
  [["Valid=True V", "Executed=False N"], "true", "true"],
])("an eviction with %j is complete: %s, and valid: %s", (conditions, isCompleted, isValid) => {
  const eviction = {
    metadata: { name: "e" },
    spec: { placementName: "web", clusterName: "a" },
    status: { conditions: conditions.map(condition) },
  };
  expect(evictionSample(eviction).labels).toEqual({ name: "e", isCompleted, isValid });
});

it("a stage and an approval of a run are measured once", () => {
  const fleet = new FakeWorld({ a: "one" }, [
    { name: "one", labelSelector: {}, afterStageTasks: [{ type: "Approval" }] },
  ]);
  fleet.settle();
  const started = fleet.run;
  fleet.nowMs += 30_000;
  fleet.ready("a");
  fleet.settle();
  const updated = fleet.run;
  fleet.nowMs += 120_000;
  fleet.approve("run-after-one");
  fleet.settle();
  expect([stageDurations(started, updated), stageDurations(updated, fleet.run)]).toEqual([[30], []]);
  expect(approvalLatencies(started, updated)).toEqual([]);
  expect(approvalLatencies(updated, fleet.run)).toEqual([{ taskType: "afterStage", seconds: 120 }]);
  expect(approvalLatencies(fleet.run, fleet.run)).toEqual([]);
});

it("hub and member serve the metrics of the reference, and no series of what is gone", async () => {
  const metrics = createMetrics();
  const clock = new FakeClock();
  const deps = { ...systemDeps(silentLogger, metrics), clock };
  const hub = new FakeKubeClient(clock);
  const fleet = new FakeWorld({ a: "one" }, [{ name: "one", labelSelector: {} }]);
  fleet.settle();
  hub.seed(CLUSTER_RESOURCE_PLACEMENTS, placement("Scheduled=False U"));
  hub.seed(CLUSTER_STAGED_UPDATE_RUNS, fleet.run);
  hub.seed(MEMBER_CLUSTERS, fakeMember("a"));
  const informers = createPlacementInformers(hub, deps);
  const members = createInformer(hub, MEMBER_CLUSTERS, {}, deps);
  const { signal } = new AbortController();
  for (const it of [informers.cluster.placements, informers.cluster.runs, members]) {
    it.start(signal);
    await it.synced(signal);
  }
  await new Cycles(deps).measure(Promise.resolve({}));
  new WorkMetrics(metrics).count({ conditions: [condition("Applied=True A")], manifestConditions: [] });
  const serving = createPlacementMetrics(informers, members, deps);
  const text = await metrics.render();
  expect(text).toContain('conditionType="ClusterResourcePlacementScheduled",status="nil",reason="nil"} ');
  expect(text).toContain(
    'name="run",state="Run",condition="Progressing",status="True",reason="UpdateRunProgressing",failureType="none"}',
  );
  expect(text).toContain('apply_status="A",availability_status="Skipped",diff_reporting_status="Skipped"} 1');
  const page = readFileSync(new URL("../../../../../docs/reference/metrics.md", import.meta.url), "utf8");
  const [, section = ""] = page.split("## Of placements and update runs\n");
  const documented = [...(section.split("\n## ")[0] ?? "").matchAll(/^\| `([a-z_]+)` \| ([^|]*)\|/gm)];
  const served = [...text.matchAll(/^# TYPE (\S+)/gm)].map((it) => it[1] ?? "");
  expect(served.toSorted()).toEqual(documented.map((it) => it[1] ?? "").toSorted());
  serving[Symbol.dispose]();
  expect(await metrics.render()).not.toContain("conditionType=");
});
