import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { DaemonSet } from "@fairlead/kube/api/apps/v1/types.ts";
import type { Node, Pod, Taint } from "@fairlead/kube/api/core/v1/types.ts";
import { planPods, planStatus, type View } from "./plan.ts";
import { fitOf, HASH_LABEL, newPod, nodeOf } from "./pods.ts";

type Rolling = { maxUnavailable?: number | string; maxSurge?: number | string };

function daemonSet(
  rollingUpdate: Rolling = { maxUnavailable: 1 },
  spec: Partial<DaemonSet["spec"]> = {},
): DaemonSet {
  const template = { metadata: { labels: { app: "agent" } }, spec: { containers: [{ name: "c" }] } };
  const updateStrategy = { type: "RollingUpdate" as const, rollingUpdate };
  return {
    metadata: { name: "agent", namespace: "work", uid: "ds", generation: 1 },
    spec: { selector: { matchLabels: { app: "agent" } }, template, updateStrategy, ...spec },
  };
}

function node(name: string, taints: Taint[] = [], labels: Record<string, string> = {}): Node {
  return { metadata: { name, labels }, spec: { taints } };
}

/** A cluster of one DaemonSet, whose pods become ready when told. */
class World {
  set: DaemonSet;
  nodes: Node[];
  pods: Pod[] = [];
  hash = "v1";
  #last = 0;

  constructor(set: DaemonSet, nodes: Node[]) {
    this.set = set;
    this.nodes = nodes;
  }

  view(): View {
    return { set: this.set, nodes: this.nodes, own: this.pods, hash: this.hash, nowMs: 0 };
  }

