import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ClusterResourceOverride } from "#api/placement.kubernetes-fleet.io/v1beta1/overrides.ts";
import {
  CLUSTER_RESOURCE_OVERRIDE_SNAPSHOTS,
  CLUSTER_RESOURCE_OVERRIDES,
} from "#api/placement.kubernetes-fleet.io/v1beta1/overrides.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { WORKS } from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { createOverrides } from "../overrides/controller.ts";
import { createWorks } from "../works/controller.ts";
import { configMap, FakeFleet, SHOP } from "../fleet.fake.ts";
import { createRollout } from "./controller.ts";

let fleet: FakeFleet;
beforeEach(() => {
  fleet = new FakeFleet();
});
afterEach(() => fleet.stop());

const start = () => fleet.start(createRollout, createWorks, createOverrides);
const CLUSTERS = ["a", "b", "c", "d"];

/** Four clusters that have snapshot 0, and are available. */
async function placed(): Promise<void> {
  fleet.members(...CLUSTERS);
  await fleet.snapshot(0, [SHOP, configMap("one", { v: "0" })]);
  for (const it of CLUSTERS) fleet.bind(it);
  await start();
  await fleet.settle();
  for (let round = 0; round < 6; round++) {
    for (const it of CLUSTERS) await fleet.answer(it);
    await fleet.settle();
  }
  fleet.client.writes.length = 0;
}
const snapshots = (): string =>
  CLUSTERS.map((it) => fleet.binding(it).spec.resourceSnapshotName.replace("-snapshot", "")).join(" ");

function override(
  name: string,
  spec: Partial<ClusterResourceOverride["spec"]> = {},
): ClusterResourceOverride {
  return {
    metadata: { name },
    spec: {
      clusterResourceSelectors: [{ group: "", version: "v1", kind: "Namespace", name: "shop" }],
      policy: {
        overrideRules: [
          {
            clusterSelector: { clusterSelectorTerms: [{ labelSelector: { matchLabels: { cluster: "b" } } }] },
            jsonPatchOverrides: [
              { op: "add", path: "/metadata/labels", value: { in: "${MEMBER-CLUSTER-NAME}" } },
            ],
          },
        ],
      },
      ...spec,
    },
  };
}

describe("a new snapshot", () => {
  it("goes to the next cluster when the one before is available, and the others say that they wait", async () => {
    fleet.placement();
    await placed();
    await fleet.snapshot(1, [SHOP, configMap("one", { v: "1" })]);
    await fleet.settle();
    expect(snapshots()).toBe("app-1 app-0 app-0 app-0");
    expect(fleet.conditions("b")[0]).toBe("RolloutStarted=False RolloutNotStartedYet");
    expect(fleet.works("a")[0]?.spec.workload?.manifests?.[1]).toEqual(configMap("one", { v: "1" }));
    for (const next of ["app-1 app-1 app-0 app-0", "app-1 app-1 app-1 app-0", "app-1 app-1 app-1 app-1"]) {
      for (const it of CLUSTERS) await fleet.answer(it);
      await fleet.settle();
      expect(snapshots()).toBe(next);
    }
    expect(fleet.conditions("b")[0]).toBe("RolloutStarted=True RolloutStarted");
  });
  it("stops at the cluster where it fails; the next one is a way out", async () => {
    fleet.placement();
    await placed();
    await fleet.snapshot(1, [SHOP]);
    await fleet.settle();
    await fleet.answer("a", { Applied: ["False", "SomeManifestsAreNotApplied"] });
    await fleet.settle(3_600_000);
    expect(snapshots()).toBe("app-1 app-0 app-0 app-0");
    await fleet.snapshot(2, [SHOP]);
    await fleet.settle();
    expect(snapshots()).toBe("app-2 app-0 app-0 app-0");
  });
  it("costs two writes for each cluster, its binding and its Work, and one when the member has answered", async () => {
    fleet.placement({ strategy: { rollingUpdate: { maxUnavailable: "100%" } } });
    await placed();
    await fleet.snapshot(1, [SHOP]);
    fleet.client.writes.length = 0;
    await fleet.settle();
    expect(fleet.client.writes).toHaveLength(2 * CLUSTERS.length);
    fleet.client.writes.length = 0;
    for (const it of CLUSTERS) await fleet.answer(it);
    await fleet.settle();
    const ours = fleet.client.writes.filter((it) => it.resource !== "works");
    expect(ours.map((it) => `${it.verb} ${it.subresource}`)).toEqual(CLUSTERS.map(() => "patch status"));
  });
  it("is rolled out once, whatever the watch delivers late", async () => {
    fleet.placement();
    await placed();
    await fleet.stop();
    await fleet.start(createRollout);
    await fleet.settle();
    fleet.client.deafTo.add("clusterresourcebindings");
    await fleet.snapshot(1, [SHOP]);
    await fleet.settle();
    await fleet.client.mergePatch(fleet.scope.placements, objectKey(undefined, "app"), {
      metadata: { labels: { x: "y" } },
    });
    await fleet.settle();
    expect(snapshots()).toBe("app-1 app-0 app-0 app-0");
  });
  it("waits for all its parts", async () => {
    fleet.placement();
    await placed();
    const parts = [[SHOP], [configMap("two")]];
    await fleet.snapshotPart(1, 0, parts);
    await fleet.settle();
    expect(snapshots()).toBe("app-0 app-0 app-0 app-0");
    await fleet.snapshotPart(1, 1, parts);
    await fleet.settle();
    expect(snapshots()).toBe("app-1 app-0 app-0 app-0");
    expect(fleet.works("a").map((it) => it.metadata.name)).toEqual(["app-work", "app-0"]);
  });
});

