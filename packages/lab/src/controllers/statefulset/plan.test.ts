import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { StatefulSet } from "@fairlead/kube/api/apps/v1/types.ts";
import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { newPod, ordinalOf } from "./identity.ts";
import { planPods, planStatus } from "./plan.ts";

const NOW = Date.UTC(2026, 0, 1, 1);
const ago = (seconds: number): string => `${new Date(NOW - seconds * 1000).toISOString().slice(0, 19)}Z`;

function set(spec: Partial<NonNullable<StatefulSet["spec"]>>): StatefulSet {
  const template = { metadata: { labels: { app: "db" } }, spec: { containers: [] } };
  return {
    metadata: { name: "db", namespace: "work", uid: "db-1", generation: 3 },
    spec: { selector: { matchLabels: { app: "db" } }, template, serviceName: "peers", ...spec },
  };
}

type State = "ready" | "starting" | "failed" | "deleting";

function pod(ordinal: number, state: State = "ready", revision = "new"): Pod {
  const made = newPod(set({}), ordinal, { spec: { containers: [] } }, revision);
  const isReady = state === "ready" || state === "deleting";
  return {
    ...made,
    metadata: {
      ...made.metadata,
      uid: `${ordinal}`,
      ...(state === "deleting" ? { deletionTimestamp: ago(0) } : {}),
    },
    status: {
      phase: state === "failed" ? "Failed" : "Running",
      conditions: [{ type: "Ready", status: isReady ? "True" : "False", lastTransitionTime: ago(10) }],
    },
  };
}

function plan(of: StatefulSet, own: readonly Pod[]) {
  const { create, delete: gone } = planPods({ set: of, own, current: "old", update: "new", nowMs: NOW });
  return [
    ...create.map(({ ordinal, revision }) => `+${ordinal} ${revision}`),
    ...gone.map((it) => `-${it.metadata.name}`),
  ];
}

