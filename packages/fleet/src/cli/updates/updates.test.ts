import { describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { VERSION } from "@fairlead/base/version.ts";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { objectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { NODE_AGENTS_CONDITION } from "#api/fairlead.dev/node-agents.ts";
import { CLUSTER_MESH_PROFILES } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import {
  AUTO_UPGRADE_PROFILES,
  CLUSTER_UPGRADES,
  GATES,
  RELEASE_CATALOGS,
  type StrategySpec,
  UPDATE_GROUP_LABEL,
  UPDATE_RUNS,
  type UpdateRun,
  type UpdateState,
  UPGRADE_SCHEDULE_ANNOTATION,
  UPGRADER_ANNOTATION,
} from "#api/fairlead.dev/v1alpha1/updates.ts";
import { VERSION_ANNOTATION } from "#api/fairlead.dev/names.ts";
import { hubSupportAnnotations } from "#domain/kubernetes-support.ts";
import { group, UpdateWorld } from "#updates/clusters/world.fake.ts";
import { draftOfProfile, getRun, parseTarget, preview, skipIn, startRun, stopRun } from "./actions.ts";
import { HUB_LEASE } from "../fleet/hub-program.ts";
import { followObject } from "../follow.ts";
import { draftRun, parseStages } from "./draft.ts";
import { approveGate, listGates, obstacleAfter } from "./gates.ts";
import { renderGates, renderPlan, renderRun, renderRuns } from "./render.ts";

const signal = new AbortController().signal;
const KEY = objectKey(undefined, "june");
const nowMs = Date.parse("2026-11-23T12:00:00Z");

const STRATEGY: StrategySpec = {
  stages: [
    {
      name: "canary",
      groups: [{ name: "eu" }],
      afterStageWaitInSeconds: 3600,
      afterGates: [{ displayName: "canary is fine", type: "Approval" }],
    },
    {
      name: "all",
      maxConcurrency: "2",
      groups: [{ name: "us", maxConcurrency: "2", maxAllowedFailures: "50%" }],
    },
  ],
};

/** A run whose canary stage has ended, but for its wait and its gate. */
function world(): UpdateWorld {
  const it = new UpdateWorld();
  group(it, "eu", ["member-1", "member-2"]);
  group(it, "us", ["member-3", "member-4"]);
  it.add("member-5");
  it.clusters.set("member-2", { kubernetesVersion: "1.34.1" });
  it.request({ strategy: STRATEGY });
  it.settle();
  it.start();
  it.nowMs += 300_000;
  it.finish("member-1");
  it.later(600_000);
  return it;
}

describe("a run is shown", () => {
  it("as a tree with states, times and reasons", async () => {
    const { run, nowMs: at } = world();
    await expect(renderRun(run, "text", at)).toMatchFileSnapshot("goldens/run-waiting.txt");
  });

  it("with what failed, and how it ended", async () => {
    const it = world();
    it.approve("canary is fine");
    it.later(3_600_000);
    it.finish("member-3", "Failed");
    it.finish("member-4");
    await expect(renderRun(it.run, "text", it.nowMs)).toMatchFileSnapshot("goldens/run-ended.txt");
  });

  it("with what was rolled back, and what was not", async () => {
    const it = new UpdateWorld();
    const health = { onFailure: "Rollback" as const };
    const groups = ["eu", "us", "ap"].map((name, at) => group(it, name, [`member-${at + 1}`]));
    it.request({ strategy: { stages: [{ name: "all", maxAllowedFailures: "3", groups, health }] } });
    for (const name of ["member-1", "member-2", "member-3"])
      it.clusters.set(name, { kubernetesVersion: "1.33.4", measurements: {} });
    it.start();
    it.nowMs += 60_000;
    for (const name of ["member-1", "member-2", "member-3"]) it.finish(name, "Failed");
    it.nowMs += 60_000;
    it.finish("member-1");
    it.finish("member-2", "Failed");
    await expect(renderRun(it.run, "text", it.nowMs)).toMatchFileSnapshot("goldens/run-rolled-back.txt");
  });

  it("with the version of our programs to which a member was rolled back", () => {
    const it = new UpdateWorld();
    const nodeAgents = { installed: "0.1.0", reason: "Installed", message: "0.1.0 on 2 nodes" };
    const profile = { name: "site", version: "0.1.0" };
    it.add("a", { group: "eu", profile, nodeAgents }, { measurements: {} });
    const stage = { name: "all", groups: [{ name: "eu" }], health: { onFailure: "Rollback" as const } };
    const upgrade = { type: "Components", componentsVersion: "0.1.5" } as const;
    it.request({ managedClusterUpdate: { upgrade }, strategy: { stages: [stage] } });
    it.start();
    it.agents("a", { installed: undefined, reason: "NotPermitted", message: "may not" });
    it.install("a");
    expect(renderRun(it.run, "text", it.nowMs)).toContain("a: Failed in 0s: may not; rolled back to 0.1.0");
  });

  it("in a list", () => {
    const { run } = world();
    expect(renderRuns([run], "text")).toBe(
      "NAME   TYPE   VERSION   STATE     OUTCOME   FAILURES\nrun    Full   1.34.1    Pending   -         0",
    );
    expect(renderRuns([], "text")).toBe("there are no update runs");
    expect(renderRuns([run], "name")).toBe("run");
  });
});

/** It says what it supports. */
function hubOfThisVersion(): FakeKubeClient {
  const client = new FakeKubeClient();
  const { namespace = "", name } = splitKey(HUB_LEASE);
  const annotations = { [VERSION_ANNOTATION]: VERSION, ...hubSupportAnnotations() };
  client.seed(LEASES, { metadata: { namespace, name, annotations } });
  return client;
}

describe("a plan", () => {
  function hub(): FakeKubeClient {
    const client = hubOfThisVersion();
    const add = (name: string, updateGroup: string, annotations: Record<string, string>): void =>
      client.seed(MEMBER_CLUSTERS, {
        metadata: { name, labels: { [UPDATE_GROUP_LABEL]: updateGroup }, annotations },
        spec: { identity: { kind: "User", name } },
      });
    const engine = { [UPGRADER_ANNOTATION]: "Job:upgrade" };
    add("member-1", "eu", engine);
    add("member-2", "eu", { ...engine, [UPGRADE_SCHEDULE_ANNOTATION]: "Sunday 02:00Z 4h" });
    add("member-3", "us", engine);
    add("member-4", "us", {});
    add("member-5", "other", engine);
    add("member-6", "us", engine);
    for (const [name, kubernetesVersion] of [
      ["member-1", "1.33.4"],
      ["member-2", "1.33.4"],
      ["member-3", "1.34.1"],
    ] as const)
      client.seed(CLUSTER_UPGRADES, {
        metadata: { namespace: `fleet-member-${name}`, name },
        spec: { engine: "Job:upgrade" },
        status: { kubernetesVersion, nodes: [] },
      });
    return client;
  }
  const draft = {
    upgradeType: "Full",
    kubernetesVersion: "1.34.1",
    componentsVersion: undefined,
    nodeImageSelection: undefined,
    nodeImageVersions: [],
    updateStrategyName: undefined,
    strategy: STRATEGY,
  } as const;

  it("shows members in their order, with what would become of each, and those in no group", async () => {
    const run = draftRun("june", draft);
    const result = await preview(hub(), run, nowMs, signal);
    await expect(renderPlan(run, result, "text")).toMatchFileSnapshot("goldens/plan.txt");
  });

  it("shows why a run cannot start", async () => {
    const run = draftRun("june", { ...draft, strategy: undefined, updateStrategyName: "none" });
    const text = renderPlan(run, await preview(hub(), run, nowMs, signal), "text");
    expect(text).toContain("cannot start: UpdateStrategy none does not exist");
  });

  it("is equal to what then happens", async () => {
    const it = new UpdateWorld();
    for (const name of ["a", "b", "c"]) it.add(name);
    it.clusters.set("b", { kubernetesVersion: "1.34.1" });
    it.clusters.set("c", { kubernetesVersion: "1.31.0" });
    const client = new FakeKubeClient();
    for (const name of it.members.keys()) {
      const metadata = { name, annotations: { [UPGRADER_ANNOTATION]: "Job:upgrade" } };
      client.seed(MEMBER_CLUSTERS, { metadata, spec: { identity: { kind: "User", name } } });
      const status = it.clusters.get(name) as { kubernetesVersion: string };
      const upgrade = {
        metadata: { namespace: `fleet-member-${name}`, name },
        spec: { engine: "Job:upgrade" },
      };
      client.seed(CLUSTER_UPGRADES, { ...upgrade, status });
    }
    const { verdicts } = await preview(client, it.run, it.nowMs, signal);
    it.start();
    it.finish("a");
    const became: Partial<Record<UpdateState, string>> = {
      Completed: "begins",
      Skipped: "is skipped",
      Failed: "fails",
    };
    for (const { name, status } of it.allMembers())
      expect(verdicts.get(name)).toContain(became[status.state] ?? "nothing");
  });

  const full = { ...draft, strategy: undefined };
  const programs = { ...full, upgradeType: "Components", kubernetesVersion: undefined } as const;
  const UNKNOWN = "waits: the state of the cluster is not known yet";
  const images = { ...full, kubernetesVersion: undefined, upgradeType: "NodeImageOnly" } as const;
  it.each([
    ["a version of Kubernetes", { ...full, kubernetesVersion: "1.33.9" }, "begins"],
    [
      "one that skips a minor version",
      { ...full, kubernetesVersion: "1.35.0" },
      "fails: an upgrade from 1.33.4",
    ],
    [
      "one that its programs do not support",
      { ...full, kubernetesVersion: "1.34.1" },
      "fails: fairlead member of a",
    ],
    [
      "the version that it has, of which its nodes are not known",
      { ...full, kubernetesVersion: "1.33.4" },
      UNKNOWN,
    ],
    ["node images, which are not known", images, UNKNOWN],
    ["a version of our programs", { ...programs, componentsVersion: "0.1.5" }, "begins"],
    ["a release that is not known", { ...programs, componentsVersion: "99.1.0" }, "fails: the hub, version "],
  ])("says before the first run of a member what becomes of it: %s", async (_what, wanted, verdict) => {
    const client = hubOfThisVersion();
    const observationTime = new Date(nowMs).toISOString();
    const properties = {
      "fairlead.dev/kubernetes-version": { value: "v1.33.4", observationTime },
      "fairlead.dev/member-support": { value: "0.1.0 for Kubernetes 1.25-1.33", observationTime },
    };
    const installed = {
      type: NODE_AGENTS_CONDITION,
      status: "True" as const,
      lastTransitionTime: observationTime,
      reason: "Installed",
      message: "0.1.0 on 2 nodes",
    };
    client.seed(MEMBER_CLUSTERS, {
      metadata: { name: "a", annotations: { [UPGRADER_ANNOTATION]: "Job:upgrade" } },
      spec: { identity: { kind: "User", name: "a" } },
      status: { properties, agentStatus: [{ type: "ServiceExportImportAgent", conditions: [installed] }] },
    });
    client.seed(CLUSTER_MESH_PROFILES, {
      metadata: { name: "site" },
      spec: { memberSelector: {}, network: { mode: "flat" }, version: "0.1.0" },
    });
    const { verdicts } = await preview(client, draftRun("june", wanted), nowMs, signal);
    expect(verdicts.get("a")).toContain(verdict);
  });

  it("is that which a profile would make now", async () => {
    const client = hub();
    const spec = { channel: "Rapid" } as const;
    client.seed(AUTO_UPGRADE_PROFILES, { metadata: { name: "rapid" }, spec });
    const of = (profile: string) => draftOfProfile(client, { name: "june", profile }, signal);
    await expect(of("none")).rejects.toThrow("there is no AutoUpgradeProfile none");
    await expect(of("rapid")).rejects.toThrow(
      "would make no run: the catalogs have no version of the channel",
    );
    const kubernetesVersions = [{ version: "1.34.2" }];
    client.seed(RELEASE_CATALOGS, { metadata: { name: "all" }, spec: { kubernetesVersions } });
    expect(await of("rapid")).toEqual({
      metadata: { name: "june" },
      spec: {
        autoUpgradeProfileName: "rapid",
        managedClusterUpdate: {
          upgrade: { type: "Full", kubernetesVersion: "1.34.2" },
          nodeImageSelection: { type: "Latest" },
        },
      },
    });
  });

  it("reads stages of a file, or of an UpdateStrategy in it", () => {
    expect(parseStages("stages: [{name: a}]", "f")).toEqual({ stages: [{ name: "a" }] });
    expect(parseStages('{"kind":"UpdateStrategy","spec":{"stages":[]}}', "f")).toEqual({ stages: [] });
    expect(() => parseStages("a: [", "f")).toThrow("--stages: f is not YAML or JSON");
    expect(() => parseStages("a: 1", "f")).toThrow('--stages: f has no list "stages"');
  });
});

describe("an action on a run", () => {
  function hubWith(state: UpdateState | undefined, spec: Partial<UpdateRun["spec"]> = {}): FakeKubeClient {
    const client = new FakeKubeClient();
    const it = world();
    const { status } = it;
    client.seed(UPDATE_RUNS, {
      metadata: { name: "june" },
      spec: { ...it.run.spec, ...spec },
      ...(state === undefined ? {} : { status: { ...status, status: { ...status.status, state } } }),
    });
    return client;
  }
  const run = (client: FakeKubeClient): Promise<UpdateRun> => getRun(client, "june", signal);

  it("starts one that was not started", async () => {
    const client = hubWith(undefined, { state: "Initialize" });
    expect((await startRun(client, await run(client), signal)).spec).toMatchObject({ state: "Run" });
    expect(client.objects(UPDATE_RUNS)[0]?.spec).not.toHaveProperty("attempt");
  });
  it.each(["Stopped", "Failed"] as const)("starts one that is %s, with another attempt", async (state) => {
    const client = hubWith(state, { state: "Stop", attempt: 3 });
    const { spec } = await startRun(client, await run(client), signal);
    expect([spec.state, spec.attempt]).toEqual(["Run", 4]);
  });
  it.each([
    [
      "start",
      "Running",
      'see "fairlead updaterun status june"; it can be stopped, and what has not begun can be skipped',
    ],
    [
      "resume",
      "Pending",
      'see "fairlead updaterun status june"; it can be stopped, and what has not begun can be skipped',
    ],
    ["resume", "Stopping", "it is Stopped when the members that are being upgraded have finished"],
    ["stop", "NotStarted", 'start it with "fairlead updaterun start june"'],
    ["stop", "Failed", 'continue it with "fairlead updaterun resume june"'],
    ["stop", "Completed", "it has ended; create another run"],
    ["resume", "Completed", "it has ended; create another run"],
    ["skip", "Stopped", 'continue it with "fairlead updaterun resume june"'],
    ["skip", "Completed", "it has ended; create another run"],
  ] as const)("%s of a run that is %s is refused: %s", async (word, state, instead) => {
    const client = hubWith(state);
    const seen = await run(client);
    const done =
      word === "stop"
        ? stopRun(client, seen, signal)
        : word === "skip"
          ? skipIn(client, seen, [parseTarget("Member:member-4")], signal)
          : startRun(client, seen, signal, word);
    await expect(done).rejects.toThrow(`cannot ${word} run june: it is ${state}; ${instead}`);
  });

  it.each([
    ["Member:member-1", "cannot skip Member member-1: it is Completed already"],
    ["Group:eu", "cannot skip Group eu: it is Completed already"],
    ["AfterStageWait:all", "stage all has no wait"],
    ["Member:member-3", "cannot skip Member member-3: it is being upgraded, and finishes"],
  ])("a skip of %s, of which nothing is left to skip, is refused", async (text, message) => {
    const it = world();
    it.skip({ type: "AfterStageWait", name: "canary" });
    it.approve("canary is fine");
    const client = new FakeKubeClient();
    client.seed(UPDATE_RUNS, { ...it.run, metadata: { name: "june" } });
    await expect(skipIn(client, await run(client), [parseTarget(text)], signal)).rejects.toThrow(message);
  });

  it("stops and skips", async () => {
    const client = hubWith("Running");
    const targets = ["member:member-4", "AfterStageWait:canary"].map(parseTarget);
    await skipIn(client, await run(client), targets, signal);
    await stopRun(client, await run(client), signal);
    expect((await run(client)).spec).toMatchObject({
      state: "Stop",
      skip: [
        { type: "Member", name: "member-4" },
        { type: "AfterStageWait", name: "canary" },
      ],
    });
  });
  it("of a target or run that does not exist is refused", async () => {
    const client = hubWith("Running");
    const skip = async (text: string) => skipIn(client, await run(client), [parseTarget(text)], signal);
    await expect(skip("Group:none")).rejects.toThrow("run june has no Group none");
    await expect(skip("none")).rejects.toThrow("is not TYPE:NAME");
    await expect(getRun(client, "july", signal)).rejects.toThrow(
      "there is no update run july; the hub has june",
    );
  });

  it("is followed until the run has ended", async () => {
    const client = hubWith("Running");
    const deps = { ...systemDeps(silentLogger), clock: new FakeClock() };
    const seen: (string | undefined)[] = [];
    const isOver = (it: UpdateRun): boolean => {
      seen.push(it.status?.status.state);
      return it.status?.status.state === "Completed";
    };
    const done = followObject(client, { of: UPDATE_RUNS, key: KEY }, isOver, { deps, signal });
    await expect.poll(() => seen).toEqual(["Running"]);
    const patch = { status: { status: { state: "Completed" } } };
    await client.mergePatch(UPDATE_RUNS, KEY, patch, { subresource: "status" });
    await done;
    expect(seen).toEqual(["Running", "Completed"]);
  });
});

describe("gates", () => {
  const hub = (): FakeKubeClient => {
    const client = new FakeKubeClient();
    for (const [name, run, state] of [
      ["aaaa-1", "june", "Pending"],
      ["aaab-1", "june", "Completed"],
      ["bbbb-1", "july", "Pending"],
    ] as const)
      client.seed(GATES, {
        metadata: { name },
        spec: {
          displayName: "go",
          gateType: "Approval",
          target: { id: "uid", updateRunProperties: { name: run, stage: "all", timing: "Before" } },
          state,
        },
      });
    return client;
  };

  it("are listed by run", async () => {
    const gates = await listGates(hub(), "june", signal);
    expect(renderGates(gates, "name")).toBe("aaaa-1\naaab-1");
    expect(renderGates(gates.slice(0, 1), "text")).toBe(
      "NAME     RUN    STAGE   GROUP   TIMING   TYPE       STATE     DISPLAY NAME\naaaa-1   june   all     -       Before   Approval   Pending   go",
    );
  });
  it("are approved by the beginning of their name", async () => {
    const client = hub();
    expect((await approveGate(client, "bb", signal)).spec.state).toBe("Completed");
  });
  it.each([
    ["aaa", "2 gates begin with aaa"],
    ["c", 'there is no gate c; pending are aaaa-1 ("go" of run june), bbbb-1 ("go" of run july)'],
    ["", "pass the name of a gate, or the beginning of it"],
    ["aaab", "gate aaab-1 is Completed already"],
  ])("%s is refused: %s", async (name, message) => {
    await expect(approveGate(hub(), name, signal)).rejects.toThrow(message);
  });
  it.each([
    ["Pending", undefined],
    ["Stopped", 'run june is Stopped: continue it with "fairlead updaterun resume june"'],
    ["Completed", "run june is Completed: it has ended; create another run"],
    [undefined, "its run june is gone"],
  ] as const)("approved while the run is %s: %s", async (state, expected) => {
    const client = hub();
    const status = { ...world().status, status: { state: state ?? "Completed" } };
    if (state !== undefined) client.seed(UPDATE_RUNS, { ...world().run, metadata: { name: "june" }, status });
    expect(await obstacleAfter(client, await approveGate(client, "aaaa", signal), signal)).toBe(expected);
  });
});
