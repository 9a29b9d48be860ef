import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Deployment, ReplicaSet } from "@fairlead/kube/api/apps/v1/types.ts";
import {
  type Bounds,
  boundsOf,
  initialReplicas,
  isScalingEvent,
  planCleanup,
  planProportional,
  planRecreate,
  planRolling,
  replicasOf,
  type Scaled,
  sumOf,
} from "./rollout.ts";

function deployment(
  replicas: number,
  maxSurge: number | string = "25%",
  maxUnavailable: number | string = "25%",
): Deployment {
  const strategy = { type: "RollingUpdate", rollingUpdate: { maxSurge, maxUnavailable } } as const;
  return { metadata: { name: "d" }, spec: { replicas, selector: {}, template: {}, strategy } };
}

interface SetParts {
  readonly replicas: number;
  readonly available?: number;
  readonly exist?: number;
  readonly revision?: number;
  readonly max?: number;
  readonly desired?: number;
}

function set(name: string, parts: SetParts): ReplicaSet {
  const { replicas, available = replicas, exist = replicas, revision = 1, max, desired } = parts;
  return {
    metadata: {
      name,
      creationTimestamp: `2026-01-01T00:00:0${revision}Z`,
      annotations: {
        "deployment.kubernetes.io/revision": String(revision),
        ...(max === undefined ? {} : { "deployment.kubernetes.io/max-replicas": String(max) }),
        ...(desired === undefined ? {} : { "deployment.kubernetes.io/desired-replicas": String(desired) }),
      },
    },
    spec: { replicas, selector: {} },
    status: { replicas: exist, availableReplicas: available },
  };
}
const shown = (scaled: readonly Scaled[]) => scaled.map((it) => [it.set.metadata.name, it.replicas]);

describe("the bounds of a rollout", () => {
  it.each([
    [10, ["25%", "25%"], [3, 2]],
    [1, ["25%", "25%"], [1, 0]],
    [3, [0, 1], [0, 1]],
    [3, ["0%", "0%"], [0, 1]],
    [2, [1, 5], [1, 2]],
  ])("of %i replicas with surge and unavailable %j are %j", (replicas, [surge, unavailable], [up, down]) => {
    expect(boundsOf(deployment(replicas, surge, unavailable))).toEqual({
      replicas,
      maxSurge: up,
      maxUnavailable: down,
    });
  });
});

describe("a rolling update", () => {
  const bounds = boundsOf(deployment(4, 1, 1));
  it("begins with what the surge has room for", () => {
    expect(initialReplicas(bounds, [set("old", { replicas: 4 })], false)).toBe(1);
    expect(initialReplicas(bounds, [], false)).toBe(4);
  });
  it("removes old pods only as new ones become available", () => {
    const old = set("old", { replicas: 4 });
    expect(shown(planRolling(bounds, set("new", { replicas: 1, available: 0, revision: 2 }), [old]))).toEqual(
      [["old", 3]],
    );
    const fewer = set("old", { replicas: 3 });
    expect(
      shown(planRolling(bounds, set("new", { replicas: 1, available: 0, revision: 2 }), [fewer])),
    ).toEqual([["new", 2]]);
    expect(
      shown(planRolling(bounds, set("new", { replicas: 2, available: 0, revision: 2 }), [fewer])),
    ).toEqual([]);
  });
  it("removes unavailable old pods first, and of the others the oldest", () => {
    const broken = set("broken", { replicas: 2, available: 0, revision: 2 });
    const old = set("old", { replicas: 3, revision: 1 });
    const next = set("new", { replicas: 0, revision: 3 });
    expect(shown(planRolling(bounds, next, [old, broken]))).toEqual([["broken", 0]]);
  });
  it("counts no pod of an old set twice whose status precedes its scale-down", () => {
    const three = boundsOf(deployment(3, 1, 0));
    const smaller = set("old", { replicas: 2, available: 3, exist: 3 });
    expect(planRolling(three, set("new", { replicas: 2, available: 1, revision: 2 }), [smaller])).toEqual([]);
    const grown = set("new", { replicas: 2, available: 2, revision: 2 });
    expect(shown(planRolling(three, grown, [smaller]))).toEqual([["old", 1]]);
  });

  const counts = fc.nat(6);
  it("completes with pods that start at any time, and never has too few available or too many", () => {
    const scenario = fc.record({
      replicas: fc.integer({ min: 1, max: 8 }),
      surge: counts,
      unavailable: counts,
      olds: fc.integer({ min: 1, max: 3 }),
      starts: fc.infiniteStream(fc.boolean()),
    });
    fc.assert(
      fc.property(scenario, ({ replicas, surge, unavailable, olds, starts }) => {
        const limits = boundsOf(deployment(replicas, surge, unavailable));
        // A settled Deployment of `replicas` pods, spread over old sets.
        const oldSets = spread(replicas, olds).map((count, at) =>
          set(`old-${at}`, { replicas: count, revision: at + 1 }),
        );
        const first = initialReplicas(limits, oldSets, false);
        let state: State = { next: set("new", { replicas: first, available: 0, revision: 9 }), oldSets };
        for (let round = 0; round < 100; round++) {
          state = stepped(limits, state);
          const all = [state.next, ...state.oldSets];
          expect(sumOf(all, replicasOf)).toBeLessThanOrEqual(replicas + limits.maxSurge);
          expect(sumOf(all, availableOf)).toBeGreaterThanOrEqual(replicas - limits.maxUnavailable);
          if (starts.next().value) state = { ...state, next: oneMoreAvailable(state.next) };
        }
        for (let round = 0; round < 100; round++)
          state = stepped(limits, { ...state, next: oneMoreAvailable(state.next) });
        expect(replicasOf(state.next)).toBe(replicas);
        expect(sumOf(state.oldSets, replicasOf)).toBe(0);
        expect(planRolling(limits, state.next, state.oldSets)).toEqual([]);
      }),
      { numRuns: 200 },
    );
  });
});