describe("the pods of a StatefulSet", () => {
  it("have a name, a host name and labels that tell their place", () => {
    const made = newPod(set({}), 2, { metadata: { labels: { app: "db" } } }, "db-abc");
    expect(made.metadata.name).toBe("db-2");
    expect(made.spec).toMatchObject({ hostname: "db-2", subdomain: "peers" });
    expect(made.metadata.labels).toEqual({
      app: "db",
      "statefulset.kubernetes.io/pod-name": "db-2",
      "apps.kubernetes.io/pod-index": "2",
      "controller-revision-hash": "db-abc",
    });
    expect(ordinalOf(set({}), made)).toBe(2);
    for (const name of ["db-02", "db-", "db-x", "other-1", "db-1-1"])
      expect(ordinalOf(set({}), { ...made, metadata: { name } })).toBeUndefined();
  });

  it("are made one after the other, each when all before it are available", () => {
    const three = set({ replicas: 3 });
    expect(plan(three, [])).toEqual(["+0 new"]);
    expect(plan(three, [pod(0, "starting")])).toEqual([]);
    expect(plan(three, [pod(0)])).toEqual(["+1 new"]);
    expect(plan(three, [pod(0), pod(2)])).toEqual(["+1 new"]);
    expect(plan(set({ replicas: 2, minReadySeconds: 11 }), [pod(0)])).toEqual([]);
    expect(plan(set({ replicas: 2, minReadySeconds: 10 }), [pod(0)])).toEqual(["+1 new"]);
  });

  it("start at the ordinal of spec.ordinals", () => {
    expect(plan(set({ replicas: 2, ordinals: { start: 5 } }), [pod(5)])).toEqual(["+6 new"]);
    expect(plan(set({ replicas: 1, ordinals: { start: 5 } }), [pod(5), pod(0)])).toEqual(["-db-0"]);
  });

  it("are all made and removed at once under Parallel", () => {
    const parallel = { podManagementPolicy: "Parallel" } as const;
    expect(plan(set({ replicas: 2, ...parallel }), [])).toEqual(["+0 new", "+1 new"]);
    expect(plan(set({ replicas: 0, ...parallel }), [pod(0), pod(1)])).toEqual(["-db-1", "-db-0"]);
  });

  it("go one after the other, the highest first, when all that stay are well", () => {
    expect(plan(set({ replicas: 1 }), [pod(0), pod(1), pod(2)])).toEqual(["-db-2"]);
    expect(plan(set({ replicas: 1 }), [pod(0), pod(1), pod(2, "deleting")])).toEqual([]);
    expect(plan(set({ replicas: 1 }), [pod(0, "starting"), pod(1)])).toEqual([]);
    // It is the one that is not well: nothing is to be waited for.
    expect(plan(set({ replicas: 1 }), [pod(0), pod(1), pod(2, "starting")])).toEqual(["-db-2"]);
    expect(plan(set({ replicas: 1 }), [pod(0), pod(1, "starting"), pod(2, "starting")])).toEqual([]);
  });

  it("that ended are deleted, and recreated once they are gone", () => {
    expect(plan(set({ replicas: 2 }), [pod(0, "failed"), pod(1)])).toEqual(["-db-0"]);
    expect(plan(set({ replicas: 2 }), [pod(1)])).toEqual(["+0 new"]);
  });

  it("are updated one at a time, the highest first, down to the partition", () => {
    const old = (ordinal: number): Pod => pod(ordinal, "ready", "old");
    const two = set({ replicas: 2 });
    expect(plan(two, [old(0), old(1)])).toEqual(["-db-1"]);
    expect(plan(two, [old(0), pod(1, "deleting", "old")])).toEqual([]);
    expect(plan(two, [old(0), pod(1, "starting")])).toEqual([]);
    expect(plan(two, [old(0), pod(1)])).toEqual(["-db-0"]);
    const held = set({ replicas: 2, updateStrategy: { rollingUpdate: { partition: 1 } } });
    expect(plan(held, [old(0), pod(1)])).toEqual([]);
    expect(plan(held, [pod(1)])).toEqual(["+0 old"]);
    expect(plan(set({ replicas: 1, updateStrategy: { type: "OnDelete" } }), [old(0)])).toEqual([]);
  });

  it("converge to the desired state from any state, never with more than one less than before", () => {
    const states = fc.constantFrom<State>("ready", "starting", "failed", "deleting");
    const someOf = fc.dictionary(
      fc.integer({ min: 0, max: 6 }).map(String),
      fc.record({ state: states, revision: fc.constantFrom("old", "new") }),
    );
    fc.assert(
      fc.property(someOf, fc.integer({ min: 0, max: 5 }), (from, replicas) => {
        let own = Object.entries(from).map(([at, { state, revision }]) => pod(Number(at), state, revision));
        const wanted = Array.from({ length: replicas }, (_, at) => `db-${at}`);
        for (let pass = 0; pass < 60; pass++) {
          const view = { set: set({ replicas }), own, current: "old", update: "new", nowMs: NOW };
          const next = planPods(view);
          expect(next.create.length + next.delete.length).toBeLessThanOrEqual(1);
          own = own
            .filter((it) => it.metadata.deletionTimestamp === undefined && !next.delete.includes(it))
            // What was starting has started.
            .map((it) =>
              it.status?.phase === "Failed"
                ? it
                : pod(Number(it.metadata.uid), "ready", it.metadata.labels?.["controller-revision-hash"]),
            )
            .concat(next.create.map(({ ordinal, revision }) => pod(ordinal, "starting", revision)));
        }
        expect(own.map((it) => it.metadata.name).toSorted()).toEqual(wanted);
        const { status } = planStatus({
          set: set({ replicas }),
          own,
          current: "old",
          update: "new",
          nowMs: NOW,
        });
        expect(status).toMatchObject({ readyReplicas: replicas, updatedReplicas: replicas });
        expect(status.currentRevision).toBe("new");
      }),
      { numRuns: 200 },
    );
  });
});

describe("the status of a StatefulSet", () => {
  it("counts, and keeps the current revision until the update is through", () => {
    const own = [pod(0, "ready", "old"), pod(1), pod(2, "starting")];
    const view = { set: set({ replicas: 3, minReadySeconds: 15 }), own, current: "old", update: "new" };
    expect(planStatus({ ...view, nowMs: NOW })).toEqual({
      status: {
        replicas: 3,
        readyReplicas: 2,
        availableReplicas: 0,
        currentReplicas: 1,
        updatedReplicas: 2,
        currentRevision: "old",
        updateRevision: "new",
        collisionCount: 0,
        observedGeneration: 3,
      },
      checkInMs: 5000,
    });
  });
});
