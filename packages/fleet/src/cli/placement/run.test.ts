import { describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import {
  CLUSTER_APPROVAL_REQUESTS,
  CLUSTER_STAGED_UPDATE_RUNS,
  type StageConfig,
} from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { isApproved } from "#updates/staged/approvals.ts";
import { FakeWorld, START_MS } from "#updates/staged/world.fake.ts";
import { approveOnHub, renderApproval } from "./approve.ts";
import { followRunOnHub, renderRun, type RunReport, runOnHub } from "./run.ts";

const { signal } = new AbortController();
const STAGES: StageConfig[] = ["canary", "rest"].map((name) => ({
  name,
  labelSelector: { matchLabels: { stage: name } },
  afterStageTasks: [{ type: "Approval" }],
}));

function world(): FakeWorld {
  const fleet = new FakeWorld({ a: "canary", b: "rest", c: "rest", gone: "rest" }, STAGES);
  fleet.change("gone", { state: "Unscheduled" });
  fleet.settle();
  return fleet;
}

function hubWith(fleet: FakeWorld): FakeKubeClient {
  const hub = new FakeKubeClient(new FakeClock(START_MS));
  const { uid: _uid, ...metadata } = fleet.run.metadata;
  hub.seed(CLUSTER_STAGED_UPDATE_RUNS, { ...fleet.run, metadata });
  return hub;
}
const of = { name: "run", namespace: undefined };

describe("placement run", () => {
  it("shows stages and clusters, with times and what is waited for", async () => {
    const fleet = world();
    fleet.nowMs += 42_000;
    fleet.ready("a");
    fleet.settle();
    const text = renderRun(await runOnHub(hubWith(fleet), of, signal), fleet.nowMs);
    await expect(text).toMatchFileSnapshot("goldens/run.txt");
  });

  it("follows a run until it is over", async () => {
    const fleet = world();
    const hub = hubWith(fleet);
    const deps = { ...systemDeps(silentLogger), clock: new FakeClock(START_MS) };
    const seen: (string | undefined)[] = [];
    const show = ({ status }: RunReport): void => void seen.push(status.conditions?.at(-1)?.reason);
    const done = followRunOnHub(hub, of, show, { deps, signal });
    await expect.poll(() => seen).toEqual(["UpdateRunProgressing"]);
    const conditions = [
      {
        type: "Succeeded",
        status: "True",
        reason: "UpdateRunSucceeded",
        message: "",
        lastTransitionTime: "",
      },
    ];
    await hub.mergePatch(
      CLUSTER_STAGED_UPDATE_RUNS,
      objectKey(undefined, "run"),
      { status: { conditions } },
      { subresource: "status" },
    );
    await done;
    expect(seen).toEqual(["UpdateRunProgressing", "UpdateRunSucceeded"]);
  });

  it("says that a run has no status yet", async () => {
    const fleet = new FakeWorld({}, STAGES);
    const text = renderRun(await runOnHub(hubWith(fleet), of, signal), 0);
    expect(text).toBe(
      'ClusterStagedUpdateRun run: placement web; it has no status yet: is "fairlead hub" running?',
    );
  });

  it("says what to give for a run that is not there", async () => {
    const hub = hubWith(world());
    await expect(runOnHub(hub, { ...of, name: "other" }, signal)).rejects.toThrow(
      "ClusterStagedUpdateRun other does not exist; for a StagedUpdateRun give --namespace",
    );
  });
});

describe("placement approve", () => {
  const question = { ...of, stage: "canary", timing: "after" as const, nowMs: START_MS };

  it("approves a stage, before or after the run asks for it", async () => {
    const hub = hubWith(world());
    const ahead = await approveOnHub(hub, question, signal);
    expect(renderApproval(ahead)).toBe(
      "approval request run-after-canary is approved; the run has not reached the stage yet",
    );
    expect(isApproved(await hub.get(CLUSTER_APPROVAL_REQUESTS, objectKey(undefined, ahead.name)))).toBe(true);
    expect(await approveOnHub(hub, question, signal)).toEqual({ ...ahead, outcome: "unchanged" });
  });

  it("refuses a stage that the run does not have", async () => {
    await expect(approveOnHub(hubWith(world()), { ...question, stage: "canry" }, signal)).rejects.toThrow(
      "run run has no stage canry; its stages are canary, rest",
    );
  });
});
