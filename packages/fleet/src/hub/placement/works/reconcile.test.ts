import { afterEach, describe, expect, it } from "vitest";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { CLUSTER_RESOURCE_OVERRIDE_SNAPSHOTS } from "#api/placement.kubernetes-fleet.io/v1beta1/overrides.ts";
import type { ResourceBindingSpec } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { configMap, FakeFleet, SHOP } from "../fleet.fake.ts";
import { createRollout } from "../rollout/controller.ts";
import { createWorks } from "./controller.ts";

const fleets: FakeFleet[] = [];
afterEach(async () => {
  for (const it of fleets.splice(0)) await it.stop();
});

function fleet(namespace?: string): FakeFleet {
  const made = new FakeFleet(namespace);
  fleets.push(made);
  return made;
}

describe.each([undefined, "shop"])("a placement in namespace %s", (namespace) => {
  it("becomes a Work in the mailbox of each cluster, and the conditions of its binding follow that of the Work", async () => {
    const it = fleet(namespace);
    it.members("a");
    it.placement();
    const objects = namespace === undefined ? [SHOP, configMap("one")] : [configMap("one")];
    await it.snapshot(0, objects);
    it.bind("a");
    await it.start(createRollout, createWorks);
    await it.settle();
    expect(it.binding("a").spec).toMatchObject({ state: "Bound", resourceSnapshotName: "app-0-snapshot" });
    expect(it.works("a")).toMatchObject([
      {
        metadata: {
          namespace: "fleet-member-a",
          name: namespace === undefined ? "app-work" : "shop.app-work",
          labels: {
            "kubernetes-fleet.io/parent-CRP": "app",
            "kubernetes-fleet.io/parent-resource-binding": "app-a-00000000",
            "kubernetes-fleet.io/parent-resource-snapshot-index": "0",
          },
          annotations: { "kubernetes-fleet.io/parent-resource-snapshot-name": "app-0-snapshot" },
        },
        spec: {
          workload: { manifests: objects },
          ...(namespace === undefined ? {} : { namespace }),
          applyStrategy: { type: "ClientSideApply" },
        },
      },
    ]);
    await it.settle(1000);
    expect(it.conditions("a")).toEqual([
      "RolloutStarted=True RolloutStarted",
      "Overridden=True NoOverrideSpecified",
      "WorkSynchronized=True AllWorkSynced",
      "Applied=Unknown ApplyInProgress",
    ]);
    await it.answer("a");
    await it.settle();
    expect(it.conditions("a").slice(3)).toEqual([
      "Applied=True AllWorkHaveBeenApplied",
      "Available=True AllWorkAreAvailable",
    ]);
    it.client.writes.length = 0;
    await it.settle(60_000);
    expect(it.client.writes).toEqual([]);
  });
});

describe("a member that has not answered", () => {
  async function written(): Promise<FakeFleet> {
    const it = fleet();
    it.members("a");
    it.placement();
    await it.snapshot(0, [SHOP]);
    it.bind("a", { state: "Bound", resourceSnapshotName: "app-0-snapshot" });
    await it.start(createWorks);
    await it.settle();
    expect(it.works("a")).toHaveLength(1);
    it.client.writes.length = 0;
    return it;
  }
  const statuses = (it: FakeFleet): number =>
    it.client.writes.filter(({ resource, subresource }) => resource !== "works" && subresource === "status")
      .length;

  it("costs no write of the binding's status if it answers within a second", async () => {
    const it = await written();
    await it.settle(999);
    expect(statuses(it)).toBe(0);
    await it.answer("a");
    await it.settle(60_000);
    expect(it.conditions("a").at(-1)).toBe("Available=True AllWorkAreAvailable");
    expect(statuses(it)).toBe(1);
  });
  it("is waited for a second from the first pass on, also by a hub that starts again; then the binding says so, once", async () => {
    const it = await written();
    await it.settle(500);
    await it.stop();
    await it.start(createWorks);
    await it.settle(500);
    expect(it.conditions("a")).toEqual([]);
    await it.client.mergePatch(it.scope.bindings, keyOf(it.binding("a")), {
      metadata: { labels: { x: "y" } },
    });
    await it.settle(500);
    expect(it.conditions("a").at(-1)).toBe("Applied=Unknown ApplyInProgress");
    await it.settle(60_000);
    expect(statuses(it)).toBe(1);
  });
});

it("a member that leaves keeps its Works until its mailbox goes: it decides itself what becomes of the objects", async () => {
  const it = fleet();
  it.members("a");
  it.placement();
  await it.snapshot(0, [SHOP]);
  it.bind("a");
  await it.start(createRollout, createWorks);
  await it.settle();
  const member = objectKey(undefined, "a");
  await it.client.mergePatch(MEMBER_CLUSTERS, member, { metadata: { finalizers: ["example.com/held"] } });
  await it.client.delete(MEMBER_CLUSTERS, member);
  await it.settle();
  const key = keyOf(it.binding("a"));
  await it.client.delete(it.scope.bindings, key);
  await it.settle();
  expect(it.works("a")).toHaveLength(1);
  expect(it.works("a")[0]?.metadata.deletionTimestamp).toBeUndefined();
  expect(it.binding("a").metadata.finalizers).toEqual(["kubernetes-fleet.io/scheduler-crb-cleanup"]);
});

describe("Works that are there follow", () => {
  async function bound(it: FakeFleet, spec: Partial<ResourceBindingSpec> = {}): Promise<void> {
    it.members("a");
    it.placement();
    await it.snapshot(0, [SHOP, configMap("one")]);
    it.bind("a", { state: "Bound", resourceSnapshotName: "app-0-snapshot", ...spec });
    await it.start(createWorks);
    await it.settle(1000);
  }

  it("a changed reportBackStrategy of their placement", async () => {
    const it = fleet();
    await bound(it);
    await it.answer("a");
    await it.settle();
    expect(it.works("a")[0]?.spec.reportBackStrategy).toBeUndefined();
    const reportBackStrategy = { type: "Mirror", destination: "WorkAPI" };
    await it.client.mergePatch(it.scope.placements, objectKey(undefined, "app"), {
      spec: { strategy: { reportBackStrategy } },
    });
    await it.settle();
    expect(it.works("a")[0]?.spec.reportBackStrategy).toEqual(reportBackStrategy);
  });

  it("an override snapshot that appears after the binding that names it", async () => {
    const it = fleet();
    await bound(it, { clusterResourceOverrideSnapshots: ["late-0"] });
    expect(it.works("a")).toEqual([]);
    expect(it.conditions("a")).toContain("Overridden=False OverriddenFailed");
    await it.client.create(CLUSTER_RESOURCE_OVERRIDE_SNAPSHOTS, {
      metadata: { name: "late-0" },
      spec: {
        overrideHash: "",
        overrideSpec: {
          clusterResourceSelectors: [{ group: "", version: "v1", kind: "Namespace", name: "shop" }],
          policy: {
            overrideRules: [
              {
                clusterSelector: { clusterSelectorTerms: [] },
                jsonPatchOverrides: [{ op: "add", path: "/metadata/labels", value: { late: "yes" } }],
              },
            ],
          },
        },
      },
    });
    await it.settle();
    expect(it.works("a")[0]?.spec.workload?.manifests?.[0]).toMatchObject({
      metadata: { name: "shop", labels: { late: "yes" } },
    });
  });
});