it("bindings of a placement whose strategy is External are left to staged runs", async () => {
  fleet.placement({ strategy: { type: "External" } });
  await fleet.snapshot(0, [SHOP]);
  fleet.bind("a");
  fleet.bind("b", { state: "Unscheduled", resourceSnapshotName: "app-0-snapshot" });
  await start();
  await fleet.settle();
  expect(fleet.bindings().map((it) => it.spec.state)).toEqual(["Scheduled", "Unscheduled"]);
});

it("an unscheduled cluster is removed with its Works; its finalizer goes last", async () => {
  fleet.placement();
  await placed();
  await fleet.client.mergePatch(fleet.scope.bindings, keyOf(fleet.binding("d")), {
    spec: { state: "Unscheduled" },
  });
  await fleet.settle();
  expect(fleet.works("d")).toEqual([]);
  // The scheduler's own finalizer is left.
  expect(fleet.binding("d").metadata).toMatchObject({
    deletionTimestamp: expect.any(String) as unknown,
    finalizers: ["kubernetes-fleet.io/scheduler-crb-cleanup"],
  });
});

it("an unscheduled cluster keeps its Works while the budget does not allow its removal", async () => {
  fleet.placement({
    policy: { placementType: "PickN", numberOfClusters: 4 },
    strategy: { rollingUpdate: { maxUnavailable: 0 } },
  });
  await placed();
  await fleet.client.mergePatch(fleet.scope.bindings, keyOf(fleet.binding("d")), {
    spec: { state: "Unscheduled" },
  });
  await fleet.settle();
  expect(fleet.works("d")).toHaveLength(1);
  expect(fleet.conditions("d").at(-1)).toBe("Available=True AllWorkAreAvailable");
  fleet.members("e");
  fleet.bind("e");
  await fleet.settle();
  expect(fleet.works("d")).toHaveLength(1);
  await fleet.answer("e");
  await fleet.settle();
  expect(fleet.works("d")).toEqual([]);
});

