import { describe, expect, it } from "vitest";
import type { AutoUpgradeProfile, ReleaseCatalog } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { type ChannelFacts, decideChannel, nextTrigger, runOfProfile } from "./channels.ts";
import { UpdateWorld } from "./world.fake.ts";

type Versions = NonNullable<ReleaseCatalog["spec"]["kubernetesVersions"]>;
type Images = NonNullable<ReleaseCatalog["spec"]["nodeImages"]>;

function facts(versions: readonly string[], catalog: ReleaseCatalog["spec"]): ChannelFacts {
  const world = new UpdateWorld();
  for (const at of versions.keys()) world.add(`m${at}`);
  const members = [...world.members.values()].map((it, at) => ({
    ...it,
    kubernetesVersion: versions[at],
    nodes: [{ name: "n", kubernetesVersion: "1.33.0", image: "u-5", ready: true }],
  }));
  return { members, catalogs: [{ metadata: { name: "c" }, spec: catalog }] };
}
const profile = (
  spec: AutoUpgradeProfile["spec"],
  status: AutoUpgradeProfile["status"] = {},
): AutoUpgradeProfile => ({
  metadata: { name: "p", uid: "uid" },
  spec,
  status,
});

const PUBLISHED: Versions = [
  { version: "1.32.9" },
  { version: "1.33.4" },
  { version: "1.33.5" },
  { version: "1.33.6", longTermSupport: true },
  { version: "1.34.1" },
  { version: "1.35.0" },
  { version: "1.36.0", preview: true },
  { version: "1.37.0-rc.1" },
];

describe("a channel", () => {
  const target = (minor: string) =>
    ({ channel: "TargetKubernetesVersion", targetKubernetesVersion: minor }) as const;
  it.each<[string, AutoUpgradeProfile["spec"], readonly string[], string | undefined]>([
    ["Rapid leads to the newest minor version", { channel: "Rapid" }, ["1.34.1"], "1.35.0"],
    ["Rapid never jumps more than one minor version", { channel: "Rapid" }, ["1.32.9"], "1.33.5"],
    [
      "Rapid begins with the member that is furthest behind",
      { channel: "Rapid" },
      ["1.34.1", "1.33.4"],
      "1.34.1",
    ],
    ["Rapid takes no previews", { channel: "Rapid" }, ["1.35.0"], undefined],
    ["Stable leads to the minor version before the newest", { channel: "Stable" }, ["1.33.5"], "1.34.1"],
    ["Stable takes patches of it", { channel: "Stable" }, ["1.34.0"], "1.34.1"],
    ["Stable leaves newer members alone", { channel: "Stable" }, ["1.35.0", "1.34.1"], undefined],
    ["TargetKubernetesVersion takes patches of one minor version", target("1.33"), ["1.33.4"], "1.33.5"],
    ["TargetKubernetesVersion goes no further", target("1.33"), ["1.33.5"], undefined],
    [
      "TargetKubernetesVersion leads to it, one minor version at a time",
      target("1.34"),
      ["1.32.9"],
      "1.33.5",
    ],
    [
      "TargetKubernetesVersion takes long-term support if asked",
      { ...target("1.33"), longTermSupport: true },
      ["1.33.5"],
      "1.33.6",
    ],
    ["without published versions does nothing", target("1.20"), ["1.33.5"], undefined],
  ])("%s", (_what, spec, versions, expected) => {
    const decision = decideChannel(profile(spec), facts(versions, { kubernetesVersions: PUBLISHED }));
    expect(decision.is === "upgrade" ? decision.update.upgrade.kubernetesVersion : undefined).toBe(expected);
  });

  const images: Images = [
    { version: "u-6" },
    { version: "u-10" },
    { version: "u-7", securityPatch: true },
    { version: "u-8", securityPatch: true, os: "Windows" },
    { version: "other-99" },
  ];
  it.each<[string, AutoUpgradeProfile["spec"], unknown]>([
    [
      "NodeImage leads to the newest images of the families in use",
      { channel: "NodeImage", nodeImageSelection: { type: "Consistent" } },
      {
        is: "upgrade",
        update: { upgrade: { type: "NodeImageOnly" }, nodeImageSelection: { type: "Consistent" } },
        versions: ["u-10"],
      },
    ],
    [
      "SecurityPatch leads to security patches of Linux images",
      { channel: "SecurityPatch" },
      {
        is: "upgrade",
        update: {
          upgrade: { type: "NodeImageOnly" },
          nodeImageSelection: { type: "Custom", customNodeImageVersions: [{ version: "u-7" }] },
        },
        versions: ["u-7"],
      },
    ],
  ])("%s", (_what, spec, expected) => {
    expect(decideChannel(profile(spec), facts(["1.33.4"], { nodeImages: images }))).toEqual(expected);
  });

  it("NodeImage does nothing when nodes have the newest image", () => {
    const decision = decideChannel(
      profile({ channel: "NodeImage" }),
      facts(["1.33.4"], { nodeImages: [{ version: "u-5" }] }),
    );
    expect(decision.is).toBe("nothing");
  });

  it("NodeImage is weekly, others are not", () => {
    const status = { lastTriggeredAt: "2026-11-23T12:00:00Z" };
    expect(nextTrigger(profile({ channel: "NodeImage" }, status))).toBe(Date.parse("2026-11-30T12:00:00Z"));
    expect(nextTrigger(profile({ channel: "NodeImage" }))).toBe(0);
    expect(nextTrigger(profile({ channel: "Rapid" }, status))).toBe(0);
  });
});

it("a profile makes the same run again after a crash, and another one after the next trigger", () => {
  const decision = {
    is: "upgrade",
    update: { upgrade: { type: "Full", kubernetesVersion: "1.34.1" } },
    versions: ["1.34.1"],
  } as const;
  const spec = { channel: "Rapid", updateStrategyName: "s" } as const;
  const first = runOfProfile(profile(spec), decision);
  expect(runOfProfile(profile(spec), decision)).toEqual(first);
  expect(first.spec).toMatchObject({ autoUpgradeProfileName: "p", updateStrategyName: "s" });
  const next = runOfProfile(profile(spec, { lastTriggeredAt: "2026-11-23T12:00:00Z" }), decision);
  expect(next.metadata.name).not.toBe(first.metadata.name);
});
