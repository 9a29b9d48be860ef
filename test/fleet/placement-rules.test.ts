import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  CLUSTER_RESOURCE_OVERRIDES,
  PLACEMENT_DISRUPTION_BUDGETS,
  PLACEMENT_EVICTIONS,
  RESOURCE_OVERRIDES,
} from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/overrides.ts";
import {
  CLUSTER_RESOURCE_PLACEMENTS,
  RESOURCE_PLACEMENTS,
} from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import {
  CLUSTER_APPROVAL_REQUESTS,
  CLUSTER_STAGED_UPDATE_RUNS,
  CLUSTER_STAGED_UPDATE_STRATEGIES,
} from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { type GuardedHub, hasRealServer, startGuardedHub } from "./guard-server.ts";
import {
  type Json,
  placement,
  repeated,
  ACCEPTED,
  REFUSED,
  CHANGES,
  patches,
  add,
  OVERRIDES,
} from "./placement-tables.ts";

/** What the hub's API server itself refuses of placements: by its definitions, and by its admission policies. */

const run = (more: Json = {}): Json => ({
  placementName: "p",
  resourceSnapshotIndex: "0",
  stagedRolloutStrategyName: "s",
  ...more,
});
const RUNS: readonly (readonly [from: string, to: string, isAllowed: boolean])[] = [
  ["Initialize", "Run", true],
  ["Initialize", "Stop", false],
  ["Run", "Stop", true],
  ["Run", "Initialize", false],
  ["Stop", "Run", true],
  ["Stop", "Initialize", false],
];
const stage = (more: Json): Json => ({ stages: [{ name: "canary", ...more }] });
const tasks = (...of: Json[]): Json => stage({ afterStageTasks: of });
const STRATEGIES: readonly (readonly [string, Json, string | undefined])[] = [
  [
    "with a wait and an approval",
    tasks({ type: "TimedWait", waitTime: "1h30m" }, { type: "Approval" }),
    undefined,
  ],
  [
    "with an approval before",
    stage({ beforeStageTasks: [{ type: "Approval" }], maxConcurrency: "50%", labelSelector: {} }),
    undefined,
  ],
  [
    "with a wait before",
    stage({ beforeStageTasks: [{ type: "TimedWait", waitTime: "1h" }] }),
    "cannot be TimedWait",
  ],
  ["with a wait of no time", tasks({ type: "TimedWait" }), "waitTime is required"],
  ["with an approval of some time", tasks({ type: "Approval", waitTime: "1h" }), "waitTime is not allowed"],
  [
    "with three tasks",
    tasks({ type: "Approval" }, { type: "Approval" }, { type: "Approval" }),
    "afterStageTasks",
  ],
  ["with a dash in a name", stage({ name: "a-b" }), "name"],
  ["with 32 stages", { stages: repeated(32, (at) => ({ name: `s${at}` })) }, "stages"],
  ["with a concurrency of 0", stage({ maxConcurrency: 0 }), "at least 1"],
  ["with a concurrency of 0%", stage({ maxConcurrency: "0%" }), "maxConcurrency"],
];

const taint = (key: string, value = ""): Json => ({ key, value, effect: "NoSchedule" });
const TAINTS: readonly (readonly [string, readonly Json[], string | undefined])[] = [
  ["two of a key", [taint("a", "x"), taint("a", "y")], undefined],
  ["one twice", [taint("a", "x"), taint("a", "x")], "spec.taints must be unique"],
  ["one with a bad key", [taint("a b")], "spec.taints[]"],
  ["one with a bad value", [taint("a", "b c")], "spec.taints[]"],
  ["one with another effect", [{ ...taint("a"), effect: "NoExecute" }], "effect"],
  ["101", repeated(101, (at) => taint(`k${at}`)), "spec.taints"],
];

