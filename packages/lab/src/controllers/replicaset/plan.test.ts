import { defined } from "@fairlead/base/defined.ts";
import { describe, expect, it } from "vitest";
import type { ReplicaSet } from "@fairlead/kube/api/apps/v1/types.ts";
import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { matcherOf } from "@fairlead/kube/objects/selector.ts";
import { planClaims } from "../claims.ts";
import { planScale, planStatus } from "./plan.ts";

const NOW = Date.UTC(2026, 0, 1, 1);
const ago = (seconds: number): string => `${new Date(NOW - seconds * 1000).toISOString().slice(0, 19)}Z`;

function replicaSet(replicas: number, minReadySeconds?: number): ReplicaSet {
  const selector = { matchLabels: { app: "web" } };
  const template = { metadata: { labels: { app: "web", tier: "front" } } };
  return {
    metadata: { name: "rs", namespace: "work", uid: "rs-1", generation: 7 },
    spec: { replicas, selector, template, ...defined({ minReadySeconds }) },
  };
}

interface PodParts {
  readonly owner?: string | undefined;
  readonly labels?: Record<string, string>;
  readonly node?: string;
  readonly phase?: "Pending" | "Running" | "Failed";
  /** How long it has been ready. Unit: seconds. */
  readonly readyFor?: number;
  readonly cost?: number;
  readonly restarts?: number;
  readonly age?: number;
  readonly deleting?: boolean;
}

function pod(name: string, parts: PodParts = {}): Pod {
  const { node = "n1", phase = "Running", restarts = 0 } = parts;
  const ready = { type: "Ready", status: "True", lastTransitionTime: ago(parts.readyFor ?? 0) } as const;
  return {
    metadata: metadataOf(name, parts),
    spec: { nodeName: node, containers: [] },
    status: {
      phase,
      conditions: parts.readyFor === undefined ? [] : [ready],
      containerStatuses: [{ name: "c", ready: true, restartCount: restarts, image: "", imageID: "" }],
    },
  };
}

function metadataOf(name: string, parts: PodParts): Pod["metadata"] {
  const { labels = { app: "web", tier: "front" }, age = 100, deleting = false, cost } = parts;
  const uid = "owner" in parts ? parts.owner : "rs-1";
  const owner = { apiVersion: "apps/v1", kind: "ReplicaSet", name: "rs", uid: uid ?? "", controller: true };
  return {
    name,
    namespace: "work",
    labels,
    creationTimestamp: ago(age),
    ...(uid === undefined ? {} : { ownerReferences: [owner] }),
    ...(deleting ? { deletionTimestamp: ago(0) } : {}),
    ...(cost === undefined
      ? {}
      : { annotations: { "controller.kubernetes.io/pod-deletion-cost": `${cost}` } }),
  };
}

const names = (pods: readonly Pod[]): string[] => pods.map((it) => it.metadata.name);

describe("the pods of a ReplicaSet", () => {
  it("are those it owns, and those that match and have no owner; one that no longer matches is released", () => {
    const pods = [
      pod("own"),
      pod("orphan", { owner: undefined }),
      pod("stranger", { owner: "other" }),
      pod("dying-orphan", { owner: undefined, deleting: true }),
      pod("relabelled", { labels: { app: "db" } }),
      pod("unrelated", { owner: undefined, labels: { app: "db" } }),
    ];
    const claims = planClaims(replicaSet(1), pods, matcherOf(replicaSet(1).spec?.selector));
    expect(names(claims.own)).toEqual(["own", "orphan"]);
    expect(names(claims.adopt)).toEqual(["orphan"]);
    expect(names(claims.release)).toEqual(["relabelled"]);
  });
});

describe("a ReplicaSet", () => {
  const crowds = new Map([
    ["n1", 1],
    ["n2", 3],
  ]);
  it("makes the pods that are missing; those that ended or are on their way out do not count", () => {
    const pods = [pod("a"), pod("failed", { phase: "Failed" }), pod("going", { deleting: true })];
    expect(planScale(replicaSet(3), pods, crowds)).toEqual({ create: 2, delete: [] });
  });
  it("makes at most 500 at a time, and none once it is deleted", () => {
    expect(planScale(replicaSet(2000), [], crowds).create).toBe(500);
    const deleted = replicaSet(3);
    deleted.metadata.deletionTimestamp = ago(0);
    expect(planScale(deleted, [pod("a")], crowds)).toEqual({ create: 0, delete: [] });
  });
  it.each<[string, PodParts, PodParts]>([
    ["without a node", { node: "" }, {}],
    ["that does not run yet", { phase: "Pending" }, {}],
    ["that is not ready", {}, { readyFor: 50 }],
    ["that is cheaper to delete", { readyFor: 5000, cost: -1 }, { readyFor: 1, cost: 1 }],
    ["on a crowded node", { readyFor: 50, node: "n2" }, { readyFor: 50 }],
    ["that was ready for less long", { readyFor: 10 }, { readyFor: 3000 }],
    ["that restarted more often", { restarts: 3 }, { restarts: 1 }],
    ["that is younger", { age: 10 }, { age: 1000 }],
  ])("gives up first a pod %s", (_, first, second) => {
    const [goes, stays] = [pod("goes", first), pod("stays", second)];
    expect(names(planScale(replicaSet(1), [stays, goes], crowds).delete)).toEqual(["goes"]);
    expect(names(planScale(replicaSet(1), [goes, stays], crowds).delete)).toEqual(["goes"]);
  });
});

describe("the status of a ReplicaSet", () => {
  it("counts pods that exist, are ready, available, and carry all labels of the template", () => {
    const pods = [
      pod("long", { readyFor: 60 }),
      pod("short", { readyFor: 4 }),
      pod("not", { labels: { app: "web" } }),
      pod("failed", { phase: "Failed" }),
      pod("going", { deleting: true, readyFor: 60 }),
    ];
    expect(planStatus(replicaSet(3, 10), pods, { nowMs: NOW, conditions: [] })).toEqual({
      status: {
        replicas: 3,
        fullyLabeledReplicas: 2,
        readyReplicas: 2,
        availableReplicas: 1,
        terminatingReplicas: 1,
        observedGeneration: 7,
      },
      checkInMs: 6000,
    });
  });
});
