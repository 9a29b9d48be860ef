import { describe, expect, it } from "vitest";
import type {
  ReleaseCatalog,
  ScheduledStart,
  StrategySpec,
  UpdateStage,
  UpgradeNode,
} from "#api/fairlead.dev/v1alpha1/updates.ts";
import { resolveConcurrency, resolveFailures } from "./amounts.ts";
import { planRun } from "./plan.ts";
import { nextStart, windowAt, windowRank } from "./schedule.ts";
import { checkVersion } from "./version-rules.ts";
import { compareVersions, parseImage, parseVersion } from "./versions.ts";
import { group, UpdateWorld } from "./world.fake.ts";

describe("amounts of members", () => {
  it.each([
    ["3", 10, 3],
    ["25%", 10, 2],
    ["99%", 10, 9],
    ["100%", 10, 10],
    ["1%", 10, 1],
    ["50%", 1, 1],
  ])("maxConcurrency %s of %i is %i: rounded down, at least 1", (text, members, expected) => {
    expect(resolveConcurrency(text, members)).toBe(expected);
  });
  it.each([
    [undefined, 10, 0],
    ["0", 10, 0],
    ["4", 10, 4],
    ["0%", 10, 0],
    ["1%", 10, 1],
    ["25%", 10, 3],
    ["100%", 10, 10],
  ])("maxAllowedFailures %s of %i is %i: rounded up", (text, members, expected) => {
    expect(resolveFailures(text, members)).toBe(expected);
  });
});

describe("a plan", () => {
  const planOf = (strategy: StrategySpec, sizes: Record<string, number>) => {
    const world = new UpdateWorld();
    for (const [name, size] of Object.entries(sizes))
      group(
        world,
        name,
        Array.from({ length: size }, (_, at) => `${name}-${at}`),
      );
    return planRun(strategy, [...world.members.values()]);
  };
  const inStage = (stage: Partial<UpdateStage>): StrategySpec => ({ stages: [{ name: "s", ...stage }] });

  it("has 50 at once in a stage and 1 in a group by default", () => {
    const [stage] = planOf(inStage({ groups: [{ name: "g" }] }), { g: 60 }).stages;
    expect([stage?.maxConcurrency, stage?.groups[0]?.maxConcurrency]).toEqual([50, 1]);
  });
  it("has no more than 50 at once, whatever the percentage is", () => {
    const [stage] = planOf(inStage({ groups: [{ name: "g" }], maxConcurrency: "100%" }), { g: 200 }).stages;
    expect(stage?.maxConcurrency).toBe(50);
  });
  it.each([
    [{ groups: [{ name: "g", maxConcurrency: "4" }] }, "maxConcurrency of group g is 4, above its 3 members"],
    [
      { maxConcurrency: "50%", groups: [{ name: "g", maxConcurrency: "100%" }] },
      "maxConcurrency of group g is 3, above that of stage s, 1",
    ],
    [{ groups: [{ name: "h" }] }, "no member has the label of group h"],
    [
      { groups: [{ name: "a", memberSelector: { byLabel: "x in (" } }] },
      expect.stringContaining("memberSelector of group a:"),
    ],
    [
      { groups: [{ name: "g" }, { name: "h", memberSelector: { byLabel: "" } }] },
      expect.stringContaining("member g-0 is in several groups: s/g, s/h"),
    ],
  ])("rejects %j", (stage, problem) => {
    expect(planOf(inStage(stage), { g: 3 }).problems.join("; ")).toEqual(problem);
  });
  it("rejects a group in two stages", () => {
    const stages = [
      { name: "a", groups: [{ name: "g" }] },
      { name: "b", groups: [{ name: "g" }] },
    ];
    expect(planOf({ stages }, { g: 1 }).problems).toContain("group g is in several stages");
  });

  it.each([
    ["env=prod", ["b", "c"]],
    ["env==prod", ["b", "c"]],
    ["env!=prod", ["a", "d"]],
    ["env in (prod,dev)", ["a", "b", "c"]],
    ["env notin (prod,dev)", ["d"]],
    ["env", ["a", "b", "c"]],
    ["!env", ["d"]],
    ["env=prod,tier=1", ["c"]],
    ["", ["a", "b", "c", "d"]],
  ])("selects members by the text %j, in one implicit group", (byLabel, expected) => {
    const world = new UpdateWorld();
    world.add("a", { labels: { env: "dev" } });
    world.add("b", { labels: { env: "prod" } });
    world.add("c", { labels: { env: "prod", tier: "1" } });
    world.add("d");
    const members = [...world.members.values()];
    const plan = planRun(inStage({ memberSelector: { byLabel } }), members);
    expect(plan.stages[0]?.groups.map((it) => it.name)).toEqual(["s"]);
    expect(plan.stages[0]?.groups[0]?.members.map((it) => it.name)).toEqual(expected);
    expect(plan.membersInNoGroup).toEqual(["a", "b", "c", "d"].filter((it) => !expected.includes(it)));
  });

  it("filters the members of groups by the selector of their stage; a group's own selector makes its name a name only", () => {
    const world = new UpdateWorld();
    world.add("a", { group: "g", labels: { env: "dev" } });
    world.add("b", { group: "g", labels: { env: "prod", tier: "1" } });
    world.add("c", { labels: { env: "prod", tier: "2" } });
    const groups = [{ name: "g" }, { name: "x", memberSelector: { matchLabels: { tier: "2" } } }];
    const plan = planRun(inStage({ memberSelector: { byLabel: "env=prod" }, groups }), [
      ...world.members.values(),
    ]);
    expect(plan.stages[0]?.groups.map((it) => it.members.map((one) => one.name))).toEqual([["b"], ["c"]]);
    expect(plan.membersInNoGroup).toEqual(["a"]);
  });
});

