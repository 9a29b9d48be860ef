import { describe, expect, it } from "vitest";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { splitKey } from "@fairlead/kube/api/meta/key.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { CLUSTER_UPGRADES, UPGRADER_ANNOTATION } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { HUB_LEASE } from "../fleet/hub-program.ts";
import { preview } from "./actions.ts";
import { draftRun } from "./draft.ts";
import { renderPlan } from "./render.ts";

/** A plan is judged by what the hub supports, not by what this command does. */

const { signal } = new AbortController();
const nowMs = Date.parse("2026-11-23T12:00:00Z");
const DRAFT = {
  upgradeType: "Full",
  kubernetesVersion: "1.34.1",
  componentsVersion: undefined,
  nodeImageSelection: undefined,
  nodeImageVersions: [],
  updateStrategyName: undefined,
  strategy: undefined,
} as const;

/** A hub with the member "a" and a Lease that says this. */
function hubThatSays(annotations?: Record<string, string>): FakeKubeClient {
  const client = new FakeKubeClient();
  client.seed(MEMBER_CLUSTERS, {
    metadata: { name: "a", annotations: { [UPGRADER_ANNOTATION]: "Job:upgrade" } },
    spec: { identity: { kind: "User", name: "a" } },
  });
  client.seed(CLUSTER_UPGRADES, {
    metadata: { namespace: "fleet-member-a", name: "a" },
    spec: { engine: "Job:upgrade" },
    status: { kubernetesVersion: "1.33.4", nodes: [] },
  });
  const { namespace = "", name } = splitKey(HUB_LEASE);
  if (annotations !== undefined) client.seed(LEASES, { metadata: { namespace, name, annotations } });
  return client;
}

async function planOn(client: FakeKubeClient, draft: Partial<Parameters<typeof draftRun>[1]> = {}) {
  const run = draftRun("june", { ...DRAFT, ...draft });
  return renderPlan(run, await preview(client, run, nowMs, signal), "text");
}

describe("a plan", () => {
  it.each([
    ["1.33", "a fails: fairlead hub has version 0.7.2, which supports Kubernetes 1.30 to 1.33, not 1.34.1"],
    ["1.34", "a begins"],
  ])("says of a hub that supports Kubernetes to %s: %s", async (to, expected) => {
    const client = hubThatSays({
      "fairlead.dev/version": "0.7.2",
      "fairlead.dev/hub-support": `0.7.2 for Kubernetes 1.30-${to}`,
    });
    const text = await planOn(client);
    expect(text).toContain(expected);
    expect(text).not.toContain("note:");
  });

  it.each([
    ["has not run yet", undefined, "Lease fleet-system/fairlead-hub names no version of fairlead hub"],
    [
      "is older than the question",
      { "fairlead.dev/version": "0.0.9" },
      "fairlead hub 0.0.9 does not report it",
    ],
    [
      "was replaced by an older one",
      { "fairlead.dev/version": "0.0.9", "fairlead.dev/hub-support": "0.1.0 for Kubernetes 1.25-1.36" },
      "fairlead hub 0.0.9 does not report it",
    ],
  ])("says that a hub does not say what it supports, which %s", async (_what, annotations, why) => {
    const text = await planOn(hubThatSays(annotations), { kubernetesVersion: "1.34.1" });
    expect(text).toContain("a begins");
    expect(text).toContain(
      `note: the hub does not say which versions of Kubernetes it supports: ${why}. It refuses what it does not support when the run reaches a member`,
    );
  });

  it("says that what the hub supports may not be read", async () => {
    const client = hubThatSays({});
    client.find = () => Promise.reject(new FleetError("API_FORBIDDEN", "leases is forbidden"));
    expect(await planOn(client)).toContain(
      "Lease fleet-system/fairlead-hub cannot be read: leases is forbidden",
    );
  });

  it("does not ask the hub where no version is installed", async () => {
    const text = await planOn(hubThatSays(), { upgradeType: "NodeImageOnly", kubernetesVersion: undefined });
    expect(text).not.toContain("note:");
  });
});