describe("an override", () => {
  it("becomes a snapshot, and changes the objects of the clusters that it selects", async () => {
    fleet.placement();
    await placed();
    fleet.client.seed(CLUSTER_RESOURCE_OVERRIDES, override("red"));
    await fleet.settle();
    expect(fleet.client.objects(CLUSTER_RESOURCE_OVERRIDE_SNAPSHOTS)).toMatchObject([
      {
        metadata: {
          name: "red-0",
          labels: {
            "kubernetes-fleet.io/parent-resource-override": "red",
            "kubernetes-fleet.io/override-index": "0",
            "kubernetes-fleet.io/is-latest-snapshot": "true",
          },
        },
        spec: {
          overrideSpec: override("red").spec,
          overrideHash: expect.stringMatching(/^[\w+/]{43}=$/) as unknown,
        },
      },
    ]);
    expect(CLUSTERS.map((it) => fleet.binding(it).spec.clusterResourceOverrideSnapshots)).toEqual([
      undefined,
      ["red-0"],
      undefined,
      undefined,
    ]);
    expect(fleet.works("b")[0]?.spec.workload?.manifests?.[0]).toMatchObject({
      metadata: { labels: { in: "b" } },
    });
    await fleet.settle(1000);
    expect(fleet.conditions("b")[1]).toBe("Overridden=True OverriddenSucceeded");
    expect(fleet.works("a")[0]?.spec.workload?.manifests?.[0]).toEqual(SHOP);
  });
  it("that cannot be applied leaves what the cluster has, and says why", async () => {
    fleet.placement();
    await placed();
    const rule = {
      clusterSelector: { clusterSelectorTerms: [] },
      jsonPatchOverrides: [{ op: "remove" as const, path: "/spec/x" }],
    };
    fleet.client.seed(CLUSTER_RESOURCE_OVERRIDES, override("red", { policy: { overrideRules: [rule] } }));
    await fleet.settle();
    expect(fleet.conditions("a")).toEqual([
      "RolloutStarted=True RolloutStarted",
      "Overridden=False OverriddenFailed",
    ]);
    expect(fleet.binding("a").status?.conditions?.[1]?.message).toMatch(
      /ClusterResourceOverrideSnapshot "red-0" does not fit Namespace "shop"/,
    );
    expect(fleet.works("a")[0]?.spec.workload?.manifests?.[0]).toEqual(SHOP);
    expect(fleet.binding("b").spec.clusterResourceOverrideSnapshots).toBeUndefined();
  });
  it("that goes leaves the clusters one after another, and no Work changes before its binding does", async () => {
    fleet.placement();
    const all = [
      {
        clusterSelector: { clusterSelectorTerms: [] },
        jsonPatchOverrides: [{ op: "add" as const, path: "/metadata/labels", value: { a: "b" } }],
      },
    ];
    fleet.client.seed(CLUSTER_RESOURCE_OVERRIDES, override("red", { policy: { overrideRules: all } }));
    await placed();
    await fleet.client.delete(CLUSTER_RESOURCE_OVERRIDES, objectKey(undefined, "red"));
    await fleet.settle();
    expect(fleet.client.objects(CLUSTER_RESOURCE_OVERRIDES)).toEqual([]);
    expect(fleet.client.objects(CLUSTER_RESOURCE_OVERRIDE_SNAPSHOTS)).toEqual([]);
    const labels = () =>
      CLUSTERS.map((it) => fleet.works(it)[0]?.spec.workload?.manifests?.[0]?.metadata.labels?.["a"]);
    expect(labels()).toEqual([undefined, "b", "b", "b"]);
    expect(fleet.conditions("b").slice(1)).toEqual([
      "Overridden=True OverriddenSucceeded",
      "WorkSynchronized=True AllWorkSynced",
      "Applied=True AllWorkHaveBeenApplied",
      "Available=True AllWorkAreAvailable",
    ]);
  });
  it("with a variable follows the labels of the cluster", async () => {
    fleet.placement();
    const value = { zone: "${MEMBER-CLUSTER-LABEL-KEY-cluster}" };
    const rule = {
      clusterSelector: { clusterSelectorTerms: [] },
      jsonPatchOverrides: [{ op: "add" as const, path: "/metadata/labels", value }],
    };
    fleet.client.seed(CLUSTER_RESOURCE_OVERRIDES, override("red", { policy: { overrideRules: [rule] } }));
    await placed();
    await fleet.client.mergePatch(MEMBER_CLUSTERS, objectKey(undefined, "c"), {
      metadata: { labels: { cluster: "west" } },
    });
    await fleet.settle();
    expect(fleet.works("c")[0]?.spec.workload?.manifests?.[0]?.metadata.labels).toEqual({ zone: "west" });
    await fleet.client.mergePatch(MEMBER_CLUSTERS, objectKey(undefined, "c"), {
      metadata: { labels: { cluster: null } },
    });
    await fleet.settle();
    expect(fleet.conditions("c")[1]).toBe("Overridden=False OverriddenFailed");
    expect(fleet.works("c")[0]?.spec.workload?.manifests?.[0]?.metadata.labels).toEqual({ zone: "west" });
  });
});

