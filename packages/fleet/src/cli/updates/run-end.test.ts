import { describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { UPDATE_RUNS, type UpdateRun, type UpdateState } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { getRun } from "./actions.ts";
import { deleteRun, untilState } from "./run-end.ts";

const { signal } = new AbortController();
const KEY = objectKey(undefined, "june");

function hubWith(state: UpdateState): FakeKubeClient {
  const client = new FakeKubeClient();
  client.seed(UPDATE_RUNS, {
    metadata: { name: "june" },
    spec: { managedClusterUpdate: { upgrade: { type: "Full", kubernetesVersion: "1.34.1" } }, state: "Run" },
    status: { status: { state }, stages: [], failureCount: 0, attempt: 1 },
  });
  return client;
}

describe("an update run is deleted", () => {
  it.each(["NotStarted", "Stopped", "Failed", "Completed"] as const)("when it is %s", async (state) => {
    const client = hubWith(state);
    await deleteRun(client, await getRun(client, "june", signal), signal);
    expect(client.objects(UPDATE_RUNS)).toEqual([]);
  });

  it.each([
    ["Running", 'stop it first, with "fairlead updaterun stop june"'],
    ["Pending", 'stop it first, with "fairlead updaterun stop june"'],
    ["Stopping", 'wait until it is Stopped, with "fairlead updaterun wait june --for Stopped"'],
  ] as const)("never while it is %s", async (state, next) => {
    const client = hubWith(state);
    const run = await getRun(client, "june", signal);
    await expect(deleteRun(client, run, signal)).rejects.toMatchObject({
      code: "PRECONDITION_FAILED",
      message: `cannot delete run june: it is ${state}; ${next}`,
    });
    expect(client.objects(UPDATE_RUNS)).toHaveLength(1);
  });
});

describe("a wait for an update run", () => {
  const clock = new FakeClock();
  const deps = { ...systemDeps(silentLogger), clock };
  const wait = (client: FakeKubeClient, state?: UpdateState): Promise<UpdateRun> =>
    untilState(client, { name: "june", state, timeoutMs: 60_000 }, deps, signal);
  const become = (client: FakeKubeClient, state: UpdateState): Promise<UpdateRun> =>
    client.mergePatch(UPDATE_RUNS, KEY, { status: { status: { state } } }, { subresource: "status" });

  it("is over when the run has ended, or has the state", async () => {
    const client = hubWith("Running");
    const [ended, stopped] = [wait(client), wait(client, "Stopped")];
    await become(client, "Stopped");
    expect((await stopped).status?.status.state).toBe("Stopped");
    await become(client, "Completed");
    expect((await ended).status?.status.state).toBe("Completed");
  });

  it("fails when the run ends in another state, or is deleted", async () => {
    await expect(wait(hubWith("Completed"), "Stopped")).rejects.toThrow(
      "run june has ended as Completed, and cannot become Stopped",
    );
    const client = hubWith("Running");
    const ended = wait(client);
    await client.delete(UPDATE_RUNS, KEY, { signal });
    await expect(ended).rejects.toMatchObject({ code: "API_NOT_FOUND" });
  });

  it("fails after its time limit with the state that the run has", async () => {
    const client = hubWith("Pending");
    const over = wait(client, "Stopped");
    await expect.poll(() => client.reads.length).toBeGreaterThan(0);
    const error = over.catch((it: unknown) => it);
    await clock.advance(60_000);
    expect(await error).toMatchObject({
      code: "TIMED_OUT",
      message: expect.stringMatching(/^run june is Pending/) as string,
    });
  });
});