describe.each(["embedded", "real"] as const)("the hub's API server (%s)", (kind) => {
  describe.skipIf(kind === "real" && !hasRealServer)("by definitions and policies", () => {
    let hub: GuardedHub;
    beforeAll(async () => {
      hub = await startGuardedHub(kind);
    }, 180_000);
    afterAll(() => hub[Symbol.asyncDispose]());

    let count = 0;
    /** Nothing is stored. */
    async function tries(of: Resource<never>, spec: Json, more: Json = {}): Promise<string | undefined> {
      const metadata = { name: `p${count++}`, ...(of.namespaced ? { namespace: "default" } : {}), ...more };
      return refusal(hub.admin.create(of, { metadata, spec } as KubeObject, { dryRun: true }));
    }
    async function changes(of: Resource<never>, before: Json, after: Json): Promise<string | undefined> {
      const metadata = { name: `p${count++}`, ...(of.namespaced ? { namespace: "default" } : {}) };
      const made = await hub.admin.create(of, { metadata, spec: before } as KubeObject);
      const next = { ...made, spec: after } as KubeObject;
      return refusal(hub.admin.update(of, next, { dryRun: true }));
    }
    const SCOPES = [
      CLUSTER_RESOURCE_PLACEMENTS,
      RESOURCE_PLACEMENTS,
    ] as unknown as readonly Resource<never>[];

    it.each(ACCEPTED)("takes a placement %s", async (_, spec) => {
      for (const of of SCOPES) expect(await tries(of, spec)).toBeUndefined();
    });
    it.each(REFUSED)("refuses a placement %s", async (what, spec, said) => {
      for (const of of SCOPES) {
        // Only the cluster-scoped kind has a status in a namespace.
        if (of.namespaced && what.startsWith("NamespaceAccessible")) continue;
        expect(await tries(of, spec)).toContain(said);
      }
    });
    it("refuses a placement with a name of 64 characters", async () => {
      expect(await tries(SCOPES[0]!, placement({}), { name: "a".repeat(64) })).toContain("metadata.name");
      expect(await tries(SCOPES[0]!, placement({}), { name: "a".repeat(63) })).toBeUndefined();
    });
    it.each(CHANGES)("decides when %s", async (what, before, after, said) => {
      for (const of of SCOPES) {
        if (of.namespaced && what.includes("scope of the status")) continue;
        const refused = await changes(of, before, after);
        if (said === undefined) expect(refused).toBeUndefined();
        else expect(refused).toContain(said);
      }
    });

    it.each(OVERRIDES)("decides about an override %s", async (_, spec, said) => {
      const refused = await tries(CLUSTER_RESOURCE_OVERRIDES as unknown as Resource<never>, spec);
      if (said === undefined) expect(refused).toBeUndefined();
      else expect(refused).toContain(said);
    });
    it("decides about a namespaced override as about a cluster-scoped one", async () => {
      const of = RESOURCE_OVERRIDES as unknown as Resource<never>;
      const object = { group: "apps", version: "v1", kind: "Deployment", name: "d" };
      const spec = { resourceSelectors: [object], policy: patches(add("/spec/replicas")) };
      expect(await tries(of, spec)).toBeUndefined();
      expect(await tries(of, { ...spec, resourceSelectors: [object, object] })).toContain(
        "select each object once",
      );
      expect(await tries(of, { ...spec, policy: patches(add("/status")) })).toContain("must not be in");
      expect(await changes(of, spec, { ...spec, placement: { name: "p" } })).toContain(
        "placement field is immutable",
      );
    });

    it.each(RUNS)("decides about a run that goes from %s to %s", async (from, to, isAllowed) => {
      const refused = await changes(
        CLUSTER_STAGED_UPDATE_RUNS as unknown as Resource<never>,
        run({ state: from }),
        run({ state: to }),
      );
      if (isAllowed) expect(refused).toBeUndefined();
      else expect(refused).toContain("invalid state transition");
    });
    it.each(["placementName", "resourceSnapshotIndex", "stagedRolloutStrategyName"])(
      "keeps %s of a run",
      async (field) => {
        const of = CLUSTER_STAGED_UPDATE_RUNS as unknown as Resource<never>;
        expect(await changes(of, run(), run({ [field]: "other" }))).toContain(`${field} is immutable`);
      },
    );
    it.each(STRATEGIES)("decides about a strategy %s", async (_, spec, said) => {
      const refused = await tries(CLUSTER_STAGED_UPDATE_STRATEGIES as unknown as Resource<never>, spec);
      if (said === undefined) expect(refused).toBeUndefined();
      else expect(refused).toContain(said);
    });
    it("keeps the spec of an approval request and of an eviction", async () => {
      const approval = { parentStageRollout: "r", targetStage: "s" };
      expect(
        await changes(CLUSTER_APPROVAL_REQUESTS as unknown as Resource<never>, approval, {
          ...approval,
          targetStage: "t",
        }),
      ).toContain("immutable");
      const eviction = { placementName: "p", clusterName: "c" };
      for (const field of Object.keys(eviction))
        expect(
          await changes(PLACEMENT_EVICTIONS as unknown as Resource<never>, eviction, {
            ...eviction,
            [field]: "x",
          }),
        ).toContain("immutable");
    });
    it.each<[string, Json, string | undefined]>([
      ["1", { maxUnavailable: 1 }, undefined],
      ["50%", { minAvailable: "50%" }, undefined],
      ["both", { maxUnavailable: 1, minAvailable: 1 }, "Both MaxUnavailable and MinAvailable"],
      ["-1", { minAvailable: -1 }, "minAvailable"],
      ["1.5%", { minAvailable: "1.5%" }, "minAvailable"],
    ])("decides about a budget of %s", async (_, spec, said) => {
      const refused = await tries(PLACEMENT_DISRUPTION_BUDGETS as unknown as Resource<never>, spec);
      if (said === undefined) expect(refused).toBeUndefined();
      else expect(refused).toContain(said);
    });

    it.each(TAINTS)("decides about taints: %s", async (_, taints, said) => {
      const identity = { kind: "User", name: "u" };
      const refused = await tries(MEMBER_CLUSTERS as unknown as Resource<never>, { identity, taints });
      if (said === undefined) expect(refused).toBeUndefined();
      else expect(refused).toContain(said);
    });

    it("stores a v1alpha1 object as v1beta1, and gives v1 clients what v1 has", async () => {
      const path = "/apis/placement.kubernetes-fleet.io";
      const object = {
        apiVersion: "placement.kubernetes-fleet.io/v1alpha1",
        kind: "ClusterResourcePlacementEviction",
        metadata: { name: "old" },
        spec: { placementName: "p", clusterName: "c" },
      };
      await hub.admin.request("POST", `${path}/v1alpha1/clusterresourceplacementevictions`, object);
      expect((await hub.admin.get(PLACEMENT_EVICTIONS, objectKey(undefined, "old"))).spec.clusterName).toBe(
        "c",
      );
      const spec = placement({ strategy: { deleteStrategy: { propagationPolicy: "Abandon" } } });
      await hub.admin.create(CLUSTER_RESOURCE_PLACEMENTS, { metadata: { name: "both" }, spec } as never);
      const old = (await hub.admin.request("GET", `${path}/v1/clusterresourceplacements/both`)) as {
        spec: { strategy: Json };
      };
      expect(old.spec.strategy).not.toHaveProperty("deleteStrategy");
    });
  });
});

async function refusal(what: Promise<unknown>): Promise<string | undefined> {
  return what.then(
    () => undefined,
    (error: unknown) => (error as Error).message,
  );
}