it("a hub that is killed at any write of a rollout completes it, and nothing is placed twice or removed", async () => {
  const TWO = ["a", "b"];
  let isLast = false;
  for (let at = 0; !isLast; at++) {
    fleet = new FakeFleet();
    fleet.placement({ strategy: { rollingUpdate: { maxUnavailable: 1 } } });
    fleet.client.seed(CLUSTER_RESOURCE_OVERRIDES, override("red"));
    fleet.members(...TWO);
    await fleet.snapshot(0, [SHOP], [configMap("one", { v: "0" })]);
    for (const it of TWO) fleet.bind(it);
    let writes = 0;
    let isKilled = false;
    fleet.client.failNext(new FleetError("API_UNAVAILABLE", "killed"), ({ resource, subresource }) => {
      const isOurs =
        resource !== "clusterresourcesnapshots" && !(resource === "works" && subresource === "status");
      if (!isOurs) return false;
      isKilled = writes++ === at;
      return isKilled;
    });
    const run = async (): Promise<void> => {
      await fleet.clock.advance(0);
      if (!isKilled) return;
      isKilled = false;
      await fleet.stop();
      await start();
    };
    await start();
    for (let round = 0; round < 5; round++) {
      await run();
      for (const it of TWO) await fleet.answer(it);
      await run();
      if (round === 1) await fleet.snapshot(1, [SHOP, configMap("one", { v: "1" })]);
    }
    await fleet.settle(10_000);
    for (const it of TWO) await fleet.answer(it);
    await fleet.settle(10_000);
    expect(
      TWO.map((it) => fleet.binding(it).spec.resourceSnapshotName),
      `killed at write ${at}`,
    ).toEqual(TWO.map(() => "app-1-snapshot"));
    for (const it of TWO) {
      const labels = it === "b" ? { labels: { in: "b" } } : {};
      const expected = [SHOP, configMap("one", { v: "1" })].map((object) => ({
        ...object,
        metadata: { ...object.metadata, ...labels },
      }));
      const manifests = fleet.works(it).map((work) => work.spec.workload?.manifests);
      expect(manifests, `killed at write ${at}`).toEqual([expected]);
    }
    isLast = writes <= at;
    if (!isLast) await fleet.stop();
  }
});

describe("a placement that is deleted", () => {
  /** What members see of a Work when it is deleted. */
  async function policyAtDeletion(
    spec: Parameters<FakeFleet["placement"]>[0],
    isDeleted: boolean,
  ): Promise<unknown> {
    fleet.placement(spec);
    await placed();
    const key = objectKey("fleet-member-a", "app-work");
    await fleet.client.mergePatch(WORKS, key, { metadata: { finalizers: ["member"] } });
    const placement = objectKey(undefined, "app");
    await fleet.client.mergePatch(fleet.scope.placements, placement, {
      metadata: { finalizers: ["kubernetes-fleet.io/crp-cleanup"] },
    });
    if (isDeleted) await fleet.client.delete(fleet.scope.placements, placement);
    await fleet.client.delete(fleet.scope.bindings, keyOf(fleet.binding("a")));
    await fleet.settle();
    const [work] = fleet.works("a");
    expect(work?.metadata.deletionTimestamp).toBeDefined();
    return work?.metadata.annotations?.["fairlead.dev/propagation-policy"];
  }
  it("leaves its objects in members if its strategy is to abandon them", async () => {
    const abandon = { strategy: { deleteStrategy: { propagationPolicy: "Abandon" as const } } };
    expect(await policyAtDeletion(abandon, true)).toBe("Abandon");
  });
  it("removes them by default", async () => {
    expect(await policyAtDeletion({}, true)).toBeUndefined();
  });
  it("removes them from a cluster that it only leaves", async () => {
    const abandon = { strategy: { deleteStrategy: { propagationPolicy: "Abandon" as const } } };
    expect(await policyAtDeletion(abandon, false)).toBeUndefined();
  });
});

