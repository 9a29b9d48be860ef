import { beforeEach, describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { PARENT_PLACEMENT_LABEL } from "#api/placement.kubernetes-fleet.io/names.ts";
import {
  CLUSTER_RESOURCE_BINDINGS,
  CLUSTER_RESOURCE_PLACEMENTS,
  CLUSTER_SCHEDULING_POLICY_SNAPSHOTS,
  type Placement,
  type PlacementPolicy,
  RESOURCE_PLACEMENTS,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { fakeBinding, fakeMember } from "#placement/scheduling/cluster.fake.ts";
import { planPolicySnapshot } from "#placement/snapshots/policy.ts";
import { explainOnHub, type ExplainQuestion } from "./explain.ts";
import { renderExplain } from "./render-explain.ts";

const NOW = Date.parse("2026-06-01T00:01:00Z");
const policy: PlacementPolicy = { placementType: "PickN", numberOfClusters: 2 };
const preferred = {
  clusterAffinity: {
    preferredDuringSchedulingIgnoredDuringExecution: [
      { weight: 10, preference: { labelSelector: { matchLabels: { env: "prod" } } } },
    ],
  },
};

const clock = new FakeClock(NOW);
let hub: FakeKubeClient;

beforeEach(() => {
  hub = new FakeKubeClient(clock);
  const placement: Placement = {
    metadata: { name: "web", generation: 1 },
    spec: { resourceSelectors: [], policy },
  };
  hub.seed(CLUSTER_RESOURCE_PLACEMENTS, placement);
  const { create } = planPolicySnapshot({ placement, snapshots: [], bindings: [] });
  if (create !== undefined) hub.seed(CLUSTER_SCHEDULING_POLICY_SNAPSHOTS, create);
  hub.seed(
    MEMBER_CLUSTERS,
    fakeMember("member-1", { taints: [{ key: "maintenance", effect: "NoSchedule" }] }),
    fakeMember("member-2", { labels: { env: "prod" } }),
    fakeMember("member-3"),
    fakeMember("member-4", { heartbeat: "2026-05-31T20:00:00Z" }),
  );
  const labels = { [PARENT_PLACEMENT_LABEL]: "web" };
  const spec = { schedulingPolicySnapshotName: "web-0" };
  hub.seed(
    CLUSTER_RESOURCE_BINDINGS,
    fakeBinding("member-1", spec, { labels }),
    fakeBinding("member-3", spec, { labels }),
    fakeBinding("member-2", spec, { labels: { [PARENT_PLACEMENT_LABEL]: "other" } }),
  );
});

async function explained(question: Partial<ExplainQuestion>): Promise<string> {
  const whole = { name: undefined, namespace: undefined, file: undefined, cluster: undefined, ...question };
  return renderExplain(await explainOnHub(hub, whole, clock, new AbortController().signal));
}
function fileOf(spec: object, kind = "ClusterResourcePlacement", name = "web"): ExplainQuestion["file"] {
  const object = { apiVersion: "placement.kubernetes-fleet.io/v1", kind, metadata: { name }, spec };
  return { name: "web.yaml", text: JSON.stringify(object) };
}

describe("placement explain", () => {
  it("shows for each cluster whether it is picked, and why", async () => {
    await expect(`${await explained({ name: "web" })}\n`).toMatchFileSnapshot("goldens/explain.txt");
  });
  it("shows the word of each plugin about one cluster", async () => {
    const text = await explained({ name: "web", cluster: "member-1" });
    await expect(`${text}\n`).toMatchFileSnapshot("goldens/explain-cluster.txt");
  });
  it("shows what a changed policy would move, and changes nothing", async () => {
    const text = await explained({
      file: fileOf({ resourceSelectors: [], policy: { ...policy, affinity: preferred } }),
    });
    await expect(`${text}\n`).toMatchFileSnapshot("goldens/explain-change.txt");
    expect(hub.writes).toEqual([]);
    expect(hub.objects(CLUSTER_RESOURCE_PLACEMENTS)[0]?.spec.policy).toEqual(policy);
  });
  it("shows which clusters a new placement would get", async () => {
    const file = fileOf({ resourceSelectors: [] }, "ResourcePlacement", "new");
    expect(await explained({ file, namespace: "shop" })).toContain(
      "adds member-2, member-3; keeps 0 clusters",
    );
    expect(hub.objects(RESOURCE_PLACEMENTS)).toEqual([]);
  });
  it.each<[string, Partial<ExplainQuestion>, string]>([
    ["no name", {}, "no placement is named: pass its name, or a manifest of it with -f"],
    ["an unknown name", { name: "x" }, "the hub has no ClusterResourcePlacement x"],
    ["an unknown cluster", { name: "web", cluster: "x" }, "the fleet has no cluster x"],
    ["two names", { name: "x", file: fileOf({}) }, "web.yaml has placement web, not x"],
    [
      "a file of something else",
      { file: { name: "f", text: "kind: Pod" } },
      "f has 0 placements; it needs to have one",
    ],
  ])("refuses %s", async (_, question, message) => {
    await expect(explained(question)).rejects.toThrow(message);
  });
});
