import { describe, expect, it } from "vitest";
import type { ReleaseCatalog } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { type ReleaseProgram, releasesOf, type Support } from "#domain/kubernetes-support.ts";
import type { UpdateMember } from "./fleet.ts";
import { previewRun } from "./preview.ts";
import { UpdateWorld } from "./world.fake.ts";

/** Our own programs are asked about a version of Kubernetes before a member is upgraded to it. */

function program(of: ReleaseProgram, to: string, version = "0.1.0"): { program: ReleaseProgram } & Support {
  return { program: of, version, kubernetes: { from: "1.25", to } };
}

function catalog(version: string, to: string): ReleaseCatalog {
  return {
    metadata: { name: "all" },
    spec: { components: [{ version, kubernetes: { from: "1.25", to } }] },
  };
}

interface Asked {
  readonly member?: Partial<UpdateMember>;
  readonly hub?: Support | undefined;
  readonly catalogs?: ReleaseCatalog[];
  /** The version that the cluster has. */
  readonly from?: string;
}

/** A run to 1.34.1 with the one member "a". */
function worldOf({ member = {}, hub, catalogs = [], from = "1.33.4" }: Asked): UpdateWorld {
  const world = new UpdateWorld();
  world.add("a", member, { kubernetesVersion: from });
  world.hub = hub && { ...hub, nodeReleases: releasesOf("node") };
  world.catalogs = catalogs;
  return world;
}

describe("a version of Kubernetes", () => {
  it.each<[what: string, asked: Asked]>([
    ["all programs support", { member: { programs: [program("member", "1.34"), program("node", "1.36")] } }],
    ["no program has been asked about", {}],
    [
      "a catalog says is supported",
      { member: { programs: [program("node", "1.33")] }, catalogs: [catalog("0.1.0", "1.34")] },
    ],
    [
      "the version of the profile supports",
      { member: { profile: { name: "site", version: "0.1.3" } }, hub: program("hub", "1.36") },
    ],
  ])("that %s is installed", (_what, asked) => {
    const world = worldOf(asked);
    world.start();
    expect(world.state).toBe("Running");
  });

  it.each<[what: string, asked: Asked, message: string]>([
    [
      "the member",
      { member: { programs: [program("member", "1.33"), program("node", "1.36")] } },
      "fairlead member of a has version 0.1.0, which supports Kubernetes 1.25 to 1.33, not 1.34.1: upgrade it first",
    ],
    [
      "an agent on one of its nodes",
      {
        member: {
          programs: [program("member", "1.36"), program("node", "1.36"), program("node", "1.33", "0.0.9")],
        },
      },
      "fairlead node of a has version 0.0.9, which supports Kubernetes 1.25 to 1.33, not 1.34.1: upgrade it first",
    ],
    [
      "the hub",
      { hub: program("hub", "1.33") },
      "fairlead hub has version 0.1.0, which supports Kubernetes 1.25 to 1.33, not 1.34.1: upgrade it first",
    ],
    [
      "the version that its profile installs",
      { member: { profile: { name: "site", version: "0.0.8" } }, catalogs: [catalog("0.0.8", "1.30")] },
      "fairlead node of profile site has version 0.0.8, which supports Kubernetes 1.25 to 1.30, not 1.34.1: upgrade it first",
    ],
    [
      "a catalog, whatever its program says,",
      { member: { programs: [program("node", "1.36")] }, catalogs: [catalog("0.1.0", "1.33")] },
      "fairlead node of a has version 0.1.0, which supports Kubernetes 1.25 to 1.33, not 1.34.1: upgrade it first",
    ],
  ])(
    "that %s does not support is refused with the reason, in the plan and by the run",
    (_what, asked, message) => {
      const world = worldOf(asked);
      const { verdicts } = previewRun(world.run, undefined, {
        nowMs: world.nowMs,
        members: world.members,
        observe: (name) => world.clusters.get(name),
        gateState: () => undefined,
        catalogs: world.catalogs,
        hub: world.hub,
      });
      expect(verdicts.get("a")).toBe(`fails: ${message}`);
      world.start();
      expect(world.member("a").status.error).toEqual({ code: "NotSupported", message });
      expect(world.member("a").operationId).toBeUndefined();
      expect(world.state).toBe("Failed");
    },
  );

  it("that the cluster has already does not fail it, whether it is supported or not", () => {
    const world = worldOf({ member: { programs: [program("member", "1.33")] }, from: "1.34.1" });
    world.start();
    expect(world.member("a").status.state).toBe("Skipped");
  });

  it("that was refused is installed by the next attempt when the programs were upgraded", () => {
    const world = worldOf({ member: { programs: [program("node", "1.33")] } });
    world.start();
    world.add("a", { programs: [program("node", "1.34", "0.2.0")] });
    world.request({ attempt: 2 });
    world.settle();
    expect(world.states).toBe("a:Running");
  });

  it("is not asked about in upgrades of node images", () => {
    const world = worldOf({ member: { programs: [program("member", "1.33")] } });
    world.add(
      "a",
      { programs: [program("member", "1.20")] },
      { nodes: [{ name: "n", kubernetesVersion: "1.33.4", image: "u-1", ready: true }] },
    );
    world.catalogs = [{ metadata: { name: "images" }, spec: { nodeImages: [{ version: "u-2" }] } }];
    world.request({ managedClusterUpdate: { upgrade: { type: "NodeImageOnly" } } });
    world.start();
    expect(world.states).toBe("a:Running");
  });
});