describe("a scheduled start", () => {
  it.each<[ScheduledStart["startDay"], string, string, string, string]>([
    ["Monday", "12:00", "+00:00", "2026-11-23T12:00:00Z", "2026-11-23T12:00:00.000Z"],
    ["Monday", "11:59", "+00:00", "2026-11-23T12:00:00Z", "2026-11-30T11:59:00.000Z"],
    ["Tuesday", "01:00", "+14:00", "2026-11-23T10:00:00Z", "2026-11-23T11:00:00.000Z"],
    ["Sunday", "23:30", "-01:30", "2026-11-22T00:00:00Z", "2026-11-23T01:00:00.000Z"],
  ])("%s %s %s after %s is %s", (...[startDay, startTime, utcOffset, from, expected]) => {
    const dueMs = nextStart({ startDay, startTime, utcOffset }, Date.parse(from));
    expect(new Date(dueMs).toISOString()).toBe(expected);
  });
});

describe("maintenance windows", () => {
  const nowMs = Date.parse("2026-11-23T12:00:00Z");
  it.each([
    [undefined, "none", 2],
    ["Monday 10:00Z 4h", "open", 0],
    ["monday 12:00Z 1h", "open", 0],
    ["daily 11:30+01:00 2h", "open", 0],
    ["Sunday 22:00Z 15h", "open", 0],
    ["Monday 08:00Z 4h", "closed", 3],
    ["Monday 15:00Z 4h", "closed", 1],
    ["Monday 16:01Z 4h", "closed", 3],
    ["Monday 08:00Z 4h, daily 13:00Z 1h", "closed", 1],
    ["at night", "unreadable", 3],
    ["Monday 08:00Z 25h", "unreadable", 3],
    ["Monday 08:00Z 0h", "unreadable", 3],
  ])("%s is %s on Monday at noon", (text, expected, rank) => {
    const window = windowAt(text, nowMs);
    expect([window.is, windowRank(window, nowMs)]).toEqual([expected, rank]);
  });

  it("decide the order in a group: open, opens within four hours, none, closed; and a closed one lets the next begin", () => {
    const world = new UpdateWorld();
    for (const [name, kubernetes] of [
      ["closed", "Tuesday 00:00Z 4h"],
      ["none", undefined],
      ["soon", "Monday 14:00Z 4h"],
      ["open", "Monday 11:00Z 4h"],
    ] as const)
      world.add(name, { group: "g", schedules: { kubernetes, nodeOS: "at night" } });
    world.request({ strategy: { stages: [{ name: "s", groups: [{ name: "g" }] }] } });
    world.start();
    const begun = (): string[] =>
      world.allMembers().flatMap((it) => (it.status.state === "Running" ? [it.name] : []));
    const seen: string[] = [];
    for (let steps = 0; steps < 2; steps += 1) {
      seen.push(...begun());
      world.finish(begun()[0] ?? "");
    }
    expect(seen).toEqual(["open", "none"]);
    expect(world.state).toBe("Pending");
    expect(world.member("soon").message).toBe(
      "the maintenance window is closed; it opens at 2026-11-23T14:00:00Z",
    );
    expect(world.againAtMs).toBe(Date.parse("2026-11-23T14:00:00Z"));
    world.later(2 * 3_600_000);
    expect(begun()).toEqual(["soon"]);
  });

  it("of node images are those of the node OS", () => {
    const world = new UpdateWorld();
    const nodes = [{ name: "n", kubernetesVersion: "1.33.4", image: "u-1", ready: true }];
    world.add("a", { schedules: { kubernetes: undefined, nodeOS: "Tuesday 00:00Z 4h" } }, { nodes });
    world.catalogs = [{ metadata: { name: "c" }, spec: { nodeImages: [{ version: "u-2" }] } }];
    world.request({ managedClusterUpdate: { upgrade: { type: "NodeImageOnly" } } });
    world.start();
    expect(world.states).toBe("a:Pending");
  });
});