describe("nothing that is placed", () => {
  it("is deleted because its snapshot is lost", async () => {
    fleet.placement();
    await placed();
    for (const it of fleet.client.objects(fleet.scope.resourceSnapshots))
      await fleet.client.delete(fleet.scope.resourceSnapshots, keyOf(it));
    fleet.client.writes.length = 0;
    await fleet.settle(60_000);
    await fleet.stop();
    await start();
    await fleet.settle(60_000);
    expect(fleet.client.writes).toEqual([]);
    expect(CLUSTERS.map((it) => fleet.works(it).length)).toEqual([1, 1, 1, 1]);
  });
  it("is written, or read, by a restart", async () => {
    fleet.placement();
    await placed();
    await fleet.stop();
    const get = fleet.client.get.bind(fleet.client);
    let reads = 0;
    fleet.client.get = (...call) => {
      reads += 1;
      return get(...call);
    };
    await start();
    await fleet.settle(60_000);
    expect(fleet.client.writes).toEqual([]);
    expect(reads).toBe(0);
  });
  it("is deleted with a binding that a user removed by force", async () => {
    fleet.placement();
    await placed();
    const key = keyOf(fleet.binding("a"));
    await fleet.client.mergePatch(fleet.scope.bindings, key, { metadata: { finalizers: [] } });
    fleet.client.state.delete(fleet.scope.bindings, key);
    await fleet.settle();
    expect(fleet.works("a")).toHaveLength(1);
  });
});

it("a Work that a user deleted is made again", async () => {
  fleet.placement();
  await placed();
  await fleet.client.delete(WORKS, objectKey("fleet-member-a", "app-work"));
  await fleet.settle();
  expect(fleet.works("a")).toHaveLength(1);
});

it("a Work in another mailbox that claims to be of a binding is not touched, and not counted", async () => {
  fleet.placement();
  await placed();
  const [own] = fleet.works("a");
  if (own === undefined) throw new Error("no Work");
  const claim = { ...own, metadata: { ...own.metadata, namespace: "fleet-member-b", name: "claim" } };
  fleet.client.seed(WORKS, { ...claim, status: { conditions: [] } });
  fleet.client.writes.length = 0;
  await fleet.settle();
  expect(fleet.client.writes).toEqual([]);
});

it("what an object moves to takes it over before what it was in goes", async () => {
  fleet.placement({ strategy: { rollingUpdate: { maxUnavailable: "100%" } } });
  fleet.members("a");
  await fleet.snapshot(0, [SHOP], [configMap("two")]);
  fleet.bind("a");
  await start();
  await fleet.settle();
  await fleet.answer("a");
  await fleet.settle();
  await fleet.snapshot(1, [SHOP, configMap("two")]);
  await fleet.settle();
  const names = () => fleet.works("a").map((it) => it.metadata.name);
  await fleet.settle(1000);
  expect(names()).toEqual(["app-work", "app-0"]);
  expect(fleet.conditions("a")[3]).toBe("Applied=Unknown ApplyInProgress");
  await fleet.answer("a");
  await fleet.settle();
  expect(names()).toEqual(["app-work"]);
  expect(fleet.conditions("a")[3]).toBe("Applied=True AllWorkHaveBeenApplied");
});
