/** Placements in a lab: what is staged on the hub runs on members, is exported there, and is used from elsewhere. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { DEPLOYMENTS } from "@fairlead/kube/api/apps/v1/types.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  CLUSTER_RESOURCE_BINDINGS,
  CLUSTER_RESOURCE_PLACEMENTS,
  CLUSTER_RESOURCE_SNAPSHOTS,
  type Placement,
} from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { APPLIED_WORKS, WORKS } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { startLab, type TestLab } from "../support/lab-fixture.ts";
import {
  echoDeployment,
  fleetExport,
  mcsExport,
  multiClusterService,
  namespace,
  service,
  shellPod,
} from "../support/lab-manifests.ts";
import { eventually, eventuallyOne, until } from "../support/waiting.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";

const WEB = { namespace: "shop", name: "web" };
const PLACED = ["member-1", "member-2"] as const;
const SHOP = objectKey(undefined, "shop");
const URL = "http://web.shop.svc.clusterset.local/";

const terms = [{ labelSelector: { matchLabels: { tier: "web" } } }];
const placement = {
  apiVersion: "placement.kubernetes-fleet.io/v1",
  kind: "ClusterResourcePlacement",
  metadata: { name: "shop" },
  spec: {
    resourceSelectors: [{ group: "", version: "v1", kind: "Namespace", name: "shop" }],
    policy: {
      placementType: "PickAll",
      affinity: {
        clusterAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { clusterSelectorTerms: terms } },
      },
    },
  },
};

const conditions = (it: Placement): readonly string[] =>
  (it.status?.conditions ?? []).map(({ type, status, reason }) => `${type}=${status} ${reason}`);

describeOnKernel("a placement of a namespace on the members with a label", () => {
  let lab: TestLab;
  beforeAll(async () => {
    lab = await startLab({ name: "eplace", members: 3 });
    const hub = await lab.client("hub");
    for (const it of PLACED)
      await hub.mergePatch(MEMBER_CLUSTERS, objectKey(undefined, it), {
        metadata: { labels: { tier: "web" } },
      });
    const staged = [echoDeployment(WEB, 2), service(WEB), mcsExport(WEB), fleetExport(WEB)];
    await lab.apply("hub", namespace("shop"), ...staged, placement);
  });
  afterAll(() => lab?.[Symbol.asyncDispose]());

  const placed = async (isSo: (it: Placement) => boolean): Promise<Placement> =>
    eventuallyOne(await lab.client("hub"), CLUSTER_RESOURCE_PLACEMENTS, SHOP, (it) => isSo(it));

  it("runs on each of them, and reports every step of it", async () => {
    const done = await placed(
      (it) => conditions(it).length === 6 && conditions(it).every((text) => text.includes("=True")),
    );
    expect(conditions(done)).toEqual([
      "ClusterResourcePlacementScheduled=True SchedulingPolicyFulfilled",
      "ClusterResourcePlacementRolloutStarted=True RolloutStarted",
      "ClusterResourcePlacementOverridden=True NoOverrideSpecified",
      "ClusterResourcePlacementWorkSynchronized=True WorkSynchronized",
      "ClusterResourcePlacementApplied=True ApplySucceeded",
      "ClusterResourcePlacementAvailable=True ResourceAvailable",
    ]);
    expect(done.status?.placementStatuses?.map((it) => it.clusterName)).toEqual(PLACED);
    expect(await (await lab.client("member-3")).find(NAMESPACES, SHOP)).toBeUndefined();
  });

  it("is exported by both, and a third member reaches it by name and by a MultiClusterService", async () => {
    const probe = shellPod({ namespace: "shop", name: "probe" });
    await lab.apply("member-3", namespace("shop"), probe, multiClusterService(WEB));
    await until(
      "both members answer",
      () => lab.ask("member-3", "shop/probe", { url: URL, count: 16 }),
      (it) => it.every(Boolean) && new Set(it.map((answer) => answer?.cluster)).size === 2,
    );
    const address = await until(
      "the MultiClusterService has an address",
      () =>
        lab.kubectl("member-3", [
          "-n",
          "shop",
          "get",
          "multiclusterservice",
          "web",
          "-o",
          "jsonpath={.status.loadBalancer.ingress[0].ip}",
        ]),
      ({ stdout }) => stdout !== "",
    );
    expect(
      await lab.ask("member-3", "shop/probe", { url: `http://${address.stdout}/`, count: 1 }),
    ).not.toContain(undefined);
  });

  it("can be overridden by one override for each object: the hub's API server asks the hub", async () => {
    const override = (name: string) => ({
      apiVersion: "placement.kubernetes-fleet.io/v1beta1",
      kind: "ClusterResourceOverride",
      metadata: { name },
      spec: {
        clusterResourceSelectors: [{ group: "", version: "v1", kind: "Namespace", name: "another" }],
        policy: { overrideRules: [{ overrideType: "Delete" }] },
      },
    });
    await lab.apply("hub", override("first"));
    await expect(lab.apply("hub", override("second"))).rejects.toThrow("is selected by override first");
  });

  it("follows the hub's objects, and puts back what is changed in a member", async () => {
    await lab.kubectl("hub", ["-n", "shop", "scale", "deployment", "web", "--replicas=1"]);
    for (const it of PLACED)
      await eventuallyOne(
        await lab.client(it),
        DEPLOYMENTS,
        objectKey("shop", "web"),
        (found) => found.spec?.replicas === 1,
      );
    const member = await lab.client("member-1");
    await member.delete(DEPLOYMENTS, objectKey("shop", "web"));
    await eventuallyOne(
      member,
      DEPLOYMENTS,
      objectKey("shop", "web"),
      (found) => found?.status?.availableReplicas === 1,
    );
  });

  it("loses nothing when the hub's programs and the members' are killed", async () => {
    const before = await Promise.all(
      PLACED.map(
        async (it) => (await (await lab.client(it)).get(DEPLOYMENTS, objectKey("shop", "web"))).metadata.uid,
      ),
    );
    for (const it of ["hub/hub", "member-1/member", "member-2/member"]) await lab.lab("kill", [it]);
    for (const it of ["hub/hub", "member-1/member", "member-2/member"]) await lab.lab("restore", [it]);
    await lab.kubectl("hub", ["-n", "shop", "label", "deployment", "web", "round=two"]);
    for (const it of PLACED)
      await eventuallyOne(
        await lab.client(it),
        DEPLOYMENTS,
        objectKey("shop", "web"),
        (found) => found?.metadata.labels?.["round"] === "two",
      );
    const after = await Promise.all(
      PLACED.map(
        async (it) => (await (await lab.client(it)).get(DEPLOYMENTS, objectKey("shop", "web"))).metadata.uid,
      ),
    );
    expect(after).toEqual(before);
  });

  it("leaves nothing in the members when it is deleted", async () => {
    const hub = await lab.client("hub");
    await hub.delete(CLUSTER_RESOURCE_PLACEMENTS, SHOP);
    await eventually(hub, CLUSTER_RESOURCE_PLACEMENTS, (all) => all.length === 0);
    for (const it of PLACED) {
      const member = await lab.client(it);
      await eventually(member, NAMESPACES, (all) => all.every(({ metadata }) => metadata.name !== "shop"));
      await eventually(member, APPLIED_WORKS, (all) => all.length === 0);
    }
    await eventually(hub, CLUSTER_RESOURCE_BINDINGS, (all) => all.length === 0);
    await eventually(hub, CLUSTER_RESOURCE_SNAPSHOTS, (all) => all.length === 0);
    await eventually(hub, WORKS, (all) => all.length === 0);
    expect((await hub.get(NAMESPACES, SHOP)).metadata.deletionTimestamp).toBeUndefined();
  });
});
