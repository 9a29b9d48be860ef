import { describe, expect, it } from "vitest";
import type { StrategySpec } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { componentsVersionOf } from "#domain/components.ts";
import type { HubSupport } from "#domain/kubernetes-support.ts";
import type { UpdateMember } from "./fleet.ts";
import { endedOperations } from "./needs.ts";
import { previewRun } from "./preview.ts";
import { UpdateWorld } from "./world.fake.ts";

const MINUTE = 60_000;

function runs(version: string): UpdateMember["nodeAgents"] {
  return { installed: version, reason: "Installed", message: `${version} on 2 nodes` };
}

/** Members whose profile "site" has version 0.1.0, and a run of type Components to 0.1.5, or another version. */
function worldOf(
  names: readonly string[],
  version = "0.1.5",
  member: Partial<UpdateMember> = {},
): UpdateWorld {
  const world = new UpdateWorld();
  for (const name of names)
    world.add(name, {
      upgrader: undefined,
      group: name,
      profile: { name: "site", version: "0.1.0" },
      nodeAgents: runs("0.1.0"),
      ...member,
    });
  world.request({
    managedClusterUpdate: { upgrade: { type: "Components", componentsVersion: version } },
  });
  return world;
}

function verdictOf(world: UpdateWorld): string | undefined {
  const { verdicts } = previewRun(world.run, undefined, {
    nowMs: world.nowMs,
    members: world.members,
    observe: (name) => world.observe(name),
    gateState: () => undefined,
    catalogs: world.catalogs,
    hub: world.hub,
  });
  return verdicts.get("a");
}

const STAGED: StrategySpec = {
  stages: [
    { name: "one", groups: [{ name: "a" }], afterGates: [{ displayName: "fine", type: "Approval" }] },
    { name: "two", groups: [{ name: "b" }] },
  ],
};

describe("a run of type Components", () => {
  it("pins the version in one member after another, through stages and gates, without an engine", () => {
    const world = worldOf(["a", "b"]);
    world.request({ strategy: STAGED });
    world.start();
    expect([...world.pins]).toEqual([
      ["a", { operation: "uid-1", version: "0.1.5", profile: "site", over: "0.1.0" }],
    ]);
    world.agents("a", { installed: undefined, reason: "Installing", message: "installing 0.1.5: 0 of 2" });
    expect(world.member("a")).toMatchObject({ message: "installing 0.1.5: 0 of 2" });
    world.install("a");
    expect(world.states).toBe("a:Completed b:NotStarted");
    expect(world.pins.has("b")).toBe(false);
    world.approve("fine");
    world.install("b");
    expect(world.status.outcome).toBe("Succeeded");
  });

  it("does not take the word of a member for it that runs the former version still", () => {
    const world = worldOf(["a"]);
    world.start();
    world.later(MINUTE);
    expect(world.states).toBe("a:Running");
  });

  it("leads back to an older version as to a newer one", () => {
    const world = worldOf(["a"], "0.1.0", {
      profile: { name: "site", version: "0.1.5" },
      nodeAgents: runs("0.1.5"),
    });
    world.start();
    world.install("a");
    expect(world.state).toBe("Completed");
    expect(world.pins.get("a")?.version).toBe("0.1.0");
  });

  it.each<[what: string, member: Partial<UpdateMember>, message: string]>([
    ["is in no profile", { profile: undefined }, "the member belongs to no ClusterMeshProfile"],
    [
      "has the version",
      { nodeAgents: runs("0.1.5"), profile: { name: "site", version: "0.1.5" } },
      "already",
    ],
  ])("passes over a member that %s", (_what, member, message) => {
    const world = worldOf(["a"], "0.1.5", member);
    expect(verdictOf(world)).toContain(`is skipped: `);
    world.start();
    expect(world.member("a").status.state).toBe("Skipped");
    expect(world.member("a").message).toContain(message);
  });

  const other = {
    reason: "InstalledOtherwise",
    message: "DaemonSet of Helm release site",
    installed: undefined,
  };
  it.each<[what: string, member: Partial<UpdateMember>, code: string, message: string]>([
    ["installs no agents", { nodeAgents: undefined }, "NotInstalled", "run fairlead join with --node-agents"],
    ["has agents of Helm", { nodeAgents: other }, "InstalledOtherwise", "DaemonSet of Helm release site"],
  ])("fails a member that %s, before anything changes", (_what, member, code, message) => {
    const world = worldOf(["a"], "0.1.5", member);
    expect(verdictOf(world)).toContain(`fails: `);
    world.start();
    expect(world.member("a").status.error?.code).toBe(code);
    expect(world.member("a").status.error?.message).toContain(message);
    expect(world.pins.size).toBe(0);
  });
});

