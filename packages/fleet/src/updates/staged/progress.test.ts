import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import { describe, expect, it } from "vitest";
import type {
  ClusterUpdatingStatus,
  StagedUpdateRunStatus,
  StageUpdatingStatus,
} from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { clustersOf, isProgressOnly } from "./progress.ts";

function condition(type: string, value: Condition["status"]): Condition {
  return { type, status: value, reason: type, message: "", lastTransitionTime: "2026-01-01T00:00:00Z" };
}
function cluster(clusterName: string, ...conditions: Condition[]): ClusterUpdatingStatus {
  return { clusterName, conditions };
}
function status(
  clusters: ClusterUpdatingStatus[],
  stage: Partial<StageUpdatingStatus> = {},
  rest: StagedUpdateRunStatus = {},
): StagedUpdateRunStatus {
  return { stagesStatus: [{ stageName: "one", clusters, ...stage }], ...rest };
}
const STARTED = condition("Started", "True");
const DONE = condition("Succeeded", "True");
const FAILED = condition("Succeeded", "False");
const before = status([cluster("a", STARTED), cluster("b")]);

describe("a status of a staged run says only how far it is", () => {
  it.each([
    ["clusters are started", status([cluster("a", STARTED), cluster("b", STARTED)])],
    ["clusters are done", status([cluster("a", STARTED, DONE), cluster("b", STARTED)])],
  ])("where %s", (_, after) => {
    expect(isProgressOnly(before, after)).toBe(true);
  });
});
describe("a status of a staged run says more", () => {
  it.each([
    ["a cluster has failed", status([cluster("a", STARTED, FAILED), cluster("b")])],
    ["a cluster is there, or not", status([cluster("a", STARTED)])],
    ["the stage is done", status([cluster("a", STARTED), cluster("b")], { conditions: [DONE] })],
    ["the stage began", status([cluster("a", STARTED), cluster("b")], { startTime: "2026-01-01T00:00:00Z" })],
    [
      "a task of the stage is done",
      status([cluster("a", STARTED), cluster("b")], {
        afterStageTaskStatus: [{ type: "TimedWait", conditions: [DONE] }],
      }),
    ],
    [
      "the run waits",
      status([cluster("a", STARTED), cluster("b")], {}, { conditions: [condition("Progressing", "False")] }),
    ],
    [
      "there is a last stage",
      status(
        [cluster("a", STARTED), cluster("b")],
        {},
        { deletionStageStatus: { stageName: "d", clusters: [] } },
      ),
    ],
  ])("where %s", (_, after) => {
    expect(isProgressOnly(before, after)).toBe(false);
  });
  it("with each cluster of a stage in which one has failed", () => {
    const failed = cluster("a", STARTED, FAILED);
    expect(
      isProgressOnly(status([failed, cluster("b", STARTED)]), status([failed, cluster("b", STARTED, DONE)])),
    ).toBe(false);
  });
});

it("has the clusters of all stages, the last one too", () => {
  const last = { stageName: "d", clusters: [cluster("c")] };
  expect(clustersOf({ ...before, deletionStageStatus: last })).toBe(3);
  expect(clustersOf({})).toBe(0);
});