describe("versions", () => {
  it("are ordered by their numbers, previews before releases, and builds naturally", () => {
    const sorted = ["1.9.0", "1.10.0-rc.1", "1.10.0", "1.10.0+k3s2", "1.10.0+k3s10", "2.0.0"];
    const parsed = sorted.toReversed().flatMap((it) => parseVersion(`v${it}`) ?? []);
    expect(
      parsed
        .toSorted(compareVersions)
        .map(
          (it) => `${it.major}.${it.minor}.${it.patch}${it.pre && `-${it.pre}`}${it.build && `+${it.build}`}`,
        ),
    ).toEqual(sorted);
  });
  it.each([
    ["ubuntu-2404-20260801", "ubuntu-2404", "20260801"],
    ["AKSUbuntu-2204gen2containerd-202401.10.0", "AKSUbuntu-2204gen2containerd", "202401.10.0"],
  ])("of the image %s: family and version", (text, family, version) => {
    expect(parseImage(text)).toEqual({ family, version });
  });

  const lts = [{ version: "1.34.1", longTermSupport: true }];
  it.each([
    ["1.33.4", "1.34.1", undefined, "permitted"],
    ["1.34.0", "1.34.1", undefined, "permitted"],
    ["1.33.4+k3s1", "1.34.1+k3s1", undefined, "permitted"],
    ["1.32.9", "1.34.1", undefined, "VersionSkipsMinor"],
    ["1.33.4", "2.0.0", undefined, "VersionSkipsMinor"],
    ["1.33.4", "1.34.0-rc.1", undefined, "VersionNotGA"],
    ["1.33.4", "1.34.1", [{ version: "1.34.1", preview: true }], "VersionNotGA"],
    ["1.33.4", "1.34.1", [{ version: "1.34.0" }], "wait"],
    ["1.33.4", "1.34.1", [{ version: "v1.34.1" }], "permitted"],
    ["1.33.4", "1.34.1", lts, "NoLongTermSupport"],
    [undefined, "1.34.1", undefined, "wait"],
    ["1.33.4", "latest", undefined, "VersionInvalid"],
  ])("from %s to %s with %j: %s", (from, wanted, releases, expected) => {
    const question = { from, wanted, releases, hasLongTermSupport: false, region: "eu" };
    const problem = checkVersion(question);
    expect(problem === undefined ? "permitted" : problem.is === "fail" ? problem.code : problem.is).toBe(
      expected,
    );
  });
  it("with long-term support are for members that have it", () => {
    const question = {
      from: "1.33.4",
      wanted: "1.34.1",
      releases: lts,
      hasLongTermSupport: true,
      region: "eu",
    };
    expect(checkVersion(question)).toBeUndefined();
  });
});