describe("a version of our programs", () => {
  it.each<
    [what: string, version: string, prepare: (world: UpdateWorld) => void, code: string, message: string]
  >([
    [
      "whose release is not known",
      "0.2.0",
      (world) => (world.hub = hubThat([{ version: "0.1", kubernetes: { from: "1.25", to: "1.36" } }])),
      "ReleaseUnknown",
      "the hub, version 0.1.0, does not know which versions of Kubernetes fairlead node 0.2.0 supports: upgrade the hub first",
    ],
    [
      "that does not support the API server",
      "0.1.5",
      (world) => world.add("a", worldOf(["a"]).members.get("a"), { kubernetesVersion: "1.24.17" }),
      "NotSupported",
      "fairlead node 0.1.5 supports Kubernetes 1.25 to 1.36; the API server of a has 1.24.17",
    ],
    [
      "that does not support one of the nodes",
      "0.1.5",
      (world) =>
        world.add("a", worldOf(["a"]).members.get("a"), {
          nodes: [{ name: "n1", kubernetesVersion: "1.24.3", ready: true }],
        }),
      "NotSupported",
      "fairlead node 0.1.5 supports Kubernetes 1.25 to 1.36; node n1 of a has 1.24.3",
    ],
    [
      "of which a catalog says that it does not support the cluster",
      "0.1.5",
      (world) => (world.catalogs = [catalog("0.1.5", "1.25", "1.32")]),
      "NotSupported",
      "fairlead node 0.1.5 supports Kubernetes 1.25 to 1.32; the API server of a has 1.33.4",
    ],
    [
      "that is two minor versions from that of another member of the profile",
      "0.3.0",
      (world) => {
        world.catalogs = [catalog("0.3.0", "1.25", "1.40")];
        world.add("z", {
          profile: { name: "site", version: "0.1.0" },
          programs: [{ program: "member", version: "0.1.0", kubernetes: { from: "1.25", to: "1.36" } }],
        });
      },
      "VersionSkipsMinor",
      "fairlead member of z, in the same profile, has version 0.1.0, more than one minor version from 0.3.0",
    ],
  ])(
    "%s is refused with the reason, in the plan and by the run",
    (...[, version, prepare, code, message]) => {
      const world = worldOf(["a"], version);
      prepare(world);
      expect(verdictOf(world)).toContain(`fails: ${message}`);
      world.start();
      expect(world.member("a").status.error?.code).toBe(code);
      expect(world.member("a").status.error?.message).toContain(message);
      expect(world.pins.size).toBe(0);
      expect(world.state).toBe("Failed");
    },
  );

  it("is judged by the releases that the hub knows, not by those that are known here", () => {
    const world = worldOf(["a"], "0.2.0");
    world.hub = hubThat([{ version: "0.2", kubernetes: { from: "1.30", to: "1.38" } }]);
    expect(verdictOf(world)).toBe("begins");
    world.hub = hubThat([{ version: "0.2", kubernetes: { from: "1.36", to: "1.38" } }]);
    expect(verdictOf(world)).toContain("fails: fairlead node 0.2.0 supports Kubernetes 1.36 to 1.38");
  });

  it("that a catalog knows is rolled out, although the hub does not know its release", () => {
    const world = worldOf(["a"], "0.2.0");
    world.catalogs = [catalog("0.2.0", "1.30", "1.38")];
    world.start();
    expect(world.states).toBe("a:Running");
  });

  it("is asked about again by the next attempt", () => {
    const world = worldOf(["a"], "0.2.0");
    world.start();
    expect(world.state).toBe("Failed");
    world.catalogs = [catalog("0.2.0", "1.30", "1.38")];
    world.request({ attempt: 2 });
    world.settle();
    expect(world.pins.get("a")?.operation).toBe("uid-2");
  });
});

