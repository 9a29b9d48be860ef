import { expect, it } from "vitest";
import type { Node, Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { resourceUsageOf } from "./resource-usage.ts";

const node = (name: string, cpu: string, memory: string): Node => ({
  metadata: { name },
  status: { capacity: { cpu: "4", memory: "8Gi", pods: "110" }, allocatable: { cpu, memory } },
});
const pod = (name: string, cpu: string, more: Partial<Pod> = {}): Pod => ({
  metadata: { name, namespace: "work" },
  spec: { nodeName: "n1", containers: [{ name: "c", resources: { requests: { cpu, memory: "1Gi" } } }] },
  ...more,
});

it("the usage of a cluster sums nodes, and subtracts what pods on nodes request", () => {
  const nodes = [node("n1", "3500m", "7Gi"), node("n2", "3500m", "7Gi")];
  const pods = [
    pod("a", "500m"),
    pod("finished", "2", { status: { phase: "Succeeded" } }),
    pod("waiting", "2", { spec: { containers: [{ name: "c", resources: { requests: { cpu: "2" } } }] } }),
  ];
  expect(resourceUsageOf(nodes, pods, 0)).toEqual({
    capacity: { cpu: "8", memory: "16Gi" },
    allocatable: { cpu: "7", memory: "14Gi" },
    available: { cpu: "6500m", memory: "13Gi" },
  });
});

it("a cluster whose pods request more than its nodes have has nothing available, not less", () => {
  expect(resourceUsageOf([node("n1", "1", "1Gi")], [pod("a", "3")], 0).available).toEqual({
    cpu: "0",
    memory: "0",
  });
});

it("the usage of a cluster without nodes is zero", () => {
  const zero = { cpu: "0", memory: "0" };
  expect(resourceUsageOf([], [], 0)).toEqual({ capacity: zero, allocatable: zero, available: zero });
});
