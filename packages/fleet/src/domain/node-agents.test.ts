import { expect, it } from "vitest";
import type { Node } from "@fairlead/kube/api/core/v1/types.ts";
import { isReportChanged, nodeAgentsOn, someOf } from "./node-agents.ts";

const NOW = "2026-01-01T01:00:00Z";
const NOW_MS = Date.parse(NOW);

function node(name: string, at: string | undefined, { reason = "Enforced", ready = "True" } = {}): Node {
  const report = { type: "fairlead.dev/NetworkPolicy", status: "True" as const, reason };
  return {
    metadata: { name },
    status: {
      conditions: [
        { type: "Ready", status: ready as "True" },
        ...(at === undefined ? [] : [{ ...report, lastHeartbeatTime: at }]),
      ],
    },
  };
}

it("agents run on nodes on which they have reported lately", () => {
  const nodes = [
    node("n10", NOW),
    node("n2", "2026-01-01T00:46:00Z"),
    node("n3", "2026-01-01T00:44:00Z"),
    node("n4", undefined),
    node("n5", "2026-01-01T02:00:00Z"),
    node("n6", "yesterday"),
  ];
  const found = nodeAgentsOn(nodes, NOW_MS);
  expect(found.present).toEqual(["n2", "n5", "n10"]);
  expect(found.missing).toEqual(["n3", "n4", "n6"]);
  expect(found.areEverywhere).toBe(false);
});

it("nodes that are not ready need none, and no agents are everywhere where there are no nodes", () => {
  const down = node("n2", undefined, { ready: "Unknown" });
  expect(nodeAgentsOn([node("n1", NOW), down], NOW_MS).areEverywhere).toBe(true);
  expect(nodeAgentsOn([], NOW_MS).areEverywhere).toBe(false);
});

it("a report changes by what it says, not by its time", () => {
  const before = node("n", "2026-01-01T00:50:00Z");
  expect(isReportChanged(before, node("n", NOW))).toBe(false);
  expect(isReportChanged(before, node("n", NOW, { reason: "BridgeTrafficNotFiltered" }))).toBe(true);
  expect(isReportChanged(before, node("n", undefined))).toBe(true);
  expect(isReportChanged(before, undefined)).toBe(true);
});

it("the versions of agents that report are listed once each, with what they support", () => {
  const with_ = (of: Node, message: string): Node => ({
    ...of,
    status: {
      conditions: [
        ...(of.status?.conditions ?? []),
        { type: "fairlead.dev/NodeAgent", status: "True", message },
      ],
    },
  });
  const [old, recent] = ["0.1.0 for Kubernetes 1.25-1.36", "0.2.0 for Kubernetes 1.27-1.38"];
  const nodes = [
    with_(node("n1", NOW), recent),
    with_(node("n2", NOW), old),
    with_(node("n3", NOW), old),
    with_(node("n4", "2026-01-01T00:44:00Z"), "0.0.1 for Kubernetes 1.20-1.21"),
    node("n5", NOW),
  ];
  expect(nodeAgentsOn(nodes, NOW_MS).support.map((it) => it.version)).toEqual(["0.1.0", "0.2.0"]);
  expect(isReportChanged(with_(node("n", NOW), old), with_(node("n", NOW), recent))).toBe(true);
});

it("of many nodes three are named", () => {
  expect(someOf(["a", "b", "c"])).toBe("a, b, c");
  expect(someOf(["a", "b", "c", "d"])).toBe("a, b, c and 1 other");
});