describe("a Deployment that is recreated", () => {
  const bounds = { replicas: 3, maxSurge: 0, maxUnavailable: 3 };
  it("starts its new pods when the last old one is gone, not when its deletion is requested", () => {
    const running = [set("old", { replicas: 2 })];
    expect(planRecreate(bounds, undefined, running)).toMatchObject({ mayStart: false });
    expect(shown(planRecreate(bounds, undefined, running).scale)).toEqual([["old", 0]]);
    expect(planRecreate(bounds, undefined, [set("old", { replicas: 0, exist: 1 })]).mayStart).toBe(false);
    expect(planRecreate(bounds, undefined, [set("old", { replicas: 0 })]).mayStart).toBe(true);
  });
});

describe("a change of replicas in the middle of a rollout", () => {
  it("is seen by what the sets were last scaled for", () => {
    const bounds = boundsOf(deployment(5));
    expect(isScalingEvent(bounds, [set("a", { replicas: 3, desired: 3 })])).toBe(true);
    expect(isScalingEvent(bounds, [set("a", { replicas: 3, desired: 5 })])).toBe(false);
    expect(isScalingEvent(bounds, [set("a", { replicas: 0, desired: 3 })])).toBe(false);
  });
  it("is shared out in proportion", () => {
    const bounds = { replicas: 20, maxSurge: 5, maxUnavailable: 5 };
    const next = set("new", { replicas: 5, revision: 2, max: 13 });
    const old = set("old", { replicas: 8, revision: 1, max: 13 });
    expect(shown(planProportional(bounds, next, [old]))).toEqual([
      ["old", 15],
      ["new", 10],
    ]);
  });
  it("always converges to spec.replicas, the surge included", () => {
    const sizes = fc.integer({ min: 1, max: 20 });
    fc.assert(
      fc.property(sizes, sizes, fc.nat(30), fc.nat(5), (newSize, oldSize, replicas, maxSurge) => {
        const max = newSize + oldSize;
        const sets = [
          set("new", { replicas: newSize, revision: 2, max }),
          set("old", { replicas: oldSize, max }),
        ];
        const scaled = planProportional({ replicas, maxSurge, maxUnavailable: 0 }, sets[0], sets.slice(1));
        const after = sets.map(
          (it) => scaled.find((one) => one.set === it)?.replicas ?? it.spec?.replicas ?? 0,
        );
        expect(after.reduce((sum, count) => sum + count, 0)).toBe(replicas === 0 ? 0 : replicas + maxSurge);
        expect(Math.min(...after)).toBeGreaterThanOrEqual(0);
      }),
    );
  });
});

describe("the history of a Deployment", () => {
  it("deletes its oldest revisions beyond the limit, but none that still has pods", () => {
    const sets = [1, 2, 3, 4].map((revision) =>
      set(`r${revision}`, { replicas: revision === 1 ? 1 : 0, revision }),
    );
    const limited = deployment(1);
    limited.spec = { ...limited.spec!, revisionHistoryLimit: 2 };
    expect(planCleanup(limited, sets).map((it) => it.metadata.name)).toEqual(["r2", "r3"]);
    expect(planCleanup(deployment(1), sets)).toEqual([]);
  });
});

interface State {
  readonly next: ReplicaSet;
  readonly oldSets: readonly ReplicaSet[];
}

/** What the ReplicaSet controller makes of one pass of the plan. */
function stepped(limits: Bounds, { next, oldSets }: State): State {
  const plan = new Map(planRolling(limits, next, oldSets).map((it) => [it.set, it.replicas]));
  const apply = (it: ReplicaSet): ReplicaSet => scaledTo(it, plan.get(it) ?? replicasOf(it));
  return { next: apply(next), oldSets: oldSets.map(apply) };
}

const availableOf = (it: ReplicaSet): number => it.status?.availableReplicas ?? 0;

function spread(total: number, parts: number): number[] {
  return Array.from({ length: parts }, (_, at) => Math.floor(total / parts) + (at < total % parts ? 1 : 0));
}
function scaledTo(it: ReplicaSet, replicas: number): ReplicaSet {
  const availableReplicas = Math.min(it.status?.availableReplicas ?? 0, replicas);
  return { ...it, spec: { ...it.spec, selector: {}, replicas }, status: { replicas, availableReplicas } };
}
function oneMoreAvailable(it: ReplicaSet): ReplicaSet {
  const replicas = it.spec?.replicas ?? 0;
  return {
    ...it,
    status: { replicas, availableReplicas: Math.min(replicas, (it.status?.availableReplicas ?? 0) + 1) },
  };
}
