import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import {
  CUSTOM_RESOURCE_DEFINITIONS,
  type CustomResourceDefinition,
} from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { apiVersionOf, type Resource, resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  CLUSTER_PLACEMENT_FINALIZER,
  LATEST_SNAPSHOT_LABEL,
  NEXT_SNAPSHOT_DETECTED_ANNOTATION,
  PARENT_PLACEMENT_LABEL,
  RESOURCE_INDEX_LABEL,
  SCHEDULER_FINALIZER,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import {
  CLUSTER_RESOURCE_PLACEMENT_STATUSES,
  type Placement,
  type PlacementSpec,
  type ResourceBinding,
  type ResourceSnapshot,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { KindTable } from "#placement/selection/kinds.ts";
import { ContentsCache } from "./contents.ts";
import { createPlacementInformers } from "./informers.ts";
import {
  CLUSTER_SCOPE,
  NAMESPACED_SCOPE,
  type PlacementScope,
  SCOPES,
} from "#api/placement.kubernetes-fleet.io/scopes.ts";
import { createSelecting, type Selecting } from "./selecting.ts";

const NAMESPACES = resource("v1", "Namespace", "namespaces", "Cluster");
const CONFIG_MAPS = resource("v1", "ConfigMap", "configmaps");
const SECRETS = resource("v1", "Secret", "secrets");
const DEPLOYMENTS = resource("apps/v1", "Deployment", "deployments");
const ROLES = resource("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", "Cluster");
const WIDGETS = resource("example.com/v1", "Widget", "widgets");

function tableOf(...kinds: readonly Resource[]): KindTable {
  const groups = Map.groupBy(kinds, (it) => it.group);
  return new KindTable(
    [...groups].map(([group, of]) => ({ group, versions: [{ version: of[0]?.version ?? "", kinds: of }] })),
  );
}

const definition: CustomResourceDefinition = {
  metadata: { name: "widgets.example.com" },
  spec: {
    group: "example.com",
    scope: "Namespaced",
    names: { kind: "Widget", listKind: "WidgetList", plural: "widgets", singular: "widget" },
    versions: [{ name: "v1", served: true, storage: true, schema: { openAPIV3Schema: {} } }],
  },
};

let clock: FakeClock;
let client: FakeKubeClient;
let stop: AbortController;
let selecting: Selecting;
let served: KindTable;

async function startProgram(): Promise<void> {
  stop = new AbortController();
  const deps = { clock, rng: seededRng(1), log: silentLogger, metrics: noMetrics };
  const informers = createPlacementInformers(client, deps);
  const pace = { minIntervalMs: 30_000, collectMs: 15_000 };
  const discover = () => Promise.resolve(served);
  selecting = createSelecting(
    { client, informers, contents: new ContentsCache(client), deps },
    { discover, ...pace },
  );
  for (const it of selecting.controllers) await it.start(stop.signal);
  await settled();
}

async function stopProgram(): Promise<void> {
  stop.abort();
  for (const it of selecting.controllers) await it[Symbol.asyncDispose]();
  await selecting[Symbol.asyncDispose]();
}

/** Until nothing is written any more, at this moment of the clock. */
async function settled(): Promise<void> {
  for (let before = -1; before !== client.writes.length;) {
    before = client.writes.length;
    for (let turn = 0; turn < 50; turn += 1) await clock.advance(5);
  }
}

async function after(ms: number): Promise<void> {
  await clock.advance(ms);
  await settled();
}

beforeEach(() => {
  clock = new FakeClock();
  client = new FakeKubeClient(clock);
  served = tableOf(NAMESPACES, CONFIG_MAPS, SECRETS, DEPLOYMENTS, ROLES);
});
afterEach(() => stopProgram());

const namespaceSelector = { group: "", version: "v1", kind: "Namespace", name: "shop" };
const shop: KubeObject = { metadata: { name: "shop" } };

function object(of: Resource, name: string, rest: object = {}): KubeObject {
  const namespace = of.namespaced ? { namespace: "shop" } : {};
  return { apiVersion: apiVersionOf(of), kind: of.kind, metadata: { name, ...namespace }, ...rest };
}

function seedPlacement(spec: Partial<PlacementSpec> = {}, scope: PlacementScope = CLUSTER_SCOPE): void {
  const isCluster = scope === CLUSTER_SCOPE;
  client.seed(scope.placements, {
    metadata: { name: "p", ...(isCluster ? {} : { namespace: "shop" }) },
    spec: {
      resourceSelectors: [isCluster ? namespaceSelector : { group: "", version: "v1", kind: "ConfigMap" }],
      ...spec,
    },
  });
}

/** The scheduler removes its finalizer when there are no bindings, and does not run here. */
async function releaseBindings(scope = CLUSTER_SCOPE): Promise<void> {
  const { namespace, name = "", finalizers = [] } = placement(scope)?.metadata ?? {};
  const metadata = { finalizers: finalizers.filter((it) => it !== SCHEDULER_FINALIZER) };
  await client.mergePatch(scope.placements, objectKey(namespace, name), { metadata });
}

const placement = (scope = CLUSTER_SCOPE): Placement | undefined => client.objects(scope.placements)[0];
const snapshots = (scope = CLUSTER_SCOPE): ResourceSnapshot[] => client.objects(scope.resourceSnapshots);
const latest = (scope = CLUSTER_SCOPE): ResourceSnapshot[] =>
  snapshots(scope).filter((it) => it.metadata.labels?.[LATEST_SNAPSHOT_LABEL] === "true");
const placed = (snapshot: ResourceSnapshot | undefined): string[] =>
  (snapshot?.spec.selectedResources ?? []).map((it) => `${it.kind}/${it.metadata.name}`);

describe.each(SCOPES)("the snapshots of $placements.kind", (scope) => {
  it("begin with one policy snapshot and one resource snapshot, and a restart writes nothing", async () => {
    client.seed(NAMESPACES, shop);
    client.seed(CONFIG_MAPS, object(CONFIG_MAPS, "settings", { data: { a: "1" } }));
    seedPlacement({}, scope);
    await startProgram();
    expect(client.objects(scope.policySnapshots).map((it) => it.metadata.name)).toEqual(["p-0"]);
    expect(snapshots(scope).map((it) => it.metadata.name)).toEqual(["p-0-snapshot"]);
    expect(placed(latest(scope)[0])).toContain("ConfigMap/settings");
    expect(placement(scope)?.status).toMatchObject({
      observedResourceIndex: "0",
      conditions: [
        { type: `${scope.conditionPrefix}Scheduled`, status: "Unknown", reason: "SchedulePending" },
      ],
    });
    // The finalizer, two snapshots, and at most two statuses: before and after the snapshot came.
    expect(client.writes.length).toBeLessThanOrEqual(5);
    await stopProgram();
    client.writes.length = 0;
    await startProgram();
    expect(client.writes).toEqual([]);
  });

  it("go with their placement", async () => {
    client.seed(NAMESPACES, shop);
    seedPlacement({}, scope);
    await startProgram();
    const key = scope === CLUSTER_SCOPE ? objectKey(undefined, "p") : objectKey("shop", "p");
    client.seed(scope.bindings, {
      metadata: {
        name: "p-b",
        ...(scope === CLUSTER_SCOPE ? {} : { namespace: "shop" }),
        labels: { [PARENT_PLACEMENT_LABEL]: "p" },
        finalizers: ["test/hold"],
      },
      spec: {
        state: "Bound",
        resourceSnapshotName: "p-0-snapshot",
        schedulingPolicySnapshotName: "p-0",
        targetCluster: "b",
        clusterDecision: { clusterName: "b", selected: true, reason: "" },
      },
    });
    await client.delete(scope.placements, key);
    await settled();
    // The placement has the deleteStrategy for what is placed: it stays until the last binding is gone.
    expect(placement(scope)).toBeDefined();
    expect(client.objects(scope.bindings)[0]?.metadata.deletionTimestamp).toBeDefined();
    expect(snapshots(scope)).toHaveLength(1);
    const bindingKey = scope === CLUSTER_SCOPE ? objectKey(undefined, "p-b") : objectKey("shop", "p-b");
    await client.mergePatch(scope.bindings, bindingKey, { metadata: { finalizers: null } });
    await releaseBindings(scope);
    await settled();
    expect(placement(scope)).toBeUndefined();
    expect(snapshots(scope)).toEqual([]);
    expect(client.objects(scope.policySnapshots)).toEqual([]);
    expect(selecting.resources.watched).toEqual([]);
  });
});

describe("a resource snapshot", () => {
  const change = (value: string): Promise<unknown> =>
    client.mergePatch(CONFIG_MAPS, objectKey("shop", "settings"), { data: { a: value } });
  beforeEach(() => {
    client.seed(NAMESPACES, shop);
    client.seed(CONFIG_MAPS, object(CONFIG_MAPS, "settings", { data: { a: "1" } }));
  });

  it("follows a change after it was collected for 15 s, and 30 s after the one before, once", async () => {
    seedPlacement();
    await startProgram();
    await after(5_000);
    await change("2");
    await after(5_000);
    await change("3");
    expect(latest()[0]?.metadata.annotations?.[NEXT_SNAPSHOT_DETECTED_ANNOTATION]).toBeDefined();
    await after(15_000);
    expect(snapshots()).toHaveLength(1);
    await after(10_000);
    expect(snapshots()).toHaveLength(2);
    const [only, ...others] = latest();
    expect(others).toEqual([]);
    expect(only?.metadata.name).toBe("p-1-snapshot");
    expect(only?.spec.selectedResources[1]).toMatchObject({ data: { a: "3" } });
    await after(60_000);
    expect(snapshots()).toHaveLength(2);
  });

  it("is not made for a change that was reverted", async () => {
    seedPlacement();
    await startProgram();
    await change("2");
    await settled();
    await change("1");
    await after(120_000);
    expect(snapshots()).toHaveLength(1);
    expect(latest()[0]?.metadata.annotations?.[NEXT_SNAPSHOT_DETECTED_ANNOTATION]).toBeUndefined();
  });

  it("is made at once for a changed placement", async () => {
    seedPlacement();
    await startProgram();
    await client.mergePatch(CLUSTER_SCOPE.placements, objectKey(undefined, "p"), {
      spec: { resourceSelectors: [{ ...namespaceSelector, selectionScope: "NamespaceOnly" }] },
    });
    await settled();
    expect(placed(latest()[0])).toEqual(["Namespace/shop"]);
    expect(latest()[0]?.metadata.labels?.[RESOURCE_INDEX_LABEL]).toBe("1");
    expect(placement()?.metadata.finalizers).toEqual([CLUSTER_PLACEMENT_FINALIZER, SCHEDULER_FINALIZER]);
  });

  it("of another program stays if it holds what is selected now, whatever its hash", async () => {
    seedPlacement();
    client.seed(CLUSTER_SCOPE.resourceSnapshots, {
      metadata: {
        name: "p-3-snapshot",
        labels: {
          [PARENT_PLACEMENT_LABEL]: "p",
          [RESOURCE_INDEX_LABEL]: "3",
          [LATEST_SNAPSHOT_LABEL]: "true",
        },
        annotations: { "kubernetes-fleet.io/resource-hash": "of KubeFleet" },
      },
      spec: {
        selectedResources: [
          { ...object(CONFIG_MAPS, "settings", { data: { a: "1" } }) },
          { kind: "Namespace", apiVersion: "v1", metadata: { name: "shop" } },
        ],
      },
    });
    await startProgram();
    await after(60_000);
    expect(snapshots().map((it) => it.metadata.name)).toEqual(["p-3-snapshot"]);
    await change("2");
    await after(60_000);
    expect(latest().map((it) => it.metadata.name)).toEqual(["p-4-snapshot"]);
  });

  it("waits while the API server answers with errors, and drops nothing", async () => {
    seedPlacement();
    await startProgram();
    client.refuseReads = new Error("the server is overloaded");
    client.dropWatches();
    await after(300_000);
    await stopProgram();
    client.refuseReads = undefined;
    await startProgram();
    expect(snapshots()).toHaveLength(1);
  });

  it("has the objects of a kind as soon as the kind is served, and keeps them while its group is broken", async () => {
    seedPlacement();
    await startProgram();
    served = tableOf(NAMESPACES, CONFIG_MAPS, WIDGETS);
    client.seed(WIDGETS, object(WIDGETS, "w", { spec: { size: 1 } }));
    await after(300_000);
    await after(60_000);
    expect(placed(latest()[0])).toEqual(["Namespace/shop", "ConfigMap/settings", "Widget/w"]);
    await stopProgram();
    const groups = tableOf(NAMESPACES, CONFIG_MAPS).groups;
    served = new KindTable([
      ...groups,
      { group: "example.com", versions: [], problem: "service unavailable" },
    ]);
    await startProgram();
    await change("2");
    await after(60_000);
    expect(latest()[0]?.metadata.name).toBe("p-2-snapshot");
    expect(placed(latest()[0])).toEqual(["Namespace/shop", "ConfigMap/settings", "Widget/w"]);
  });

  it("is left to update runs with strategy External", async () => {
    seedPlacement({ strategy: { type: "External" } }, NAMESPACED_SCOPE);
    await startProgram();
    expect(snapshots(NAMESPACED_SCOPE)).toEqual([]);
    expect(client.objects(NAMESPACED_SCOPE.policySnapshots)).toHaveLength(1);
  });
});

describe("the status", () => {
  it("says which field of the selectors is wrong", async () => {
    seedPlacement({ resourceSelectors: [{ group: "", version: "v1", kind: "ConfigMap", name: "a" }] });
    await startProgram();
    expect(placement()?.status?.conditions).toMatchObject([
      {
        type: "ClusterResourcePlacementScheduled",
        status: "False",
        reason: "InvalidResourceSelectors",
        message: expect.stringContaining("spec.resourceSelectors[0].kind: ConfigMap is namespaced") as string,
      },
    ]);
    expect(snapshots()).toEqual([]);
  });

  it("is about the selectors as soon as the kind that was unknown is served", async () => {
    client.seed(CONFIG_MAPS, object(CONFIG_MAPS, "settings"));
    client.seed(WIDGETS, object(WIDGETS, "w"));
    const selectors = [{ group: "example.com", version: "v1", kind: "Widget" }];
    seedPlacement({ resourceSelectors: selectors }, NAMESPACED_SCOPE);
    await startProgram();
    const reason = (): string | undefined => placement(NAMESPACED_SCOPE)?.status?.conditions?.[0]?.reason;
    expect(reason()).toBe("InvalidResourceSelectors");
    served = tableOf(CONFIG_MAPS, WIDGETS);
    client.seed(CUSTOM_RESOURCE_DEFINITIONS, definition);
    await settled();
    expect(reason()).toBe("SchedulePending");
    expect(placed(latest(NAMESPACED_SCOPE)[0])).toEqual(["Widget/w"]);
    // Only what is selected is watched.
    expect(selecting.resources.watched).toEqual(["example.com/v1/Widget"]);
  });

  const bound = (cluster: string, snapshot: string, index = 0): ResourceBinding => ({
    metadata: { name: `p-${cluster}`, labels: { [PARENT_PLACEMENT_LABEL]: "p" }, generation: 1 },
    spec: {
      state: "Bound",
      resourceSnapshotName: snapshot,
      schedulingPolicySnapshotName: `p-${index}`,
      targetCluster: cluster,
      clusterDecision: { clusterName: cluster, selected: true, reason: "" },
    },
    status: {
      conditions: ["RolloutStarted", "Overridden", "WorkSynchronized", "Applied", "Available"].map(
        (type) => ({
          type,
          status: "True" as const,
          reason: "R",
          message: "",
          observedGeneration: 1,
          lastTransitionTime: "2026-01-01T00:00:00Z",
        }),
      ),
    },
  });
  /** As the scheduler does. */
  const schedule = (...clusters: readonly string[]): Promise<unknown> =>
    client.mergePatch(
      CLUSTER_SCOPE.policySnapshots,
      objectKey(undefined, "p-0"),
      {
        status: {
          observedCRPGeneration: placement()?.metadata.generation,
          conditions: [
            {
              type: "Scheduled",
              status: "True",
              reason: "SchedulingPolicyFulfilled",
              message: "",
              observedGeneration: 1,
              lastTransitionTime: "2026-01-01T00:00:00Z",
            },
          ],
          targetClusters: clusters.map((clusterName) => ({ clusterName, selected: true, reason: "" })),
        },
      },
      { subresource: "status" },
    );
  const shown = () => client.objects(CLUSTER_RESOURCE_PLACEMENT_STATUSES);
  const reasons = (): string[] => (placement()?.status?.conditions ?? []).map((it) => it.reason);

  it("follows bindings, with few writes for many clusters, and a restart writes nothing", async () => {
    client.seed(NAMESPACES, shop);
    seedPlacement();
    await startProgram();
    const clusters = Array.from({ length: 200 }, (_, at) => `c${String(at).padStart(3, "0")}`);
    await schedule(...clusters);
    await after(1000);
    client.writes.length = 0;
    for (const it of clusters) {
      client.seed(CLUSTER_SCOPE.bindings, bound(it, "p-0-snapshot"));
      await clock.advance(1);
    }
    await after(1000);
    expect(placement()?.status?.placementStatuses).toHaveLength(200);
    expect(reasons().at(-1)).toBe("ResourceAvailable");
    expect(client.writes.length).toBeLessThanOrEqual(4);
    await stopProgram();
    client.writes.length = 0;
    await startProgram();
    expect(client.writes).toEqual([]);
  });

  it("is shown in the namespace with NamespaceAccessible, as long as the placement is there", async () => {
    client.seed(NAMESPACES, shop);
    seedPlacement({ statusReportingScope: "NamespaceAccessible" });
    await startProgram();
    await schedule("c");
    client.seed(CLUSTER_SCOPE.bindings, bound("c", "p-0-snapshot"));
    await settled();
    expect(reasons().slice(-2)).toEqual(["ResourceAvailable", "StatusSyncSucceeded"]);
    expect(shown()).toMatchObject([
      {
        metadata: { name: "p", namespace: "shop" },
        sourceStatus: { observedResourceIndex: "0", placementStatuses: [{ clusterName: "c" }] },
      },
    ]);
    const { conditions } = shown()[0]?.sourceStatus ?? {};
    expect(conditions).toEqual(placement()?.status?.conditions?.slice(0, -1));
    await client.delete(CLUSTER_RESOURCE_PLACEMENT_STATUSES, objectKey("shop", "p"));
    await settled();
    expect(shown()).toHaveLength(1);
    client.writes.length = 0;
    await after(3_600_000);
    expect(client.writes).toEqual([]);
    await client.delete(CLUSTER_SCOPE.bindings, objectKey(undefined, "p-c"));
    await client.delete(CLUSTER_SCOPE.placements, objectKey(undefined, "p"));
    await releaseBindings();
    await settled();
    expect(placement()).toBeUndefined();
    expect(shown()).toEqual([]);
  });

  it("says if it cannot be shown", async () => {
    client.seed(NAMESPACES, shop);
    seedPlacement({ statusReportingScope: "NamespaceAccessible" });
    const refused = new FleetError("API_FORBIDDEN", "quota exceeded");
    for (let times = 0; times < 5; times += 1)
      client.failNext(refused, (it) => it.resource === CLUSTER_RESOURCE_PLACEMENT_STATUSES.plural);
    await startProgram();
    expect(reasons().at(-1)).toBe("StatusSyncFailed");
    expect(placement()?.status?.conditions?.at(-1)?.message).toContain("namespace shop: quota exceeded");
    await after(300_000);
    expect(reasons().at(-1)).toBe("StatusSyncSucceeded");
  });

  it("with strategy External shows what the snapshot holds that all clusters have", async () => {
    client.seed(NAMESPACES, shop);
    seedPlacement({ strategy: { type: "External" } });
    client.seed(CLUSTER_SCOPE.resourceSnapshots, {
      metadata: {
        name: "p-3-snapshot",
        labels: { [PARENT_PLACEMENT_LABEL]: "p", [RESOURCE_INDEX_LABEL]: "3" },
      },
      spec: { selectedResources: [object(ROLES, "reader")] },
    });
    await startProgram();
    await schedule("c");
    client.seed(CLUSTER_SCOPE.bindings, bound("c", "p-3-snapshot"));
    await settled();
    expect(placement()?.status).toMatchObject({
      observedResourceIndex: "3",
      selectedResources: [
        { group: "rbac.authorization.k8s.io", version: "v1", kind: "ClusterRole", name: "reader" },
      ],
    });
    client.seed(CLUSTER_SCOPE.bindings, bound("d", "p-2-snapshot"));
    await schedule("c", "d");
    await settled();
    expect(placement()?.status).toMatchObject({ observedResourceIndex: "", selectedResources: [] });
    expect(reasons().at(-1)).toBe("RolloutControlledByExternalController");
  });
});
