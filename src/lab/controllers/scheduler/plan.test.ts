import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Node, Pod, Taint, Toleration } from "#api/core/v1/types.ts";
import { type NodeView, planSchedule, tolerates } from "./plan.ts";

interface NodeParts {
  readonly pods?: number;
  readonly siblings?: number;
  readonly ready?: boolean;
  readonly labels?: Record<string, string>;
  readonly taints?: Taint[];
  readonly unschedulable?: boolean;
  readonly room?: number;
}

function node(name: string, parts: NodeParts = {}): NodeView {
  const { pods = 0, siblings = 0, ready = true, labels = {}, taints, unschedulable, room = 110 } = parts;
  const spec = {
    ...(taints === undefined ? {} : { taints }),
    ...(unschedulable === undefined ? {} : { unschedulable }),
  };
  const conditions = [{ type: "Ready", status: ready ? ("True" as const) : ("False" as const) }];
  const object: Node = {
    metadata: { name, labels },
    spec,
    status: { conditions, allocatable: { pods: String(room) } },
  };
  return { node: object, pods, siblings };
}

function pod(spec: Partial<NonNullable<Pod["spec"]>> = {}): Pod {
  return { metadata: { name: "p", namespace: "work" }, spec: { containers: [], ...spec } };
}

describe("a pod", () => {
  it("goes where fewest of its kind are, then where fewest pods are, then to the first by name", () => {
    const bound = (nodes: NodeView[]) => planSchedule(pod(), nodes);
    expect(bound([node("a", { siblings: 1, pods: 1 }), node("b", { pods: 9 })])).toEqual({
      act: "bind",
      node: "b",
    });
    expect(bound([node("a", { pods: 2 }), node("b", { pods: 1 })])).toEqual({ act: "bind", node: "b" });
    expect(bound([node("b"), node("a")])).toEqual({ act: "bind", node: "a" });
  });

  it("is told of every node why it cannot go there", () => {
    const nodes = [
      node("a", { ready: false }),
      node("b", { unschedulable: true }),
      node("c", { taints: [{ key: "dedicated", value: "db", effect: "NoSchedule" }] }),
      node("d", { room: 3, pods: 3, labels: { disk: "fast" } }),
      node("e"),
      node("f"),
    ];
    const plan = planSchedule(pod({ nodeSelector: { disk: "fast" } }), nodes);
    expect(plan).toEqual({
      act: "wait",
      message:
        "0/6 nodes are available: 1 Too many pods, 1 node(s) had untolerated taint {dedicated: db}, " +
        "1 node(s) were not ready, 1 node(s) were unschedulable, 2 node(s) didn't match Pod's node affinity/selector.",
    });
    expect(planSchedule(pod(), [])).toEqual({
      act: "wait",
      message: "0/0 nodes are available: no nodes available to schedule pods",
    });
  });

  it("avoids a node that would rather not have it, and goes there when there is no other", () => {
    const shy = node("a", { taints: [{ key: "busy", effect: "PreferNoSchedule" }] });
    expect(planSchedule(pod(), [shy, node("b", { pods: 50 })])).toEqual({ act: "bind", node: "b" });
    expect(planSchedule(pod(), [shy])).toEqual({ act: "bind", node: "a" });
  });

  it("spreads evenly when one is placed after the other", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 0, max: 40 }), (nodes, pods) => {
        const counts = new Map(Array.from({ length: nodes }, (_, at) => [`n${at}`, 0]));
        for (let placed = 0; placed < pods; placed++) {
          const views = [...counts].map(([name, count]) => node(name, { pods: count, siblings: count }));
          const plan = planSchedule(pod(), views);
          if (plan.act === "bind") counts.set(plan.node, (counts.get(plan.node) ?? 0) + 1);
        }
        const sizes = [...counts.values()];
        expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThanOrEqual(1);
      }),
    );
  });
});

describe("a toleration", () => {
  const taint: Taint = { key: "dedicated", value: "db", effect: "NoSchedule" };
  it.each<[Toleration, boolean]>([
    [{ key: "dedicated", value: "db", effect: "NoSchedule" }, true],
    [{ key: "dedicated", operator: "Equal", value: "db" }, true],
    [{ key: "dedicated", value: "web" }, false],
    [{ key: "dedicated", operator: "Exists" }, true],
    [{ key: "dedicated", operator: "Exists", effect: "NoExecute" }, false],
    [{ operator: "Exists" }, true],
    [{ key: "other", operator: "Exists" }, false],
    [{}, false],
  ])("%j", (toleration, expected) => {
    expect(tolerates(pod({ tolerations: [toleration] }), taint)).toBe(expected);
  });
});
