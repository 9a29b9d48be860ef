/** Placements from the hub to members: real API servers, every controller, and the appliers of two members. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { DEPLOYMENTS } from "@fairlead/kube/api/apps/v1/types.ts";
import { CONFIG_MAPS, type CoreEvent, EVENTS, NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Condition, KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  CLUSTER_RESOURCE_OVERRIDES,
  PLACEMENT_EVICTIONS,
  RESOURCE_ENVELOPES,
} from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/overrides.ts";
import {
  CLUSTER_RESOURCE_BINDINGS,
  CLUSTER_RESOURCE_PLACEMENTS,
  type ResourceBinding,
  RESOURCE_BINDINGS,
  RESOURCE_PLACEMENTS,
} from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { WORKS } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { cordonCluster } from "@fairlead/fleet/cli/fleet/cordon.ts";
import { drainPlacements } from "@fairlead/fleet/cli/fleet/drain-placements.ts";
import { ensureNamespace, PATIENCE_MS, startFleet, testDeps, type TestFleet } from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";

let fleet: TestFleet;
let hub: KubeClient;
beforeAll(async () => {
  fleet = await startFleet({ members: ["a", "b"], placement: true });
  hub = fleet.client("hub");
  await hub.create(NAMESPACES, { metadata: { name: "shop", labels: { team: "shop" } } });
  await hub.create(CONFIG_MAPS, configMap("one", { v: "0" }));
  const quota = {
    apiVersion: "v1",
    kind: "ResourceQuota",
    metadata: { namespace: "shop", name: "quota" },
    spec: { hard: { pods: "10" } },
  };
  await hub.create(RESOURCE_ENVELOPES, { metadata: { namespace: "shop", name: "box" }, data: { quota } });
  await hub.create(CLUSTER_RESOURCE_PLACEMENTS, {
    metadata: { name: "shop" },
    spec: { resourceSelectors: [{ group: "", version: "v1", kind: "Namespace", name: "shop" }] },
  });
}, 90_000);
afterAll(() => fleet[Symbol.asyncDispose]());

function configMap(
  name: string,
  data: Readonly<Record<string, string>>,
): KubeObject & { data: Record<string, string> } {
  return { metadata: { namespace: "shop", name }, data: { ...data } };
}

const named = (name: string): ObjectKey => objectKey(undefined, name);
const isTrue = (conditions: readonly Condition[] | undefined, type: string): boolean =>
  conditions?.find((it) => it.type === type)?.status === "True";
const areAvailable = (bindings: readonly ResourceBinding[], clusters: readonly string[]): boolean =>
  bindings
    .map((it) => it.spec.targetCluster)
    .toSorted()
    .join(" ") === clusters.join(" ") && bindings.every((it) => isTrue(it.status?.conditions, "Available"));

describe("a namespace that is placed", () => {
  it("is in every member with its content, and its placement says so", async () => {
    const bindings = await eventually(hub, CLUSTER_RESOURCE_BINDINGS, (all) => areAvailable(all, ["a", "b"]));
    for (const { status } of bindings)
      expect(status?.conditions?.map((it) => `${it.type}=${it.status} ${it.reason}`)).toEqual([
        "RolloutStarted=True RolloutStarted",
        "Overridden=True NoOverrideSpecified",
        "WorkSynchronized=True AllWorkSynced",
        "Applied=True AllWorkHaveBeenApplied",
        "Available=True AllWorkAreAvailable",
      ]);
    for (const name of ["a", "b"])
      expect(await fleet.client(name).get(CONFIG_MAPS, objectKey("shop", "one"))).toMatchObject({
        data: { v: "0" },
      });
    await eventuallyOne(hub, CLUSTER_RESOURCE_PLACEMENTS, named("shop"), (it) =>
      isTrue(it.status?.conditions, "ClusterResourcePlacementAvailable"),
    );
  });
  it("has Events with KubeFleet's reasons, a few for one rollout", async () => {
    const isOf = (it: CoreEvent): boolean => it.involvedObject.kind === "ClusterResourcePlacement";
    const events = await eventually(hub, EVENTS, (all) =>
      all.some((it) => isOf(it) && it.reason === "PlacementRolloutCompleted"),
    );
    expect(events.filter(isOf).length).toBeLessThanOrEqual(8);
  });
  it("has what its envelopes hold, in Works of their own", async () => {
    const works = await hub.list(WORKS, { namespace: "fleet-member-a" });
    expect(works.items.map((it) => it.metadata.name)).toEqual([
      expect.stringMatching(/^shop-envelope-[\da-f]{16}$/),
      "shop-work",
    ]);
    const quota = await fleet.client("a").request("GET", "/api/v1/namespaces/shop/resourcequotas/quota");
    expect(quota).toMatchObject({ spec: { hard: { pods: "10" } } });
  });
  it("is overridden in the members that an override selects, and as before when the override goes", async () => {
    await hub.create(CLUSTER_RESOURCE_OVERRIDES, {
      metadata: { name: "cluster-label" },
      spec: {
        clusterResourceSelectors: [{ group: "", version: "v1", kind: "Namespace", name: "shop" }],
        policy: {
          overrideRules: [
            {
              clusterSelector: { clusterSelectorTerms: [{ labelSelector: { matchLabels: { zone: "b" } } }] },
              jsonPatchOverrides: [
                { op: "add", path: "/metadata/labels", value: { in: "${MEMBER-CLUSTER-NAME}" } },
              ],
            },
          ],
        },
      },
    });
    await hub.mergePatch(MEMBER_CLUSTERS, named("b"), { metadata: { labels: { zone: "b" } } });
    await eventuallyOne(
      fleet.client("b"),
      NAMESPACES,
      named("shop"),
      (it) => it.metadata.labels?.["in"] === "b",
    );
    await eventually(hub, CLUSTER_RESOURCE_BINDINGS, (all) => areAvailable(all, ["a", "b"]));
    expect((await fleet.client("a").get(NAMESPACES, named("shop"))).metadata.labels?.["in"]).toBeUndefined();
    await hub.delete(CLUSTER_RESOURCE_OVERRIDES, named("cluster-label"));
    await eventuallyOne(
      fleet.client("b"),
      NAMESPACES,
      named("shop"),
      (it) => it.metadata.labels?.["in"] === undefined,
    );
    await eventually(hub, CLUSTER_RESOURCE_BINDINGS, (all) => areAvailable(all, ["a", "b"]));
  });
  it("leaves a member by an eviction, and comes back where nothing keeps it away", async () => {
    const before = (await hub.list(CLUSTER_RESOURCE_BINDINGS)).items.find(
      (it) => it.spec.targetCluster === "b",
    );
    await hub.create(PLACEMENT_EVICTIONS, {
      metadata: { name: "away" },
      spec: { placementName: "shop", clusterName: "b" },
    });
    const eviction = await eventuallyOne(hub, PLACEMENT_EVICTIONS, named("away"), (it) =>
      isTrue(it.status?.conditions, "Executed"),
    );
    expect(eviction.status?.conditions?.map((it) => it.reason)).toEqual([
      "ClusterResourcePlacementEvictionValid",
      "ClusterResourcePlacementEvictionExecuted",
    ]);
    await eventually(
      hub,
      CLUSTER_RESOURCE_BINDINGS,
      (all) => areAvailable(all, ["a", "b"]) && all.every((it) => it.metadata.uid !== before?.metadata.uid),
    );
  });
  it("leaves a member that is cordoned and drained, and comes back when that ends", async () => {
    const { signal } = new AbortController();
    await cordonCluster(hub, { name: "b", cordoned: true }, signal);
    const options = { name: "b", wait: true, timeoutMs: PATIENCE_MS };
    expect(await drainPlacements(hub, options, testDeps("drain"), signal)).toMatchObject([
      { kind: "ClusterResourcePlacement", placement: "shop", outcome: "Removed" },
    ]);
    await eventually(fleet.client("b"), CONFIG_MAPS, (all) => !all.some((it) => it.metadata.name === "one"));
    expect(areAvailable((await hub.list(CLUSTER_RESOURCE_BINDINGS)).items, ["a"])).toBe(true);
    await cordonCluster(hub, { name: "b", cordoned: false }, signal);
    await eventually(hub, CLUSTER_RESOURCE_BINDINGS, (all) => areAvailable(all, ["a", "b"]));
  });
  it("is written no more when everything is as it should be, also by a hub that starts again", async () => {
    const versions = async (): Promise<string> => {
      const [bindings, works] = [await hub.list(CLUSTER_RESOURCE_BINDINGS), await hub.list(WORKS)];
      return [...bindings.items, ...works.items].map((it) => it.metadata.resourceVersion).join(" ");
    };
    const before = await versions();
    await fleet.hubProgram.stop();
    fleet.hubProgram.start();
    await hub.create(CLUSTER_RESOURCE_PLACEMENTS, {
      metadata: { name: "other" },
      spec: {
        resourceSelectors: [{ group: "", version: "v1", kind: "Namespace", name: "none" }],
        policy: { placementType: "PickFixed", clusterNames: ["c"] },
      },
    });
    await eventuallyOne(
      hub,
      CLUSTER_RESOURCE_PLACEMENTS,
      named("other"),
      (it) => it.status?.conditions !== undefined,
    );
    expect(await versions()).toBe(before);
  });
});

it("a ResourcePlacement places objects of its namespace, through the same mailboxes", async () => {
  // No other placement places it.
  const namespace = "apart";
  for (const it of [hub, fleet.client("a")]) await ensureNamespace(it, namespace);
  await hub.create(CONFIG_MAPS, { metadata: { namespace, name: "two" }, data: { v: "2" } });
  await hub.create(RESOURCE_PLACEMENTS, {
    metadata: { namespace, name: "two" },
    spec: {
      resourceSelectors: [{ group: "", version: "v1", kind: "ConfigMap", name: "two" }],
      policy: { placementType: "PickFixed", clusterNames: ["a"] },
    },
  });
  await eventually(hub, RESOURCE_BINDINGS, (all) =>
    all.some((it) => isTrue(it.status?.conditions, "Applied")),
  );
  const names = (await hub.list(WORKS, { namespace: "fleet-member-a" })).items.map((it) => it.metadata.name);
  expect(names).toContain("apart.two-work");
});

it("the status of an object in its one member is that of the object on the hub, where the placement asks for it", async () => {
  const name = "mirrored";
  await hub.create(NAMESPACES, { metadata: { name } });
  const labels = { app: name };
  const template = { metadata: { labels }, spec: { containers: [{ name, image: "none" }] } };
  await hub.create(DEPLOYMENTS, {
    metadata: { namespace: name, name },
    spec: { selector: { matchLabels: labels }, template },
  });
  await hub.create(CLUSTER_RESOURCE_PLACEMENTS, {
    metadata: { name },
    spec: {
      resourceSelectors: [{ group: "", version: "v1", kind: "Namespace", name }],
      policy: { placementType: "PickFixed", clusterNames: ["a"] },
      strategy: { reportBackStrategy: { type: "Mirror", destination: "OriginalResource" } },
    },
  });
  const member = fleet.client("a");
  await eventuallyOne(member, DEPLOYMENTS, objectKey(name, name));
  const status = {
    observedGeneration: 1,
    replicas: 1,
    updatedReplicas: 1,
    readyReplicas: 1,
    availableReplicas: 1,
  };
  await member.mergePatch(DEPLOYMENTS, objectKey(name, name), { status }, { subresource: "status" });
  await eventuallyOne(hub, DEPLOYMENTS, objectKey(name, name), (it) => it.status?.readyReplicas === 1);
});

it("a placement that is deleted with the strategy to abandon its objects leaves them in the member", async () => {
  const strategy = { deleteStrategy: { propagationPolicy: "Abandon" } };
  await hub.mergePatch(CLUSTER_RESOURCE_PLACEMENTS, named("mirrored"), { spec: { strategy } });
  await hub.delete(CLUSTER_RESOURCE_PLACEMENTS, named("mirrored"));
  await eventually(hub, CLUSTER_RESOURCE_PLACEMENTS, (all) =>
    all.every((it) => it.metadata.name !== "mirrored"),
  );
  const left = await fleet.client("a").get(DEPLOYMENTS, objectKey("mirrored", "mirrored"));
  expect(left.metadata).not.toHaveProperty("deletionTimestamp");
  expect(left.metadata.ownerReferences ?? []).toEqual([]);
  await fleet.client("a").get(NAMESPACES, named("mirrored"));
});

it("a placement that is deleted leaves the members, and its Works go", async () => {
  await hub.delete(CLUSTER_RESOURCE_PLACEMENTS, named("shop"));
  await eventually(hub, CLUSTER_RESOURCE_BINDINGS, (all) =>
    all.every((it) => !it.metadata.name.startsWith("shop-")),
  );
  await eventually(fleet.client("b"), NAMESPACES, (all) => all.every((it) => it.metadata.name !== "shop"));
  expect((await hub.list(WORKS, { namespace: "fleet-member-b" })).items).toEqual([]);
});
