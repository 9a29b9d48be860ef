/** What placements select of a real API server: snapshots of all that is there, and of what changes. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { inParallel } from "@fairlead/base/parallel.ts";
import {
  CUSTOM_RESOURCE_DEFINITIONS,
  type CustomResourceDefinition,
} from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { CONFIG_MAPS, SECRETS, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { resource } from "@fairlead/kube/api/meta/resource.ts";
import { installCrds } from "@fairlead/kube/definitions/crds.ts";
import { PLACEMENT_CRDS } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/crds.ts";
import {
  LATEST_SNAPSHOT_LABEL,
  PARENT_PLACEMENT_LABEL,
  RESOURCE_INDEX_LABEL,
} from "@fairlead/fleet/api/placement.kubernetes-fleet.io/names.ts";
import {
  CLUSTER_RESOURCE_PLACEMENTS,
  CLUSTER_RESOURCE_SNAPSHOTS,
  type Placement,
  type ResourceSelector,
  type ResourceSnapshot,
} from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { ContentsCache } from "@fairlead/fleet/hub/placement/contents.ts";
import { createPlacementInformers } from "@fairlead/fleet/hub/placement/informers.ts";
import { createSelecting, type Selecting } from "@fairlead/fleet/hub/placement/selecting.ts";
import { ensureNamespace, startCluster, type TestCluster, testDeps } from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";

/** All at once: what is tested is not how long changes are collected. */
const AT_ONCE = { minIntervalMs: 0, collectMs: 0 };
const WIDGETS = resource<{ metadata: { name: string; namespace: string }; spec: { size: number } }>(
  "example.com/v1",
  "Widget",
  "widgets",
);
const WIDGET_CRD: CustomResourceDefinition = {
  metadata: { name: "widgets.example.com" },
  spec: {
    group: "example.com",
    scope: "Namespaced",
    names: { kind: "Widget", listKind: "WidgetList", plural: "widgets", singular: "widget" },
    versions: [
      {
        name: "v1",
        served: true,
        storage: true,
        schema: { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } },
      },
    ],
  },
};

/** 10,000 in full: most of the time is spent creating them. */
const MANY = process.env["TEST_SIZE"] === "full" ? 10_000 : 1_000;

let hub: TestCluster;
let running: { readonly selecting: Selecting; readonly stack: AsyncDisposableStack } | undefined;

async function start(pace: typeof AT_ONCE = AT_ONCE): Promise<void> {
  const stack = new AsyncDisposableStack();
  const deps = testDeps("hub");
  const { client } = hub;
  const informers = createPlacementInformers(client, deps);
  const selecting = createSelecting({ client, informers, contents: new ContentsCache(client), deps }, pace);
  running = { selecting, stack };
  stack.use(selecting);
  const { cluster, namespaced, shownStatuses } = informers;
  const owned = [cluster, namespaced].flatMap((it) => [
    it.placements,
    it.policySnapshots,
    it.resourceSnapshots,
    it.bindings,
    it.runs,
  ]);
  for (const informer of [...owned, shownStatuses]) {
    stack.use(informer);
    informer.start(AbortSignal.timeout(600_000));
  }
  for (const controller of selecting.controllers) {
    stack.use(controller);
    await controller.start(AbortSignal.timeout(600_000));
  }
}
async function stop(): Promise<void> {
  await running?.stack.disposeAsync();
  running = undefined;
}

beforeAll(async () => {
  hub = await startCluster("hub", []);
  const signal = AbortSignal.timeout(30_000);
  await installCrds(hub.client, { crds: PLACEMENT_CRDS, fieldManager: "test" }, testDeps("test"), signal);
  await start();
});
afterAll(async () => {
  await stop();
  await hub[Symbol.asyncDispose]();
});

const namespace = (name: string): ResourceSelector => ({ group: "", version: "v1", kind: "Namespace", name });
function place(name: string, ...resourceSelectors: ResourceSelector[]): Promise<Placement> {
  return hub.client.create(CLUSTER_RESOURCE_PLACEMENTS, { metadata: { name }, spec: { resourceSelectors } });
}
/** The parts of the latest snapshot, once it has all that is expected. */
async function snapshotOf(
  name: string,
  isRight: (placed: readonly string[]) => boolean,
  timeoutMs = 20_000,
): Promise<ResourceSnapshot[]> {
  const found = await eventually(
    hub.client,
    CLUSTER_RESOURCE_SNAPSHOTS,
    (all) => isRight(latestOf(all, name).flatMap(placedBy)),
    { timeoutMs, labelSelector: `${PARENT_PLACEMENT_LABEL}=${name}` },
  );
  return latestOf(found, name);
}
function latestOf(all: readonly ResourceSnapshot[], name: string): ResourceSnapshot[] {
  const master = all.find(
    ({ metadata: { labels } }) =>
      labels?.[PARENT_PLACEMENT_LABEL] === name && labels[LATEST_SNAPSHOT_LABEL] === "true",
  );
  const index = master?.metadata.labels?.[RESOURCE_INDEX_LABEL];
  return all.filter(
    ({ metadata: { labels } }) => index !== undefined && labels?.[RESOURCE_INDEX_LABEL] === index,
  );
}
function placedBy({ spec }: ResourceSnapshot): string[] {
  return spec.selectedResources.map((it) => `${it.kind}/${it.metadata.name}`);
}

