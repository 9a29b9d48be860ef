import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import type { Controller } from "@fairlead/kube/types.ts";
import { MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  AUTO_UPGRADE_PROFILES,
  CLUSTER_UPGRADES,
  RELEASE_CATALOGS,
  UPDATE_GROUP_LABEL,
  UPDATE_RUNS,
  UPDATE_STRATEGIES,
  UPGRADER_ANNOTATION,
} from "#api/fairlead.dev/v1alpha1/updates.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { createHubInformers } from "../../informers.ts";
import { createUpgradeProfiles } from "./profiles.ts";

const MEMBER = objectKey(undefined, "a");
const STRATEGY = objectKey(undefined, "late");
let clock: FakeClock;
let client: FakeKubeClient;
let controller: Controller;
let stop: AbortController;

beforeEach(async () => {
  clock = new FakeClock(Date.UTC(2026, 0, 1));
  client = new FakeKubeClient(clock);
  stop = new AbortController();
  client.seed(MEMBER_CLUSTERS, {
    metadata: {
      name: "a",
      labels: { [UPDATE_GROUP_LABEL]: "other" },
      annotations: { [UPGRADER_ANNOTATION]: "External" },
    },
    spec: { identity: { kind: "User", name: "a" } },
  });
  client.seed(CLUSTER_UPGRADES, {
    metadata: { namespace: mailboxOf("a"), name: "a" },
    spec: { engine: "External" },
    status: { kubernetesVersion: "1.35.1", nodes: [] },
  });
  client.seed(UPDATE_STRATEGIES, {
    metadata: { name: "late" },
    spec: { stages: [{ name: "one", groups: [{ name: "late" }] }] },
  });
  client.seed(RELEASE_CATALOGS, {
    metadata: { name: "all" },
    spec: { kubernetesVersions: [{ version: "1.35.1" }, { version: "1.35.2" }] },
  });
  client.seed(AUTO_UPGRADE_PROFILES, {
    metadata: { name: "rapid" },
    spec: { channel: "Rapid", nodeImageSelection: { type: "Latest" }, updateStrategyName: "late" },
  });
  const deps = { clock, log: silentLogger, rng: seededRng(1), metrics: noMetrics };
  const informers = createHubInformers(client, {}, deps);
  controller = createUpgradeProfiles({ client, informers, deps });
  await controller.start(stop.signal);
  await settle();
});
afterEach(async () => {
  stop.abort();
  await controller[Symbol.asyncDispose]();
});

async function settle(): Promise<void> {
  for (let round = 0; round < 5; round++) {
    await clock.advance(0);
    await controller.idle(AbortSignal.timeout(5000));
  }
}

const runs = () => client.objects(UPDATE_RUNS).map((it) => it.spec.autoUpgradeProfileName);

describe("a profile whose strategy has no group for a member that is behind", () => {
  it("creates no run", () => {
    expect(runs()).toEqual([]);
  });

  it("creates a run when the member enters a group of the strategy", async () => {
    await client.mergePatch(MEMBER_CLUSTERS, MEMBER, {
      metadata: { labels: { [UPDATE_GROUP_LABEL]: "late" } },
    });
    await settle();
    expect(runs()).toEqual(["rapid"]);
  });

  it("creates a run when the strategy gets a group for the member", async () => {
    await client.mergePatch(UPDATE_STRATEGIES, STRATEGY, {
      spec: { stages: [{ name: "one", groups: [{ name: "other" }] }] },
    });
    await settle();
    expect(runs()).toEqual(["rapid"]);
  });

  it("creates a run when the strategy is deleted, and so selects all members", async () => {
    await client.delete(UPDATE_STRATEGIES, STRATEGY);
    await settle();
    expect(runs()).toEqual(["rapid"]);
  });
});