  pass(): void {
    const plan = planPods(this.view());
    const gone = new Set(plan.delete);
    this.pods = this.pods.filter((pod) => !gone.has(pod));
    for (const name of plan.create) {
      const suffix = String(++this.#last).padStart(5, "0");
      const pod = newPod(this.set, name, { hash: this.hash, suffix });
      this.pods.push({ ...pod, metadata: { ...pod.metadata, creationTimestamp: suffix } });
    }
  }

  ready(at: number): void {
    const conditions = [
      { type: "Ready", status: "True" as const, lastTransitionTime: "1970-01-01T00:00:00Z" },
    ];
    this.pods = this.pods.map((pod, index) =>
      index === at
        ? {
            ...pod,
            spec: { containers: [], ...pod.spec, nodeName: nodeOf(pod) },
            status: { phase: "Running", conditions },
          }
        : pod,
    );
  }

  allReady(): void {
    for (const at of this.pods.keys()) this.ready(at);
  }

  get serving(): number {
    return new Set(this.pods.filter((pod) => pod.status?.phase === "Running").map(nodeOf)).size;
  }

  get isDone(): boolean {
    return (
      this.pods.length === this.nodes.length &&
      this.pods.every((pod) => pod.metadata.labels?.[HASH_LABEL] === this.hash && pod.status !== undefined)
    );
  }
}

const nodes = (count: number): Node[] => Array.from({ length: count }, (_, at) => node(`n${at}`));

describe("a DaemonSet", () => {
  it("has one pod on each node that fits, bound there by its affinity", () => {
    const taint: Taint = { key: "dedicated", value: "db", effect: "NoSchedule" };
    const world = new World(daemonSet(), [...nodes(2), node("n9", [taint])]);
    world.pass();
    expect(world.pods.map(nodeOf)).toEqual(["n0", "n1"]);
    expect(world.pods.map((pod) => pod.spec?.nodeName)).toEqual([undefined, undefined]);
    world.pass();
    expect(world.pods).toHaveLength(2);
    expect(planStatus(world.view()).status).toMatchObject({
      desiredNumberScheduled: 2,
      currentNumberScheduled: 2,
      numberReady: 0,
      numberUnavailable: 2,
    });
  });

  it("tolerates nodes that are cordoned, not ready or under pressure", () => {
    const taints: Taint[] = [
      { key: "node.kubernetes.io/not-ready", effect: "NoExecute" },
      { key: "node.kubernetes.io/unreachable", effect: "NoExecute" },
      { key: "node.kubernetes.io/unschedulable", effect: "NoSchedule" },
      { key: "node.kubernetes.io/memory-pressure", effect: "NoSchedule" },
    ];
    expect(fitOf(daemonSet(), node("n0", taints))).toEqual({ mayStart: true, mayStay: true });
    const noSchedule: Taint = { key: "other", effect: "NoSchedule" };
    expect(fitOf(daemonSet(), node("n0", [noSchedule]))).toEqual({ mayStart: false, mayStay: true });
    const noExecute: Taint = { key: "other", effect: "NoExecute" };
    expect(fitOf(daemonSet(), node("n0", [noExecute]))).toEqual({ mayStart: false, mayStay: false });
  });

  it("leaves a node that no longer fits, and starts on a new node", () => {
    const template = { metadata: { labels: {} }, spec: { containers: [], nodeSelector: { role: "edge" } } };
    const edge = (name: string): Node => node(name, [], { role: "edge" });
    const world = new World(daemonSet({}, { template }), [edge("a"), edge("b")]);
    world.pass();
    world.nodes = [node("a"), edge("b"), edge("c")];
    expect(planStatus(world.view()).status.numberMisscheduled).toBe(1);
    world.pass();
    expect(new Set(world.pods.map(nodeOf))).toEqual(new Set(["b", "c"]));
    world.nodes = [edge("b")];
    world.pass();
    expect(world.pods.map(nodeOf)).toEqual(["b"]);
  });

  it("replaces pods that ended", () => {
    const world = new World(daemonSet(), nodes(1));
    world.pass();
    world.pods = world.pods.map((pod) => ({ ...pod, status: { phase: "Failed" } }));
    const [failed] = world.pods;
    world.pass();
    world.pass();
    expect(world.pods).toHaveLength(1);
    expect(world.pods).not.toContain(failed);
  });

  it("updates all pods in the end and never exceeds maxUnavailable", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 6 }),
        fc.integer({ min: 1, max: 3 }),
        fc.array(fc.nat(8)),
        (count, maxUnavailable, order) => {
          const world = new World(daemonSet({ maxUnavailable }), nodes(count));
          world.pass();
          world.allReady();
          world.hash = "v2";
          for (const at of order) {
            world.pass();
            expect(world.serving).toBeGreaterThanOrEqual(count - maxUnavailable);
            expect(world.pods.length).toBeLessThanOrEqual(count);
            world.ready(at);
          }
          for (let at = 0; at < 20; at++) {
            world.pass();
            expect(world.serving).toBeGreaterThanOrEqual(count - maxUnavailable);
            world.allReady();
          }
          expect(world.isDone).toBe(true);
        },
      ),
    );
  });

  it("with a surge keeps every node served while it updates, and makes no more pods than the surge", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 6 }),
        fc.integer({ min: 1, max: 3 }),
        fc.array(fc.nat(8)),
        (count, maxSurge, order) => {
          const world = new World(daemonSet({ maxSurge, maxUnavailable: 0 }), nodes(count));
          world.pass();
          world.allReady();
          world.hash = "v2";
          const check = (): void => {
            expect(world.serving).toBe(count);
            expect(world.pods.length).toBeLessThanOrEqual(count + maxSurge);
          };
          for (const at of order) {
            world.pass();
            check();
            world.ready(at);
          }
          for (let at = 0; at < 20; at++) {
            world.pass();
            check();
            world.allReady();
          }
          expect(world.isDone).toBe(true);
        },
      ),
    );
  });

  it("updated on deletion only leaves old pods alone", () => {
    const world = new World(daemonSet({}, { updateStrategy: { type: "OnDelete" } }), nodes(2));
    world.pass();
    world.allReady();
    world.hash = "v2";
    world.pass();
    expect(world.pods.map((pod) => pod.metadata.labels?.[HASH_LABEL])).toEqual(["v1", "v1"]);
    expect(planStatus(world.view()).status).toMatchObject({ updatedNumberScheduled: 0, numberAvailable: 2 });
  });
});