describe("the rollout of a version", () => {
  it("has failed when agents do not start on a node for ten minutes, and the run stops", () => {
    const world = worldOf(["a", "b"]);
    world.start();
    const message = "installing 0.1.5: 1 of 2 nodes are updated; n1: CrashLoopBackOff";
    world.agents("a", { installed: undefined, reason: "NodesNotReady", message });
    world.later(9 * MINUTE);
    expect(world.states).toBe("a:Running b:NotStarted");
    world.later(MINUTE);
    expect(world.member("a").status.error).toEqual({ code: "NodesNotReady", message });
    expect(world.states).toBe("a:Failed b:NotStarted");
  });

  it("that has failed is not in progress any more: the next attempt begins, and so does another run", () => {
    const world = worldOf(["a", "b"]);
    world.start();
    world.agents("a", { installed: undefined, reason: "NodesNotReady", message: "n1: ImagePullBackOff" });
    world.later(10 * MINUTE);
    world.settle();
    expect(world.pins.get("a")).toMatchObject({ operation: "uid-1", version: "0.1.5", stopped: true });
    expect(verdictOf(world)).toBe("begins");
    world.request({ attempt: 2 });
    world.settle();
    expect(world.states).toBe("a:Running b:NotStarted");
    expect(world.pins.get("a")).not.toHaveProperty("stopped");
  });

  it("goes back to the former version if the stage says so, and then has failed", () => {
    const world = worldOf(["a", "b"]);
    const [first, ...others] = STAGED.stages;
    if (first === undefined) throw new Error("there is a stage");
    const health = { onFailure: "Rollback" as const };
    world.request({ strategy: { stages: [{ ...first, health }, ...others] } });
    for (const name of ["a", "b"])
      world.clusters.set(name, {
        kubernetesVersion: "1.33.4",
        nodes: [],
        measurements: { nodes: 2, readyNodes: 2 },
      });
    expect(verdictOf(world)).toBe("begins");
    world.start();
    expect(world.pins.get("a")?.version).toBe("0.1.5");
    world.agents("a", { installed: undefined, reason: "NodesNotReady", message: "n1: CrashLoopBackOff" });
    world.later(10 * MINUTE);
    expect(world.pins.get("a")).toMatchObject({ operation: "uid-1-rollback", version: "0.1.0" });
    world.install("a");
    expect(world.member("a")).toMatchObject({
      status: { state: "Failed", error: { code: "NodesNotReady" } },
      rollback: { state: "Succeeded" },
    });
    expect(world.pins.has("b")).toBe(false);
  });

  it.each([
    ["goes back, also while the member still reports on the version that failed", 0, "Succeeded"],
    ["does not go back if the member refuses the former version for a minute, too", 1, "Failed"],
  ])("%s", (_what, minutes, state) => {
    const world = worldOf(["a"]);
    world.clusters.set("a", { kubernetesVersion: "1.33.4", nodes: [], measurements: {} });
    world.request({ strategy: { stages: [{ name: "all", health: { onFailure: "Rollback" } }] } });
    world.start();
    world.agents("a", { installed: undefined, reason: "NotPermitted", message: "may not install" });
    expect(world.states).toBe("a:Running");
    world.later(minutes * MINUTE);
    world.install("a");
    expect(world.member("a").rollback?.state).toBe(state);
  });

  it("is over when it has ended, also where it was to lead back and could not, and when its run is gone", () => {
    const world = worldOf(["a"]);
    world.clusters.set("a", { kubernetesVersion: "1.33.4", nodes: [], measurements: {} });
    world.request({ strategy: { stages: [{ name: "all", health: { onFailure: "Rollback" } }] } });
    world.start();
    const begun = world.run;
    expect(endedOperations(undefined, begun)).toEqual([]);
    expect(endedOperations(begun, begun)).toEqual([]);
    expect(endedOperations(begun, undefined)).toEqual(["a"]);
    world.agents("a", { installed: undefined, reason: "NodesNotReady", message: "n1: ImagePullBackOff" });
    world.later(10 * MINUTE);
    const goesBack = world.run;
    expect(endedOperations(begun, goesBack)).toEqual(["a"]);
    world.later(60 * MINUTE);
    expect(world.member("a").rollback?.state).toBe("Failed");
    expect(endedOperations(goesBack, world.run)).toEqual(["a"]);
  });

  it("is looked up with one reading of the run, however many members it has", () => {
    const members = Array.from({ length: 20 }, (_, at) => `m${at}`);
    const world = worldOf(members);
    world.request({ strategy: { stages: [{ name: "all", maxConcurrency: "100%" }] } });
    world.start();
    const begun = world.run;
    let reads = 0;
    const counted = new Proxy(begun, {
      get: (run, name) => {
        if (name === "status") reads += 1;
        return Reflect.get(run, name) as unknown;
      },
    });
    expect(endedOperations(begun, undefined)).toEqual(members);
    expect(endedOperations(begun, counted)).toEqual([]);
    expect(reads).toBe(1);
  });

  it("may take longer as long as agents start", () => {
    const world = worldOf(["a"]);
    world.start();
    world.agents("a", { installed: undefined, reason: "Installing", message: "installing 0.1.5: 70 of 200" });
    world.later(60 * MINUTE);
    expect(world.states).toBe("a:Running");
  });

  it("has failed at once when the member may not install it", () => {
    const world = worldOf(["a"]);
    world.start();
    world.agents("a", { installed: undefined, reason: "NotPermitted", message: "run fairlead join again" });
    expect(world.member("a").status.error).toEqual({
      code: "UpgradeFailed",
      message: "run fairlead join again",
    });
  });

  it("has failed when the member leaves its profile", () => {
    const world = worldOf(["a"]);
    world.start();
    world.add("a", { profile: undefined, upgrader: undefined });
    world.settle();
    expect(world.member("a").status.error?.code).toBe("MemberLeft");
  });

  it("waits for an upgrade of Kubernetes, and that for it", () => {
    const world = worldOf(["a"], "0.1.5", { upgrader: "Job:upgrade" });
    world.clusters.set("a", {
      kubernetesVersion: "1.33.4",
      nodes: [],
      operation: { id: "other-1", state: "Running" },
    });
    world.start();
    expect(world.member("a").message).toBe("another upgrade of the cluster is in progress: other-1");
    world.clusters.set("a", { kubernetesVersion: "1.33.4", nodes: [] });
    world.settle();
    expect(world.states).toBe("a:Running");
    const kubernetes = new UpdateWorld();
    kubernetes.run = { ...kubernetes.run, metadata: { name: "kubernetes", uid: "kubernetes" } };
    kubernetes.add("a", world.members.get("a"));
    kubernetes.pins.set("a", { operation: "uid-1", version: "0.1.5", profile: "site", over: "0.1.0" });
    kubernetes.start();
    expect(kubernetes.member("a").message).toBe("another upgrade of the cluster is in progress: uid-1");
    kubernetes.install("a");
    expect(kubernetes.states).toBe("a:Running");
    kubernetes.finish("a");
    expect(kubernetes.pins.get("a")?.version).toBe("0.1.5");
  });
});