describe("a placement", () => {
  it("of a namespace has its content as users wrote it, and follows it", async () => {
    const { client } = hub;
    await place("shop", namespace("shop"));
    await snapshotOf("shop", (placed) => placed.length === 0);
    await ensureNamespace(client, "shop");
    await client.create(CONFIG_MAPS, { metadata: { namespace: "shop", name: "settings" }, data: { a: "1" } });
    await client.create(SERVICES, {
      metadata: { namespace: "shop", name: "web" },
      spec: { type: "NodePort", ports: [{ port: 80 }] },
    });
    await client.create(SECRETS, {
      metadata: {
        namespace: "shop",
        name: "token",
        annotations: { "kubernetes.io/service-account.name": "default" },
      },
      type: "kubernetes.io/service-account-token",
    });
    const [master] = await snapshotOf(
      "shop",
      (placed) => placed.includes("Service/web") && placed.length === 3,
    );
    const { selectedResources } = master?.spec ?? { selectedResources: [] };
    expect(selectedResources.map((it) => it.kind)).toEqual(["Namespace", "ConfigMap", "Service"]);
    expect(selectedResources[1]).toEqual({
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: "settings", namespace: "shop" },
      data: { a: "1" },
    });
    const { spec } = selectedResources[2] as unknown as { spec: Record<string, unknown> };
    expect(spec["clusterIP"]).toBeUndefined();
    expect(spec["ports"]).toEqual([{ port: 80, protocol: "TCP", targetPort: 80 }]);
    await client.delete(CONFIG_MAPS, objectKey("shop", "settings"));
    await snapshotOf("shop", (placed) => placed.length === 2);
  });

  it("has a definition that is installed later, together with its objects", async () => {
    const { client } = hub;
    await ensureNamespace(client, "factory");
    const definition = { group: "apiextensions.k8s.io", version: "v1", kind: "CustomResourceDefinition" };
    await place("factory", { ...definition, name: WIDGET_CRD.metadata.name }, namespace("factory"));
    await snapshotOf("factory", (placed) => placed.length === 1);
    await client.create(CUSTOM_RESOURCE_DEFINITIONS, WIDGET_CRD);
    const widget = { metadata: { namespace: "factory", name: "w" }, spec: { size: 1 } };
    await expect
      .poll(() =>
        client.create(WIDGETS, widget).then(
          () => true,
          () => false,
        ),
      )
      .toBe(true);
    const [master] = await snapshotOf("factory", (placed) => placed.length === 3);
    expect(placedBy(master ?? { metadata: { name: "" }, spec: { selectedResources: [] } })).toEqual([
      "Namespace/factory",
      "CustomResourceDefinition/widgets.example.com",
      "Widget/w",
    ]);
    expect(running?.selecting.resources.watched).toContain("example.com/v1/Widget");
  });

  it("says what is wrong, and has no snapshot", async () => {
    await place(
      "wrong",
      namespace("shop"),
      { group: "", version: "v1", kind: "Secret" },
      namespace("kube-system"),
    );
    const wrong = await eventuallyOne(
      hub.client,
      CLUSTER_RESOURCE_PLACEMENTS,
      objectKey(undefined, "wrong"),
      (it) => it.status?.conditions !== undefined,
    );
    expect(wrong.status?.conditions).toMatchObject([
      { type: "ClusterResourcePlacementScheduled", status: "False", reason: "InvalidResourceSelectors" },
    ]);
    expect(wrong.status?.conditions?.[0]?.message).toMatch(
      /resourceSelectors\[1\]\.kind: Secret is namespaced.*resourceSelectors\[2\]\.name: namespace kube-system is reserved/,
    );
  });

  it(`of ${MANY} objects is split into parts, and costs one snapshot for one change, also after a restart`, async () => {
    const { client } = hub;
    await ensureNamespace(client, "large");
    const names = Array.from({ length: MANY }, (_, at) => `settings-${String(at).padStart(5, "0")}`);
    await inParallel(names, 32, async (name) => {
      await client.create(CONFIG_MAPS, {
        metadata: { namespace: "large", name },
        data: { a: "x".repeat(1000) },
      });
    });
    await place("large", namespace("large"));
    const parts = await snapshotOf("large", (placed) => placed.length === MANY + 1, 120_000);
    expect(parts.length).toBeGreaterThan(1);
    for (const it of parts) expect(JSON.stringify(it.spec).length).toBeLessThan(900 * 1024);
    expect(new Set(parts.flatMap(placedBy)).size).toBe(MANY + 1);
    await stop();
    await client.delete(CONFIG_MAPS, objectKey("large", names[0] ?? ""));
    await start();
    const after = await snapshotOf("large", (placed) => placed.length === MANY, 120_000);
    expect(after[0]?.metadata.labels?.[RESOURCE_INDEX_LABEL]).toBe("1");
  }, 180_000);
});