describe("of a member", () => {
  const node = (name: string, image: string): UpgradeNode => ({
    name,
    kubernetesVersion: "1.34.1",
    image,
    ready: true,
  });
  const catalog = (region: string, ...versions: readonly string[]): ReleaseCatalog => ({
    metadata: { name: region },
    spec: { region, nodeImages: versions.map((version) => ({ version })) },
  });
  const imagesOnly = (type: "Latest" | "Consistent" | "Custom", ...custom: readonly string[]) => ({
    upgrade: { type: "NodeImageOnly" as const },
    nodeImageSelection: {
      type,
      ...(custom.length === 0 ? {} : { customNodeImageVersions: custom.map((version) => ({ version })) }),
    },
  });
  function twoRegions(): UpdateWorld {
    const world = new UpdateWorld();
    world.add("a", { region: "east" }, { nodes: [node("n", "u-1"), node("w", "win-1")] });
    world.add("b", { region: "west" }, { nodes: [node("n", "u-1")] });
    world.catalogs = [catalog("east", "u-1", "u-2", "u-10", "win-3"), catalog("west", "u-1", "u-2")];
    return world;
  }
  const strategy = { stages: [{ name: "s", memberSelector: { byLabel: "" }, maxConcurrency: "2" }] };
  const targets = (world: UpdateWorld) => world.allMembers().map((it) => it.target?.nodeImages);

  it("Latest is the newest image of each family in the region of the cluster, when it begins", () => {
    const world = twoRegions();
    world.request({ managedClusterUpdate: imagesOnly("Latest"), strategy });
    world.start();
    expect(targets(world)).toEqual([["u-10", "win-3"], ["u-2"]]);
  });

  it("Consistent is the newest image in all regions of its family, fixed when the run starts", () => {
    const world = twoRegions();
    world.request({ managedClusterUpdate: imagesOnly("Consistent") });
    world.start();
    expect(world.status.nodeImageSelection).toEqual({
      selectedNodeImageVersions: [{ version: "u-2" }, { version: "win-3" }],
    });
    world.catalogs = [catalog("east", "u-20", "win-20"), catalog("west", "u-20")];
    world.clusters.set("b", { kubernetesVersion: "1.34.1", nodes: [node("n", "u-1"), node("x", "new-1")] });
    expect(world.allMembers()[0]?.target?.nodeImages).toEqual(["u-2", "win-3"]);
    world.skip({ type: "Member", name: "z" });
    world.finish("a", "Failed");
    world.request({
      attempt: 2,
      skip: [
        { type: "Member", name: "z" },
        { type: "Member", name: "y" },
      ],
    });
    world.settle();
    expect(world.allMembers()[0]?.target?.nodeImages).toEqual(["u-2", "win-3"]);
  });

  it("Consistent waits until all images are known, and tells so", () => {
    const world = twoRegions();
    world.clusters.delete("b");
    world.request({ managedClusterUpdate: imagesOnly("Consistent") });
    world.start();
    expect([world.state, world.status.message]).toEqual([
      "Pending",
      "the node images of 1 members are not known yet",
    ]);
    world.skip({ type: "Member", name: "b" });
    expect(world.state).toBe("Running");
  });

  it("Consistent skips a cluster with a new pool whose images the run does not have", () => {
    const world = twoRegions();
    world.request({ managedClusterUpdate: imagesOnly("Consistent") });
    world.start();
    world.clusters.set("b", { kubernetesVersion: "1.34.1", nodes: [node("n", "u-1"), node("x", "new-1")] });
    const { operationId = "" } = world.member("a");
    world.clusters.set("a", {
      kubernetesVersion: "1.34.1",
      nodes: [node("n", "u-2"), node("w", "win-3")],
      operation: { id: operationId, state: "Succeeded" },
    });
    world.settle();
    expect(world.states).toBe("a:Completed b:Skipped");
    expect(world.member("b").message).toBe("the run has no consistent node image of new");
  });

  it("Custom leaves nodes of other families as they are, and waits for images that the region does not have", () => {
    const world = twoRegions();
    world.request({ managedClusterUpdate: imagesOnly("Custom", "u-10"), strategy });
    world.start();
    expect(targets(world)).toEqual([["u-10"], undefined]);
    expect(world.member("b").message).toBe("node image u-10 is not available in region west yet");
  });

  it("that has the target version and images already is Skipped, and a newer one is not downgraded", () => {
    const world = new UpdateWorld();
    world.add("a", {}, { kubernetesVersion: "1.34.1" });
    world.add("b", {}, { kubernetesVersion: "1.34.9" });
    world.add(
      "c",
      {},
      { kubernetesVersion: "1.34.1", nodes: [{ ...node("n", "u-1"), kubernetesVersion: "1.33.0" }] },
    );
    world.start();
    expect(world.states).toBe("a:Skipped b:Skipped c:Running");
  });

  it("ControlPlaneOnly does not look at nodes", () => {
    const world = new UpdateWorld();
    world.add(
      "a",
      {},
      { kubernetesVersion: "1.34.1", nodes: [{ ...node("n", "u-1"), kubernetesVersion: "1.33.0" }] },
    );
    world.request({
      managedClusterUpdate: { upgrade: { type: "ControlPlaneOnly", kubernetesVersion: "1.34.1" } },
    });
    world.start();
    expect(world.states).toBe("a:Skipped");
  });

  it("whose region does not have the version yet is Pending, and begins when it has", () => {
    const world = new UpdateWorld();
    world.add("a", { region: "east" });
    const spec = (version: string) => ({ region: "east", kubernetesVersions: [{ version }] });
    world.catalogs = [{ metadata: { name: "c" }, spec: spec("1.34.0") }];
    world.start();
    expect(world.states).toBe("a:Pending");
    expect(world.member("a").message).toBe("version 1.34.1 is not available in region east yet");
    world.catalogs = [{ metadata: { name: "c" }, spec: spec("1.34.1") }];
    world.settle();
    expect(world.states).toBe("a:Running");
  });

  it("without an engine fails, and says what to configure", () => {
    const world = new UpdateWorld();
    world.add("a", { upgrader: undefined });
    world.start();
    expect(world.member("a").status.error?.code).toBe("NoUpgrader");
  });

  it("that another run upgrades is Pending", () => {
    const world = new UpdateWorld();
    world.add("a", {}, { operation: { id: "other-1", state: "Running" } });
    world.start();
    expect(world.member("a").message).toBe("another upgrade of the cluster is in progress: other-1");
  });
});
