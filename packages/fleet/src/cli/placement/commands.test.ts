import { beforeEach, describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { apiVersionOf, type Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { Condition, KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import {
  CLUSTER_RESOURCE_BINDINGS,
  CLUSTER_RESOURCE_PLACEMENTS,
  CLUSTER_RESOURCE_SNAPSHOTS,
  type Placement,
  type PlacementStatus,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { type Work, WORKS } from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { fakeBinding } from "#placement/scheduling/cluster.fake.ts";
import { contentOf } from "#placement/selection/content.ts";
import { KINDS, object } from "#placement/selection/objects.fake.ts";
import { identifierIn } from "#placement/selection/select.ts";
import { resourceSnapshots } from "#placement/snapshots/resources.ts";
import { diffOnHub, renderDiff } from "./diff.ts";
import { historyOnHub, renderHistory } from "./history.ts";
import { renderRollback, rollbackOnHub } from "./rollback.ts";
import { renderStatus, type StatusQuestion, statusOnHub } from "./status.ts";

const NOW = Date.parse("2026-06-01T00:00:00Z");
const web = { name: "web", namespace: undefined };
const { signal } = new AbortController();
const placement: Placement = {
  metadata: { name: "web", generation: 1 },
  spec: { resourceSelectors: [{ group: "", version: "v1", kind: "Namespace", name: "shop" }] },
};

/** Serves discovery for the kinds of the tests. */
class FakeHub extends FakeKubeClient {
  override request(_method: string, path: string): Promise<unknown> {
    const groups = [...new Set(Object.values(KINDS).map((it) => it.group))].filter((it) => it !== "");
    if (path === "/apis")
      return Promise.resolve({
        groups: groups.map((name) => ({
          name,
          preferredVersion: { version: "v1" },
          versions: [{ version: "v1" }],
        })),
      });
    const kinds: readonly Resource[] = Object.values(KINDS);
    const resources = kinds
      .filter((it) => path === (it.group === "" ? "/api/v1" : `/apis/${apiVersionOf(it)}`))
      .map(({ plural, kind, namespaced }) => ({
        name: plural,
        kind,
        namespaced,
        verbs: ["get", "list", "watch"],
      }));
    return Promise.resolve({ resources });
  }
}

let clock: FakeClock;
let hub: FakeHub;
const shop = object(KINDS.namespace, "shop");
const settings = (value: string): KubeObject =>
  object(KINDS.configMap, "settings", { data: { level: value } });
const secret = (value: string): KubeObject => object(KINDS.secret, "key", { data: { key: value } });

async function seedSnapshot(index: number, ...objects: readonly KubeObject[]): Promise<void> {
  for (const it of hub.objects(CLUSTER_RESOURCE_SNAPSHOTS))
    await hub.mergePatch(CLUSTER_RESOURCE_SNAPSHOTS, objectKey(undefined, it.metadata.name), {
      metadata: { labels: { "kubernetes-fleet.io/is-latest-snapshot": "false" } },
    });
  const selected = objects.map((it) => ({ id: identifierIn(it), content: contentOf(it) }));
  hub.seed(
    CLUSTER_RESOURCE_SNAPSHOTS,
    ...resourceSnapshots(placement, { index, hash: `${index}`.repeat(64), objects: selected }),
  );
}

beforeEach(async () => {
  clock = new FakeClock(NOW);
  hub = new FakeHub(clock);
  hub.seed(CLUSTER_RESOURCE_PLACEMENTS, placement);
  await seedSnapshot(0, shop, settings("old"), secret("b2xk"));
  await clock.advance(3_600_000);
  await seedSnapshot(1, shop, settings("new"), secret("bmV3"), object(KINDS.service, "web", { spec: {} }));
  const labels = { "kubernetes-fleet.io/parent-CRP": "web" };
  hub.seed(
    CLUSTER_RESOURCE_BINDINGS,
    fakeBinding("member-1", { resourceSnapshotName: "web-1-snapshot" }, { labels }),
    fakeBinding("member-2", { resourceSnapshotName: "web-0-snapshot" }, { labels }),
  );
  hub.seed(KINDS.namespace, shop);
  hub.seed(KINDS.configMap, settings("newest"), object(KINDS.configMap, "kube-root-ca.crt"));
  hub.seed(KINDS.secret, secret("bmV3ZXN0"));
  hub.seed(KINDS.service, object(KINDS.service, "web", { spec: { clusterIP: "10.0.0.1" } }));
  await clock.advance(60_000);
});

it("history lists the snapshots with the clusters that have them", async () => {
  expect(renderHistory(await historyOnHub(hub, web, signal), clock.now())).toBe(
    [
      "INDEX        AGE    OBJECTS   HASH           CLUSTERS",
      "1 (latest)   1m     4         111111111111   member-1",
      "0            1h1m   3         000000000000   member-2",
    ].join("\n"),
  );
});

describe("diff", () => {
  const diff = async (from?: number, to?: number): Promise<string> =>
    renderDiff(await diffOnHub(hub, { ...web, from, to }, signal));
  it("shows what is on the hub and in no snapshot yet, without the content of Secrets", async () => {
    expect(await diff()).toBe(
      [
        "From snapshot 1 to the hub: 0 added, 2 changed, 0 removed; on member-1, member-2",
        "~ ConfigMap shop/settings",
        "    /data/level: new -> newest",
        "~ Secret shop/key",
        "    /data/key: (redacted for security reasons) -> (redacted for security reasons)",
      ].join("\n"),
    );
  });
  it("compares two snapshots", async () => {
    expect(await diff(1, 0)).toMatch(
      /^From snapshot 1 to snapshot 0: 0 added, 2 changed, 1 removed; on member-1\n/,
    );
    expect(await diff(0, 0)).toBe("No differences between snapshot 0 and snapshot 0.");
  });
  it("shows what other selectors of a manifest would place", async () => {
    const text = `
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: { name: web }
spec:
  resourceSelectors:
    - { group: "", version: v1, kind: Namespace, name: shop, selectionScope: NamespaceOnly }
`;
    const question = { ...web, from: undefined, to: undefined, file: { name: "web.yaml", text } };
    expect(renderDiff(await diffOnHub(hub, question, signal))).toMatch(
      /^From snapshot 1 to the hub: 0 added, 0 changed, 3 removed/,
    );
    await expect(
      diffOnHub(hub, { ...question, file: { name: "x.yaml", text: text.replace("web", "x") } }, signal),
    ).rejects.toThrow("x.yaml has ClusterResourcePlacement x, not ClusterResourcePlacement web");
  });
  it("says which snapshots there are, and which placement is not", async () => {
    await expect(diff(7)).rejects.toThrow(
      "ClusterResourcePlacement web has no resource snapshot 7; it has 1, 0",
    );
    await expect(historyOnHub(hub, { name: "x", namespace: "shop" }, signal)).rejects.toThrow(
      "the hub has no ResourcePlacement shop/x",
    );
  });
});

describe("rollback", () => {
  const data = (): unknown[] =>
    hub.objects<KubeObject & { data?: unknown }>(KINDS.configMap).map((it) => it.data);
  it("writes the objects of the snapshot on the hub, and leaves what was added since", async () => {
    const result = await rollbackOnHub(hub, { ...web, to: undefined, prune: false, dryRun: false }, signal);
    expect(renderRollback(result)).toBe(
      [
        "Snapshot 0 restored on the hub:",
        "~ ConfigMap shop/settings",
        "    /data/level: newest -> old",
        "~ Secret shop/key",
        "    /data/key: (redacted for security reasons) -> (redacted for security reasons)",
        "- Service shop/web",
        "Left: Service shop/web: was added since; --prune deletes it",
      ].join("\n"),
    );
    expect(data()).toContainEqual({ level: "old" });
    expect(hub.objects(KINDS.service)).toHaveLength(1);
  });
  it("deletes it with --prune, creates what is gone, and writes nothing in a dry run", async () => {
    await hub.delete(KINDS.configMap, objectKey("shop", "settings"));
    await rollbackOnHub(hub, { ...web, to: 0, prune: true, dryRun: true }, signal);
    expect(hub.objects(KINDS.service)).toHaveLength(1);
    await rollbackOnHub(hub, { ...web, to: 0, prune: true, dryRun: false }, signal);
    expect(hub.objects(KINDS.service)).toEqual([]);
    expect(data()).toContainEqual({ level: "old" });
    const again = await rollbackOnHub(hub, { ...web, to: 0, prune: true, dryRun: false }, signal);
    expect(renderRollback(again)).toBe("The hub has what snapshot 0 holds.");
  });
  it("is for update runs with strategy External", async () => {
    await hub.mergePatch(CLUSTER_RESOURCE_PLACEMENTS, objectKey(undefined, "web"), {
      spec: { strategy: { type: "External" } },
    });
    await expect(rollbackOnHub(hub, { ...web, to: 0, prune: false, dryRun: false }, signal)).rejects.toThrow(
      'create a staged update run with resourceSnapshotIndex "0" instead',
    );
  });
});

it("status shows the conditions, a line for each cluster, and what failed", async () => {
  const condition = (type: string, status: Condition["status"], reason: string): Condition => ({
    type,
    status,
    reason,
    message: `${reason} message`,
    observedGeneration: 1,
    lastTransitionTime: "2026-06-01T00:00:00Z",
  });
  const status: PlacementStatus = {
    observedResourceIndex: "1",
    selectedResources: [{ version: "v1", kind: "Namespace", name: "shop" }],
    conditions: [
      condition("ClusterResourcePlacementScheduled", "True", "SchedulingPolicyFulfilled"),
      condition("ClusterResourcePlacementApplied", "False", "ApplyFailed"),
    ],
    placementStatuses: [
      {
        clusterName: "member-1",
        observedResourceIndex: "1",
        conditions: [
          condition("Scheduled", "True", "Scheduled"),
          condition("Available", "True", "AllWorkAreAvailable"),
        ],
      },
      {
        clusterName: "member-2",
        observedResourceIndex: "0",
        conditions: [
          condition("Scheduled", "True", "Scheduled"),
          condition("Applied", "False", "NotAllWorkHaveBeenApplied"),
        ],
        failedPlacements: [
          {
            version: "v1",
            kind: "Service",
            name: "web",
            namespace: "shop",
            condition: condition("Applied", "False", "NotTakenOver"),
          },
        ],
      },
      { conditions: [condition("Scheduled", "False", "ScheduleFailed")] },
    ],
  };
  await hub.mergePatch(
    CLUSTER_RESOURCE_PLACEMENTS,
    objectKey(undefined, "web"),
    { status },
    { subresource: "status" },
  );
  await expect(renderStatus(await statusOnHub(hub, web, signal))).toMatchFileSnapshot("goldens/status.txt");
});

describe("status --details", () => {
  const failed = (name: string): Condition => ({
    type: "Applied",
    status: "False",
    reason: "ManifestApplyFailed",
    message: `cannot create ${name}`,
    lastTransitionTime: "2026-06-01T00:00:00Z",
  });
  const id = (name: string) => ({
    version: "v1",
    kind: "ConfigMap",
    namespace: "shop",
    name,
  });
  const times = {
    observationTime: "2026-06-01T00:00:00Z",
    observedInMemberClusterGeneration: 1,
    firstDriftedObservedTime: "2026-06-01T00:00:00Z",
  };
  const work = (name: string, labels: object, from: number): Work => ({
    metadata: {
      name,
      namespace: "fleet-member-member-2",
      labels: {
        "kubernetes-fleet.io/parent-CRP": "web",
        "kubernetes-fleet.io/parent-resource-binding": "web-member-2-x",
        ...labels,
      },
    },
    spec: {},
    status: {
      conditions: [{ ...failed("x"), type: "StatusTrimmed", status: from === 0 ? "True" : "False" }],
      manifestConditions: [
        ...Array.from({ length: 80 }, (_, at) => ({
          identifier: { ordinal: at, ...id(`c-${from + at}`) },
          conditions: [failed(`c-${from + at}`)],
        })),
        {
          identifier: { ordinal: 80, ...id(`d-${from}`) },
          driftDetails: {
            ...times,
            observedDrifts: Array.from({ length: 150 }, (_, at) => ({
              path: `/data/k${at}`,
              valueInMember: "a",
            })),
          },
        },
      ],
    },
  });

  beforeEach(async () => {
    const labels = { "kubernetes-fleet.io/parent-CRP": "web" };
    const entries = Array.from({ length: 100 }, (_, at) => ({ ...id(`c-${at}`), condition: failed("x") }));
    const status = { conditions: [], failedPlacements: entries };
    await hub.delete(CLUSTER_RESOURCE_BINDINGS, objectKey(undefined, "member-2"));
    const binding = fakeBinding("member-2", { resourceSnapshotName: "web-0-snapshot" }, { labels });
    hub.seed(CLUSTER_RESOURCE_BINDINGS, {
      ...binding,
      metadata: { ...binding.metadata, name: "web-member-2-x" },
      status,
    });
    hub.seed(
      WORKS,
      work("web-work", {}, 0),
      work("web-1", {}, 100),
      work("of-others", { "kubernetes-fleet.io/parent-placement-namespace": "web" }, 200),
      work("of-another-binding", { "kubernetes-fleet.io/parent-resource-binding": "y" }, 300),
    );
    await hub.mergePatch(
      CLUSTER_RESOURCE_PLACEMENTS,
      objectKey(undefined, "web"),
      {
        status: {
          conditions: [{ ...failed("x"), type: "ClusterResourcePlacementApplied", observedGeneration: 1 }],
          placementStatuses: [
            { clusterName: "member-2", conditions: [failed("x")], failedPlacements: entries },
          ],
        },
      },
      { subresource: "status" },
    );
  });
  const shown = async (question: Partial<StatusQuestion>): Promise<string[]> =>
    renderStatus(await statusOnHub(hub, { ...web, ...question }, signal)).split("\n");

  it("shows all that the Works say, of which the status has the first 100", async () => {
    const lines = await shown({ details: true });
    expect(lines).toContain("member-2: 160 failed, 2 drifted, 0 different");
    expect(lines).toContain("  ConfigMap shop/c-179 failed: ManifestApplyFailed: cannot create c-179");
    expect(lines).toContain("    /data/k149: a in the cluster, (absent) on the hub");
    expect(lines).toContain("  Work web-work: its status would be too large, so that details are left out");
    expect(lines.join()).not.toMatch(/c-2\d\d|c-3\d\d/);
  });
  it("is pointed to where the status leaves something out", async () => {
    const lines = await shown({});
    expect(lines).toContain("Not all is shown: fairlead placement status web --details");
    expect(lines.join()).toContain("100+");
  });
  it("is about one cluster, if one is named, which has to have the placement", async () => {
    expect(await shown({ details: true, cluster: "member-1" })).toContain(
      "member-1: 0 failed, 0 drifted, 0 different",
    );
    await expect(shown({ details: true, cluster: "x" })).rejects.toThrow(
      "ClusterResourcePlacement web is not placed on cluster x",
    );
  });
});
