import { describe, expect, it } from "vitest";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import {
  AUTO_UPGRADE_PROFILES,
  UPDATE_STRATEGIES,
  type StrategySpec,
} from "#api/fairlead.dev/v1alpha1/updates.ts";
import { getNamed } from "../named.ts";
import {
  deleteStrategy,
  renderProfiles,
  renderStrategies,
  renderStrategy,
  writeProfile,
  writeStrategy,
} from "./templates.ts";

const { signal } = new AbortController();
const spec: StrategySpec = {
  stages: [
    {
      name: "canary",
      groups: [{ name: "eu" }, { name: "us" }],
      afterGates: [{ displayName: "canary is fine", type: "Approval" }],
      afterStageWaitInSeconds: 3600,
    },
    { name: "all" },
  ],
};

describe("an update strategy", () => {
  it("is created, changed and shown with all its stages", async () => {
    const hub = new FakeKubeClient();
    expect(
      (await writeStrategy(hub, { name: "prod", spec: { stages: [{ name: "all" }] } }, signal)).isNew,
    ).toBe(true);
    const { object, isNew } = await writeStrategy(hub, { name: "prod", spec }, signal);
    expect(isNew).toBe(false);
    expect(renderStrategies([object], "wide")).toBe("NAME   STAGES       GROUPS\nprod   canary,all   eu,us");
    expect(renderStrategy(object, "text")).toBe(
      "update strategy prod\n  1. stage canary: groups eu, us; 1 gate; wait of 1h\n  2. stage all",
    );
  });

  it("is kept while an AutoUpgradeProfile makes runs of it", async () => {
    const hub = new FakeKubeClient();
    await writeStrategy(hub, { name: "prod", spec }, signal);
    await writeProfile(
      hub,
      { name: "stable", spec: { channel: "Stable", updateStrategyName: "prod" } },
      signal,
    );
    await expect(deleteStrategy(hub, "prod", signal)).rejects.toThrow(
      "cannot delete update strategy prod: AutoUpgradeProfiles make runs of it (stable)",
    );
    await writeProfile(hub, { name: "stable", spec: { updateStrategyName: "other" } }, signal);
    await deleteStrategy(hub, "prod", signal);
    expect(hub.objects(UPDATE_STRATEGIES)).toEqual([]);
  });

  it("that does not exist is answered with the ones that do", async () => {
    const hub = new FakeKubeClient();
    await expect(getNamed(hub, UPDATE_STRATEGIES, "x", signal)).rejects.toThrow("it has none");
    await writeStrategy(hub, { name: "prod", spec }, signal);
    await expect(getNamed(hub, UPDATE_STRATEGIES, "x", signal)).rejects.toThrow(
      'the hub has no UpdateStrategy named "x"; it has prod',
    );
  });
});

describe("an AutoUpgradeProfile", () => {
  it("needs a channel when it is new, and keeps what a change leaves out", async () => {
    const hub = new FakeKubeClient();
    await expect(writeProfile(hub, { name: "p", spec: { disabled: true } }, signal)).rejects.toThrow(
      "--channel is needed for a new AutoUpgradeProfile p",
    );
    const minor = { channel: "TargetKubernetesVersion", targetKubernetesVersion: "1.34" } as const;
    await writeProfile(hub, { name: "p", spec: { ...minor, longTermSupport: true } }, signal);
    await writeProfile(hub, { name: "p", spec: { disabled: true } }, signal);
    expect(hub.objects(AUTO_UPGRADE_PROFILES)[0]?.spec).toEqual({
      ...minor,
      longTermSupport: true,
      disabled: true,
    });
  });

  it("loses what belongs to its former channel", async () => {
    const hub = new FakeKubeClient();
    const minor = { channel: "TargetKubernetesVersion", targetKubernetesVersion: "1.34" } as const;
    await writeProfile(hub, { name: "p", spec: { ...minor, longTermSupport: true } }, signal);
    await writeProfile(hub, { name: "p", spec: { channel: "Stable" } }, signal);
    expect(hub.objects(AUTO_UPGRADE_PROFILES)[0]?.spec).toEqual({ channel: "Stable" });
  });

  it("is listed with its last trigger", () => {
    const profile = {
      metadata: { name: "p" },
      spec: { channel: "TargetKubernetesVersion", targetKubernetesVersion: "1.34" },
      status: {
        lastTriggeredAt: "2026-11-23T12:00:00Z",
        lastTriggerStatus: "Failed",
        lastTriggerError: { code: "X", message: "no version" },
      },
    } as const;
    expect(renderProfiles([profile], "wide", Date.parse("2026-11-23T13:00:00Z"))).toBe(
      "NAME   CHANNEL                        STRATEGY   DISABLED   LAST TRIGGER   STATUS   MESSAGE\n" +
        "p      TargetKubernetesVersion 1.34   -          false      1h             Failed   no version",
    );
  });
});
