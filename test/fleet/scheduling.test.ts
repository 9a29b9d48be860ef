/** From a placement to Works in mailboxes: all controllers of the hub, a real API server, and members that only say that they are there. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { systemClock } from "@fairlead/base/clock.ts";
import { explainOnHub } from "@fairlead/fleet/cli/placement/explain.ts";
import { HUB_CRDS } from "@fairlead/fleet/api/crds.ts";
import {
  INTERNAL_MEMBER_CLUSTERS,
  MEMBER_CLUSTERS,
} from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  CLUSTER_RESOURCE_BINDINGS,
  CLUSTER_RESOURCE_PLACEMENTS,
  CLUSTER_SCHEDULING_POLICY_SNAPSHOTS,
  type PlacementPolicy,
  type ResourceBinding,
} from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { WORKS } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { type Hub, startHub } from "@fairlead/fleet/hub/hub.ts";
import { installCrds } from "@fairlead/kube/definitions/crds.ts";
import { CONFIG_MAPS } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { isConditionTrue } from "@fairlead/kube/objects/conditions.ts";
import { ensureNamespace, startCluster, type TestCluster, testDeps } from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";

let stack: AsyncDisposableStack;
let hub: TestCluster;
const stop = new AbortController();

beforeAll(async () => {
  stack = new AsyncDisposableStack();
  stack.defer(() => stop.abort());
  hub = stack.use(await startCluster("hub", []));
  await installCrds(hub.client, { crds: HUB_CRDS, fieldManager: "test" }, testDeps("test"), stop.signal);
  const running: Hub = await startHub(hub.client, { placement: true }, testDeps("hub"), stop.signal);
  stack.use(running);
  await Promise.all(["a", "b", "c"].map(join));
});
afterAll(() => stack.disposeAsync());

async function join(name: string): Promise<void> {
  const identity = { kind: "User" as const, name, apiGroup: "rbac.authorization.k8s.io" };
  await hub.client.create(MEMBER_CLUSTERS, {
    metadata: { name, labels: { zone: name === "a" ? "x" : "y" } },
    spec: { identity },
  });
  const key = objectKey(`fleet-member-${name}`, name);
  await eventuallyOne(hub.client, INTERNAL_MEMBER_CLUSTERS, key, () => true);
  const now = new Date().toISOString();
  const conditions = ["Joined", "Healthy"].map((type) => ({
    type,
    status: "True" as const,
    reason: "Test",
    message: "",
    lastTransitionTime: now,
  }));
  const agentStatus = [{ type: "MemberAgent", conditions, lastReceivedHeartbeat: now }];
  await hub.client.mergePatch(
    INTERNAL_MEMBER_CLUSTERS,
    key,
    { status: { agentStatus } },
    { subresource: "status" },
  );
}

async function place(name: string, policy: PlacementPolicy): Promise<void> {
  await ensureNamespace(hub.client, name);
  await hub.client.create(CONFIG_MAPS, { metadata: { namespace: name, name: "c" }, data: { a: "1" } });
  await hub.client.create(CLUSTER_RESOURCE_PLACEMENTS, {
    metadata: { name },
    spec: { resourceSelectors: [{ group: "", version: "v1", kind: "Namespace", name }], policy },
  });
}
const placedIn = (all: readonly ResourceBinding[], name: string): string =>
  all
    .filter((it) => it.metadata.labels?.["kubernetes-fleet.io/parent-CRP"] === name)
    .map((it) => `${it.spec.targetCluster}:${it.spec.state}`)
    .toSorted()
    .join(" ");

const SPREAD = {
  placementType: "PickN",
  topologySpreadConstraints: [{ topologyKey: "zone" }],
} satisfies PlacementPolicy;
const MANIFEST = {
  apiVersion: "placement.kubernetes-fleet.io/v1",
  kind: "ClusterResourcePlacement",
  metadata: { name: "shop" },
};

it("a placement has Works in the clusters that its policy picks, and fewer after a change of the policy", async () => {
  await place("shop", { ...SPREAD, numberOfClusters: 2 });
  await eventually(
    hub.client,
    CLUSTER_RESOURCE_BINDINGS,
    (all) => placedIn(all, "shop") === "a:Bound c:Bound",
  );
  await eventually(hub.client, WORKS, (all) => all.length === 2);
  await eventually(hub.client, CLUSTER_SCHEDULING_POLICY_SNAPSHOTS, ([it]) =>
    isConditionTrue(it?.status?.conditions, "Scheduled"),
  );
  const key = objectKey(undefined, "shop");
  const { spec } = await hub.client.get(CLUSTER_RESOURCE_PLACEMENTS, key);
  const same = { ...spec, policy: { ...SPREAD, numberOfClusters: 2 } };
  const affinity = {
    clusterAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: {
        clusterSelectorTerms: [{ labelSelector: { matchLabels: { zone: "x" } } }],
      },
    },
  };
  const policy = { placementType: "PickN", numberOfClusters: 1, affinity } as const;
  const moved = async (to: object): Promise<object> => {
    const text = JSON.stringify({ ...MANIFEST, spec: to });
    const question = { name: undefined, namespace: undefined, file: { name: "f", text }, cluster: undefined };
    const reported = await explainOnHub(hub.client, question, systemClock, stop.signal);
    return {
      snapshot: reported.policySnapshot,
      changes: reported.clusters
        .filter((it) => it.change !== "none")
        .map((it) => `${it.change} ${it.cluster}`),
    };
  };
  expect(await moved(same)).toEqual({ snapshot: "shop-0", changes: [] });
  expect(await moved({ ...spec, policy })).toEqual({ snapshot: "shop-1", changes: ["remove c"] });
  await expect(moved({ ...spec, policy: { placementType: "PickAll" } })).rejects.toThrow(
    "placement type is immutable",
  );
  await hub.client.mergePatch(CLUSTER_RESOURCE_PLACEMENTS, key, {
    spec: { policy: { ...policy, topologySpreadConstraints: null } },
  });
  // No member applies anything, so that the rollout may not remove c: the budget is used up.
  await eventually(
    hub.client,
    CLUSTER_RESOURCE_BINDINGS,
    (all) => placedIn(all, "shop") === "a:Bound c:Unscheduled",
  );
  await hub.client.delete(CLUSTER_RESOURCE_PLACEMENTS, key);
  await eventually(hub.client, WORKS, (all) => all.length === 0);
  await eventually(hub.client, CLUSTER_RESOURCE_PLACEMENTS, (all) => all.length === 0);
});