describe("the version of our programs in a member", () => {
  const pin = { operation: "uid-1", version: "0.2.0", profile: "site", over: "0.1.0" };
  it.each([
    ["the pinned one, until the profile follows", { name: "site", version: "0.1.0" }, "0.2.0"],
    ["that of the profile when it follows", { name: "site", version: "0.2.0" }, "0.2.0"],
    ["that of the profile when a user changes it", { name: "site", version: "0.1.1" }, "0.1.1"],
    ["that of the profile that it belongs to", { name: "lab", version: "0.1.0" }, "0.1.0"],
    ["unknown without a profile", undefined, undefined],
  ])("is %s", (_what, profile, expected) => {
    expect(componentsVersionOf(profile, pin)).toBe(expected);
  });

  it("is the pinned one in a profile without a version, until it gets one", () => {
    const { over: _none, ...without } = pin;
    expect(componentsVersionOf({ name: "site", version: undefined }, without)).toBe("0.2.0");
    expect(componentsVersionOf({ name: "site", version: "0.1.0" }, without)).toBe("0.1.0");
  });
});

function hubThat(nodeReleases: HubSupport["nodeReleases"]): HubSupport {
  return { version: "0.1.0", kubernetes: { from: "1.25", to: "1.36" }, nodeReleases };
}

function catalog(version: string, from: string, to: string) {
  return { metadata: { name: "all" }, spec: { components: [{ version, kubernetes: { from, to } }] } };
}
