import { defined } from "@fairlead/base/defined.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Controller } from "@fairlead/kube/types.ts";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createEventRecorder } from "@fairlead/kube/events/events.ts";
import { EVENTS, NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { POLICY_HASH_ANNOTATION } from "#api/fairlead.dev/names.ts";
import {
  BINDING_FINALIZER,
  LATEST_SNAPSHOT_LABEL,
  NUMBER_OF_CLUSTERS_ANNOTATION,
  NUMBER_OF_RESOURCE_SNAPSHOTS_ANNOTATION,
  PARENT_PLACEMENT_LABEL,
  PLACEMENT_GENERATION_ANNOTATION,
  POLICY_INDEX_LABEL,
  PREVIOUS_BINDING_STATE_ANNOTATION,
  RESOURCE_HASH_ANNOTATION,
  RESOURCE_INDEX_LABEL,
  SCHEDULER_FINALIZER,
  WORK_FINALIZER,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import type {
  PlacementPolicy,
  ResourceBinding,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { type FakeMember, fakeMember } from "#placement/scheduling/cluster.fake.ts";
import { createPlacementInformers } from "../informers.ts";
import { createRolloutParts } from "../parts.ts";
import { CLUSTER_SCOPE, type PlacementScope, SCOPES } from "#api/placement.kubernetes-fleet.io/scopes.ts";
import { createSchedulers } from "./controller.ts";

let clock: FakeClock;
let client: FakeKubeClient;
let stop: AbortController;
let controllers: readonly Controller[];

async function startProgram(): Promise<void> {
  stop = new AbortController();
  const deps = { clock, rng: seededRng(1), log: silentLogger, metrics: noMetrics };
  const informers = createPlacementInformers(client, deps);
  const members = createInformer(client, MEMBER_CLUSTERS, {}, deps);
  const namespaces = createInformer(client, NAMESPACES, {}, deps);
  const rollout = createRolloutParts({ client, informers, members, deps });
  ({ controllers } = createSchedulers({
    ...rollout,
    namespaces,
    events: createEventRecorder(client, "test", deps),
  }));
  for (const it of controllers) await it.start(stop.signal);
  await settled();
}

async function stopProgram(): Promise<void> {
  stop.abort();
  for (const it of controllers) await it[Symbol.asyncDispose]();
}

/** Until nothing is written any more. */
async function settled(): Promise<void> {
  for (let before = -1; before !== client.writes.length;) {
    before = client.writes.length;
    await clock.advance(10_000);
    for (let turn = 0; turn < 10; turn += 1) await clock.advance(0);
  }
}

beforeEach(() => {
  clock = new FakeClock();
  client = new FakeKubeClient(clock);
});
afterEach(() => stopProgram());

function seedMembers(...names: readonly string[]): void {
  client.seed(MEMBER_CLUSTERS, ...names.map((it) => fakeMember(it)));
}

/** As the controller of placements leaves it. */
function seedPlacement(policy?: PlacementPolicy, scope: PlacementScope = CLUSTER_SCOPE, index = 0): void {
  const namespace = scope.placements.namespaced ? { namespace: "shop" } : {};
  client.seed(scope.placements, {
    metadata: { name: "p", ...namespace, generation: 1 },
    spec: { resourceSelectors: [] },
  });
  seedSnapshot(policy, scope, index);
}
/** A resource snapshot of one part that there is. */
function seedResources(scope: PlacementScope, { parts = 1 } = {}): void {
  const namespace = scope.placements.namespaced ? { namespace: "shop" } : {};
  client.seed(scope.resourceSnapshots, {
    metadata: {
      name: "p-0-snapshot",
      ...namespace,
      labels: {
        [PARENT_PLACEMENT_LABEL]: "p",
        [RESOURCE_INDEX_LABEL]: "0",
        [LATEST_SNAPSHOT_LABEL]: "true",
      },
      annotations: {
        [NUMBER_OF_RESOURCE_SNAPSHOTS_ANNOTATION]: String(parts),
        [RESOURCE_HASH_ANNOTATION]: "hash",
      },
    },
    spec: { selectedResources: [] },
  });
}
function seedSnapshot(
  policy: PlacementPolicy | undefined,
  scope = CLUSTER_SCOPE,
  index = 0,
  hash = index,
): void {
  const namespace = scope.placements.namespaced ? { namespace: "shop" } : {};
  const { numberOfClusters: _, ...fixed } = policy ?? {};
  client.seed(scope.policySnapshots, {
    metadata: {
      name: `p-${index}`,
      ...namespace,
      labels: {
        [PARENT_PLACEMENT_LABEL]: "p",
        [LATEST_SNAPSHOT_LABEL]: "true",
        [POLICY_INDEX_LABEL]: String(index),
      },
      annotations: {
        [PLACEMENT_GENERATION_ANNOTATION]: String(index + 1),
        ...(policy?.numberOfClusters === undefined
          ? {}
          : { [NUMBER_OF_CLUSTERS_ANNOTATION]: String(policy.numberOfClusters) }),
      },
    },
    spec: { policyHash: `hash-${hash}`, ...(policy === undefined ? {} : { policy: fixed }) },
  });
}

const bindings = (scope = CLUSTER_SCOPE): ResourceBinding[] => client.objects(scope.bindings);
const placed = (scope = CLUSTER_SCOPE): string =>
  bindings(scope)
    .map((it) => `${it.spec.targetCluster}:${it.spec.state}`)
    .toSorted()
    .join(" ");
const snapshotStatus = (name = "p-0") =>
  client.objects(CLUSTER_SCOPE.policySnapshots).find((it) => it.metadata.name === name)?.status;

async function changeMember(name: string, options: FakeMember): Promise<void> {
  const { metadata, spec, status } = fakeMember(name, options);
  const { labels = null } = metadata;
  const { taints = null } = spec;
  await client.mergePatch(MEMBER_CLUSTERS, objectKey(undefined, name), {
    metadata: { labels },
    spec: { taints },
  });
  await client.mergePatch(MEMBER_CLUSTERS, objectKey(undefined, name), { status }, { subresource: "status" });
  await settled();
}

describe.each(SCOPES)("the scheduler of $placements.kind", (scope) => {
  it("makes a binding for each cluster, says so in the policy snapshot, and writes no more", async () => {
    seedMembers("a", "b");
    seedPlacement(undefined, scope);
    await startProgram();
    expect(placed(scope)).toBe("a:Scheduled b:Scheduled");
    const [binding] = bindings(scope);
    expect(binding).toMatchObject({
      metadata: { labels: { [PARENT_PLACEMENT_LABEL]: "p" }, finalizers: [BINDING_FINALIZER] },
      spec: { schedulingPolicySnapshotName: "p-0", resourceSnapshotName: "" },
    });
    expect(client.objects(scope.placements)[0]?.metadata.finalizers).toEqual([SCHEDULER_FINALIZER]);
    expect(client.objects(scope.policySnapshots)[0]?.status).toMatchObject({
      observedCRPGeneration: 1,
      conditions: [{ type: "Scheduled", status: "True", reason: "SchedulingPolicyFulfilled" }],
      targetClusters: [
        { clusterName: "a", selected: true },
        { clusterName: "b", selected: true },
      ],
    });
    // The finalizer, two bindings, the status.
    expect(client.writes).toHaveLength(4);
    await stopProgram();
    client.writes.length = 0;
    await startProgram();
    expect(client.writes).toEqual([]);
  });

  it("gives the first bindings of a placement its resources as they are created, and leaves later ones to the rollout", async () => {
    seedMembers("a", "b");
    seedPlacement(undefined, scope);
    seedResources(scope);
    await startProgram();
    expect(placed(scope)).toBe("a:Bound b:Bound");
    expect(bindings(scope)[0]).toMatchObject({
      metadata: { finalizers: [BINDING_FINALIZER, WORK_FINALIZER] },
      spec: { resourceSnapshotName: "p-0-snapshot", applyStrategy: { type: "ClientSideApply" } },
    });
    expect(bindings(scope)[0]?.spec.clusterResourceOverrideSnapshots).toBeUndefined();
    seedMembers("c");
    await settled();
    expect(placed(scope)).toBe("a:Bound b:Bound c:Scheduled");
  });

  it("gives bindings no resources where staged runs roll out, or where a part of the resources is missing", async () => {
    seedMembers("a");
    seedPlacement(undefined, scope);
    seedResources(scope, { parts: 2 });
    await startProgram();
    expect(placed(scope)).toBe("a:Scheduled");
    await stopProgram();
    client = new FakeKubeClient(clock);
    seedMembers("a");
    seedPlacement(undefined, scope);
    seedResources(scope);
    const key = keyOf(client.objects(scope.placements)[0] ?? { metadata: { name: "p" } });
    await client.mergePatch(scope.placements, key, { spec: { strategy: { type: "External" } } });
    await startProgram();
    expect(placed(scope)).toBe("a:Scheduled");
  });

  it("takes the bindings of a deleted placement with it, in one pass", async () => {
    seedMembers(...Array.from({ length: 40 }, (_, at) => `m${at}`));
    seedPlacement(undefined, scope);
    await startProgram();
    const placement = client.objects(scope.placements)[0];
    if (placement === undefined) throw new Error("the placement is gone");
    client.writes.length = 0;
    await client.delete(scope.placements, keyOf(placement));
    await settled();
    // The deletion by the user; a finalizer and a deletion for each of the 40 bindings; the finalizer of the placement.
    expect(client.writes).toHaveLength(82);
    expect(bindings(scope)).toEqual([]);
    expect(client.objects(scope.placements)).toEqual([]);
  });
});

describe("the scheduler", () => {
  it("schedules again when a cluster joins, leaves, gets a label, loses a taint, or becomes eligible", async () => {
    const labelSelector = { matchLabels: { env: "prod" } };
    const required = { clusterSelectorTerms: [{ labelSelector }] };
    const labels = { env: "prod" };
    client.seed(
      MEMBER_CLUSTERS,
      fakeMember("labelled", { labels }),
      fakeMember("plain"),
      fakeMember("tainted", { labels, taints: [{ key: "k", effect: "NoSchedule" }] }),
      fakeMember("sick", { labels, joined: "Unknown" }),
    );
    seedPlacement({
      affinity: { clusterAffinity: { requiredDuringSchedulingIgnoredDuringExecution: required } },
    });
    await startProgram();
    expect(placed()).toBe("labelled:Scheduled");
    await changeMember("plain", { labels });
    expect(placed()).toBe("labelled:Scheduled plain:Scheduled");
    await changeMember("tainted", { labels });
    await changeMember("sick", { labels });
    expect(placed()).toBe("labelled:Scheduled plain:Scheduled sick:Scheduled tainted:Scheduled");
    await client.create(MEMBER_CLUSTERS, fakeMember("new", { labels }));
    await changeMember("new", { labels });
    await client.delete(MEMBER_CLUSTERS, objectKey(undefined, "plain"));
    await settled();
    expect(placed()).toBe(
      "labelled:Scheduled new:Scheduled plain:Unscheduled sick:Scheduled tainted:Scheduled",
    );
  });

  it("keeps clusters that lose their labels, and drops them when the policy changes", async () => {
    seedMembers("a", "b");
    seedPlacement();
    await startProgram();
    await changeMember("a", { taints: [{ key: "k", effect: "NoSchedule" }] });
    expect(placed()).toBe("a:Scheduled b:Scheduled");
    await client.mergePatch(CLUSTER_SCOPE.policySnapshots, objectKey(undefined, "p-0"), {
      metadata: { labels: { [LATEST_SNAPSHOT_LABEL]: "false" } },
    });
    seedSnapshot({ tolerations: [{ key: "other", operator: "Exists" }] }, CLUSTER_SCOPE, 1);
    await settled();
    expect(placed()).toBe("a:Unscheduled b:Scheduled");
    const [a, b] = bindings();
    expect(a?.metadata.annotations).toMatchObject({ [PREVIOUS_BINDING_STATE_ANNOTATION]: "Scheduled" });
    expect(b?.spec.schedulingPolicySnapshotName).toBe("p-1");
    expect(snapshotStatus("p-1")).toMatchObject({ observedCRPGeneration: 2 });
    await changeMember("a", {});
    expect(placed()).toBe("a:Scheduled b:Scheduled");
    expect(bindings()[0]?.metadata.annotations).toEqual({ [POLICY_HASH_ANNOTATION]: "hash-1" });
  });

  it("scales with the annotation of the policy snapshot", async () => {
    seedMembers("a", "b", "c");
    seedPlacement({ placementType: "PickN", numberOfClusters: 1 });
    await startProgram();
    expect(placed()).toBe("c:Scheduled");
    const scale = async (count: number): Promise<void> => {
      await client.mergePatch(CLUSTER_SCOPE.policySnapshots, objectKey(undefined, "p-0"), {
        metadata: { annotations: { [NUMBER_OF_CLUSTERS_ANNOTATION]: String(count) } },
      });
      await settled();
    };
    await scale(2);
    expect(placed()).toBe("b:Scheduled c:Scheduled");
    await scale(1);
    expect(placed()).toBe("b:Unscheduled c:Scheduled");
    await scale(2);
    expect(placed()).toBe("b:Scheduled c:Scheduled");
  });

  it("releases a binding that is evicted, and picks again", async () => {
    seedMembers("a", "b");
    seedPlacement({ placementType: "PickN", numberOfClusters: 1 });
    await startProgram();
    await changeMember("b", { taints: [{ key: "k", effect: "NoSchedule" }] });
    const [evicted] = bindings();
    if (evicted === undefined) throw new Error("nothing is placed");
    await client.delete(CLUSTER_SCOPE.bindings, keyOf(evicted));
    await settled();
    expect(placed()).toBe("a:Scheduled");
  });

  it("does nothing about heartbeats, nor about the usage that no unfulfilled policy reads", async () => {
    seedMembers("a", "b");
    seedPlacement({ placementType: "PickN", numberOfClusters: 1 });
    await startProgram();
    client.writes.length = 0;
    await changeMember("a", { heartbeat: "2026-06-01T00:01:00Z", available: { cpu: "1" } });
    await changeMember("a", { heartbeat: "2026-06-01T00:02:00Z", available: { cpu: "2" } });
    expect(client.writes.filter((it) => it.resource !== "memberclusters")).toEqual([]);
  });

  it("takes no member for dead because it has just started itself, unless the one before it did", async () => {
    const lost = fakeMember("lost");
    lost.status?.conditions?.push({
      type: "Healthy",
      status: "False",
      reason: "HeartbeatLost",
      message: "",
      lastTransitionTime: "2026-06-01T00:00:00Z",
    });
    client.seed(MEMBER_CLUSTERS, fakeMember("quiet", { heartbeat: "2020-01-01T00:00:00Z" }), lost);
    seedPlacement();
    await startProgram();
    expect(placed()).toBe("quiet:Scheduled");
    await changeMember("lost", { heartbeat: "2026-06-01T00:09:00Z" });
    expect(placed()).toBe("lost:Scheduled quiet:Scheduled");
  });

  it("picks no cluster whose heartbeat it has not seen for 5 minutes", async () => {
    seedMembers("a", "b");
    seedPlacement({ placementType: "PickN", numberOfClusters: 0 });
    await startProgram();
    await clock.advance(200_000);
    await changeMember("a", { heartbeat: "2026-06-01T00:03:00Z" });
    await clock.advance(150_000);
    await client.mergePatch(CLUSTER_SCOPE.policySnapshots, objectKey(undefined, "p-0"), {
      metadata: { annotations: { [NUMBER_OF_CLUSTERS_ANNOTATION]: "2" } },
    });
    await settled();
    expect(placed()).toBe("a:Scheduled");
    expect(snapshotStatus()?.targetClusters).toContainEqual({
      clusterName: "b",
      selected: false,
      reason: "ClusterEligibility: no heartbeat of the cluster was received for 5 minutes",
    });
    await changeMember("b", { heartbeat: "2026-06-01T00:07:00Z" });
    expect(placed()).toBe("a:Scheduled b:Scheduled");
  });

  it("replaces a cluster that is silent, where the policy is required during execution, and no other", async () => {
    seedMembers("a", "b", "c");
    const policy: PlacementPolicy = { placementType: "PickN", numberOfClusters: 1 };
    seedPlacement(policy);
    await client.mergePatch(CLUSTER_SCOPE.placements, objectKey(undefined, "p"), {
      spec: { policy: { ...policy, requiredDuringExecution: {} } },
    });
    await startProgram();
    expect(placed()).toBe("c:Scheduled");
    const startedMs = clock.now();
    for (let minute = 10; minute < 40 && placed() === "c:Scheduled"; minute += 1) {
      await clock.advance(10_000);
      for (const name of ["a", "b"]) await changeMember(name, { heartbeat: `2026-06-01T00:${minute}:00Z` });
    }
    // Five minutes until it counts as silent, and five more.
    expect(clock.now() - startedMs).toBeGreaterThanOrEqual(600_000);
    expect(clock.now() - startedMs).toBeLessThan(720_000);
    expect(placed()).toBe("b:Scheduled c:Unscheduled");
    await settled();
    expect(client.objects(EVENTS)).toMatchObject([
      {
        involvedObject: { kind: "ClusterResourcePlacement", name: "p" },
        reason: "ClusterReplaced",
        message: "cluster c has not met the policy for 300 s and is replaced",
      },
    ]);
  });

  it("keeps what is placed in a cluster whose MemberCluster was lost, says so, and removes it once the mailbox is gone", async () => {
    seedMembers("a", "b");
    client.seed(NAMESPACES, { metadata: { name: "fleet-member-b" } });
    seedPlacement({ placementType: "PickN", numberOfClusters: 1 });
    await startProgram();
    await client.delete(MEMBER_CLUSTERS, objectKey(undefined, "b"));
    await settled();
    expect(placed()).toBe("b:Scheduled");
    seedSnapshot({ placementType: "PickN", numberOfClusters: 1, tolerations: [] }, CLUSTER_SCOPE, 1);
    await settled();
    expect(placed()).toBe("a:Scheduled b:Scheduled");
    expect(snapshotStatus("p-1")?.conditions?.[0]?.message).toContain(
      "; the MemberCluster of b is missing: what is placed there stays",
    );
    await client.delete(NAMESPACES, objectKey(undefined, "fleet-member-b"));
    await settled();
    expect(placed()).toBe("a:Scheduled b:Unscheduled");
  });

  it("picks no cluster afresh when a policy snapshot is lost and made again under another name", async () => {
    seedMembers("a", "b");
    seedPlacement({ tolerations: [] });
    await startProgram();
    await changeMember("a", { taints: [{ key: "k", effect: "NoSchedule" }] });
    await client.delete(CLUSTER_SCOPE.policySnapshots, objectKey(undefined, "p-0"));
    seedSnapshot({ tolerations: [] }, CLUSTER_SCOPE, 7, 0);
    await settled();
    expect(placed()).toBe("a:Scheduled b:Scheduled");
    expect(bindings().map((it) => it.spec.schedulingPolicySnapshotName)).toEqual(["p-7", "p-7"]);
  });

  it("deletes bindings that it has not seen yet with their placement", async () => {
    seedMembers("a", "b");
    seedPlacement({ placementType: "PickN", numberOfClusters: 1 });
    await startProgram();
    client.deafTo.add(CLUSTER_SCOPE.bindings.plural);
    const [binding] = bindings();
    if (binding === undefined) throw new Error("nothing is placed");
    const { labels, finalizers } = binding.metadata;
    await client.create(CLUSTER_SCOPE.bindings, {
      ...binding,
      metadata: { name: "late", ...defined({ labels, finalizers }) },
    });
    await client.delete(CLUSTER_SCOPE.placements, objectKey(undefined, "p"));
    await settled();
    expect(bindings()).toEqual([]);
    expect(client.objects(CLUSTER_SCOPE.placements)).toEqual([]);
  });

  it("does not pick others for the clusters that it has just picked, before it sees their bindings", async () => {
    const turns = async (): Promise<void> => {
      for (let turn = 0; turn < 10; turn += 1) await clock.advance(10);
    };
    seedMembers("a");
    seedPlacement({ placementType: "PickN", numberOfClusters: 0 });
    await startProgram();
    client.deafTo.add(CLUSTER_SCOPE.bindings.plural);
    const annotate = (annotations: object): Promise<unknown> =>
      client.mergePatch(CLUSTER_SCOPE.policySnapshots, objectKey(undefined, "p-0"), {
        metadata: { annotations },
      });
    await annotate({ [NUMBER_OF_CLUSTERS_ANNOTATION]: "1" });
    await turns();
    expect(placed()).toBe("a:Scheduled");
    seedMembers("b");
    await annotate({ [PLACEMENT_GENERATION_ANNOTATION]: "2" });
    await turns();
    expect(placed()).toBe("a:Scheduled");
    expect(snapshotStatus()?.observedCRPGeneration).toBe(2);
  });
});
